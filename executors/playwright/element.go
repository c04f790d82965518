package playwright

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	pw "github.com/mxschmitt/playwright-go"
)

// plainCSS are selectors that mean the same to the driver and to the page. All
// others are the driver's to understand.
var plainCSS = regexp.MustCompile(`^[\w\s#.,>+~*=^$|"'\[\]-]+$`)

// onElement runs a script of two parameters, an element and arg, when exactly
// one element is meant and is there. Else it returns null: there is none yet,
// there are several, or the page has trees of its own that the driver looks
// into. Asking the page itself saves the driver's search, with the script that
// it brings along, and six calls.
const onElement = `([css, nth, arg]) => {
  const all = document.querySelectorAll(css);
  const e = nth == null ? (all.length === 1 ? all[0] : null) : all[nth < 0 ? all.length + nth : nth];
  if (!e) return null;
  for (const other of document.querySelectorAll('*')) if (other.shadowRoot) return null;
  return [(%s)(e, arg)];
}`

// evaluateOn runs script(element, arg) on the element of a step. It waits for
// the element.
func (r *run) evaluateOn(t target, script string, arg any, s step) (answer any, err error) {
	if css, ok := strings.CutPrefix(selector(t.Selector), "css="); ok && plainCSS.MatchString(css) {
		if answer, err, ok = r.evaluateNow(css, t.Nth, script, arg, s); ok {
			return answer, err
		}
	}
	err = r.bounded(s, func() (err error) {
		answer, err = r.locate(t).Evaluate(script, arg, pw.LocatorEvaluateOptions{Timeout: r.limit(s)})
		return err
	})
	return answer, err
}

// evaluateNow does it if the element is there. It is not ok if that is not
// known. A page that is busy for longer than the step may take is left so.
func (r *run) evaluateNow(css string, nth *int, script string, arg any, s step) (value any, err error, ok bool) {
	type reply struct {
		answer any
		err    error
	}
	page, done := r.page(), make(chan reply, 1)
	var which any
	if nth != nil {
		which = *nth
	}
	r.surface.later(func() {
		answer, err := page.Evaluate(fmt.Sprintf(onElement, script), []any{css, which, arg})
		done <- reply{answer, err}
	})
	timer := time.NewTimer(time.Duration(*r.limit(s)) * time.Millisecond)
	defer timer.Stop()
	select {
	case got := <-done:
		found, there := got.answer.([]any)
		if got.err != nil || !there || len(found) != 1 {
			return nil, nil, false
		}
		return found[0], nil, true
	case <-timer.C:
		return nil, pw.ErrTimeout, true
	case <-r.over:
		return nil, errSurfaceClosed, true
	}
}
