package playwright

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	pw "github.com/mxschmitt/playwright-go"

	"github.com/autobot-fleet/autobot/executors"
)

// oneLine is the first line of an error of the library, without its call log.
func oneLine(err error) string {
	text := strings.TrimSpace(err.Error())
	for _, prefix := range []string{"playwright: ", "timeout: ", "target closed: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	line, _, _ := strings.Cut(text, "\n")
	return cut(strings.TrimSpace(line), maxMessage)
}

// explain turns what went wrong into what users see: the code, what the step
// was about, and what to do. No secret is left in it. s is nil outside of
// steps.
func (r *run) explain(s step, err error) error {
	if err == nil {
		return nil
	}
	if r.surface != nil && targetClosed(err) {
		r.awaitNews()
	}
	e := r.classify(s, err)
	e.Message = r.secrets.message(e.Message)
	e.Hint = r.secrets.message(e.Hint)
	e.Detail = r.secrets.message(e.Detail)
	if r.ctx.Err() != nil {
		return ended{e, r.ctx.Err()}
	}
	return e
}

// ended is an error of a task whose context has ended: the context's error
// decides about the code.
type ended struct {
	shown *executors.Error
	cause error
}

func (e ended) Error() string   { return e.shown.Error() }
func (e ended) Unwrap() []error { return []error{e.shown, e.cause} }

func (r *run) classify(s step, err error) *executors.Error {
	var own *executors.Error
	switch why := r.reason(); {
	case r.ctx.Err() != nil:
		return executors.AsError(r.ctx.Err())
	case errors.Is(why, errPageCrashed):
		return r.crashError()
	case why != nil:
		return executors.AsError(why)
	case r.surface != nil && (r.surface.crashed.Load() || strings.Contains(err.Error(), "Page crashed")):
		return r.crashError()
	case r.surface != nil && !r.surface.browser.alive(), connectionLost(err):
		return executors.Errorf(executors.CodeBrowserCrashed, "the browser ended under the task: %s", oneLine(err))
	case r.surface != nil && r.overBudget() != nil: // whatever else failed, failed for that
		return executors.AsError(r.overBudget())
	case errors.As(err, &own):
		return own
	case s == nil:
		return executors.Errorf(executors.CodeEngineError, "%s", oneLine(err))
	}
	e := r.stepError(s, err)
	var inner fieldError
	if errors.As(err, &inner) {
		e.Message = "field " + inner.name + ": " + e.Message
		e.Field = r.fieldOf("fields." + inner.name)
	}
	return e
}

// crashError says why a page's process has died, as far as that is known.
func (r *run) crashError() *executors.Error {
	b := r.surface.browser
	if at := b.killed.Load(); at != 0 && time.Since(time.Unix(0, at)) < 10*time.Second {
		e := executors.Errorf(executors.CodeBrowserCrashed, "the page was ended: it held more than %d MiB", r.ex.settings.RendererMemory/mib)
		e.Hint = "an administrator can raise executors.playwright.renderer_memory"
		return e
	}
	return executors.Errorf(executors.CodeBrowserCrashed, "the page crashed, most often for want of memory")
}

// connectionLost reports errors of calls to a driver or browser that is gone.
func connectionLost(err error) bool {
	text := err.Error()
	for _, part := range []string{"Connection closed", "could not read protocol", "transport closed", "could not send message", "Browser has been closed", "browser has been closed"} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return errors.Is(err, errBrowserGone)
}

// targetClosed reports errors of calls whose page, context or browser went
// away.
func targetClosed(err error) bool {
	return containsAny(err.Error(), "has been closed", "Target closed", "Target crashed")
}

// awaitNews waits for the news of what ended a call, which may come after the
// call's own end. Most often it is there already.
func (r *run) awaitNews() {
	timer := time.NewTimer(newsWait)
	defer timer.Stop()
	select {
	case <-r.over:
	case <-r.surface.browser.lost:
	case <-r.surface.browser.driver.gone:
	case <-timer.C:
	}
}

var (
	matches    = regexp.MustCompile(`resolved to (\d+) elements`)
	scriptLine = regexp.MustCompile(`<anonymous>:(\d+):(\d+)`)
)

// stepError gives a failure of a step its code.
func (r *run) stepError(s step, err error) *executors.Error {
	text := err.Error()
	t, has := targetOf(s)
	var inner fieldError
	if errors.As(err, &inner) {
		t, has = target{Selector: inner.selector}, true
	}
	page := cut(r.page().URL(), 200)
	switch {
	case strings.Contains(text, "strict mode violation"):
		count := "several"
		if m := matches.FindStringSubmatch(text); m != nil {
			count = m[1]
		}
		e := executors.Errorf(executors.CodeElementAmbiguous, "%s: %s elements match %s on %s", r.where(), count, t.Selector, page)
		e.Field, e.Hint = r.fieldOf("selector"), "make the selector narrower, or choose one with nth"
		return e
	case badSelector(text):
		e := executors.Errorf(executors.CodeInvalidInput, "%s: %s is not a selector: %s", r.where(), t.Selector, oneLine(err))
		e.Field = r.fieldOf("selector")
		return e
	case strings.Contains(text, "Unknown key"):
		e := executors.Errorf(executors.CodeInvalidInput, "%s: %s", r.where(), oneLine(err))
		e.Field = r.fieldOf("key")
		return e
	case errors.Is(err, pw.ErrTimeout):
		return r.timedOut(s, t, has, page)
	case drawingFailed(text) && r.late(s):
		return r.timedOut(s, target{}, false, page)
	case drawingFailed(text):
		if shot, ok := s.(*screenshotStep); ok && !shot.FullPage {
			return executors.Errorf(executors.CodeEngineError, "%s: the browser could not draw the page: %s", r.where(), oneLine(err))
		}
		return executors.Errorf(executors.CodeTooLarge, "%s: the page is too large to be drawn: %s", r.where(), oneLine(err))
	}
	if evaluated, ok := s.(*evaluateStep); ok {
		e := executors.Errorf(executors.CodeScriptError, "%s: %s", r.where(), oneLine(err))
		if n := lineOf(text, evaluated.Script); n > 0 {
			e.Message += fmt.Sprintf(" (line %d of the script)", n)
		}
		e.Field = r.fieldOf("script")
		return e
	}
	return executors.Errorf(executors.CodeEngineError, "%s: %s: %s", r.where(), r.actionOf(s), oneLine(err))
}

// drawingFailed reports that the browser gave up on a picture or a print.
func drawingFailed(text string) bool { return containsAny(text, "Printing failed", notDrawn) }

// linesBefore are the lines of evaluation before the script.
const linesBefore = 2

// lineOf is the line of the script that an exception came from, 0 if that is
// not known.
func lineOf(text, script string) int {
	m := scriptLine.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if n -= linesBefore; err != nil || n < 1 || n > strings.Count(script, "\n")+1 {
		return 0
	}
	return n
}

func badSelector(text string) bool {
	for _, part := range []string{"while parsing", "is not a valid selector", "Unknown engine", "Unexpected token", "not a valid XPath", "Malformed"} {
		if strings.Contains(text, part) {
			return !strings.Contains(text, "SyntaxError: Unexpected token") || strings.Contains(text, "selector")
		}
	}
	return false
}

// timedOut tells a missing element from one that cannot be used.
func (r *run) timedOut(s step, t target, has bool, page string) *executors.Error {
	ms := *r.limit(s)
	if !has || t.Selector == "" {
		e := executors.Errorf(executors.CodeDeadlineExceeded, "%s: %s did not end within %.0f ms on %s", r.where(), r.actionOf(s), ms, page)
		e.Hint = "raise step_timeout_ms"
		return e
	}
	count := 0
	err := r.within(countWait, func() (err error) {
		count, err = r.page().Locator(selector(t.Selector)).Count()
		return err
	})
	e := executors.Errorf(executors.CodeElementNotFound, "%s: no element matched %s within %.0f ms on %s", r.where(), t.Selector, ms, page)
	e.Field, e.Hint = r.fieldOf("selector"), "check the selector or raise step_timeout_ms"
	if err == nil && count > 0 {
		e.Message = fmt.Sprintf("%s: %d elements match %s on %s, but none was ready for %s within %.0f ms (visible, enabled, not covered)", r.where(), count, t.Selector, page, r.actionOf(s), ms)
	}
	return e
}

// fieldOf is the JSON path of a field of the step that runs.
func (r *run) fieldOf(name string) string {
	if r.plan.op != opRun {
		return name
	}
	return r.where() + "." + name
}

// targetOf is the element that a step is about, if it is about one.
func targetOf(s step) (target, bool) {
	type targeted interface{ element() target }
	if t, ok := s.(targeted); ok {
		return t.element(), true
	}
	return target{}, false
}

func (t target) element() target { return t }

// A startError says why no browser came up.
type startError struct{ error }

// bareReason is the warning about a root agent's browser without a sandbox.
const bareReason = "the browser has no sandbox: user namespaces are not possible here, as in a chroot or some containers (allow them to the container, or run the agent as an ordinary user outside)"

// sandboxMissing reports whether Chromium found no way to make its sandbox.
func sandboxMissing(err error) bool {
	return err != nil && strings.Contains(err.Error(), "No usable sandbox")
}

// explained adds what to do to the failures of a browser's start that are
// known.
func explained(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	switch {
	case sandboxMissing(err):
		return errors.New("the browser finds no sandbox: user namespaces are switched off for this process (allow them: sysctl user.max_user_namespaces, or RestrictNamespaces=user pid net in the unit)")
	case strings.Contains(text, "error while loading shared libraries"):
		return fmt.Errorf("the browser lacks a library (repair it with: autobot-agent engines install playwright): %s", said(text))
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, pw.ErrTimeout):
		return fmt.Errorf("the browser did not start within %s: %s", startLimit, said(text))
	}
	return fmt.Errorf("start the browser: %s", said(text))
}

// said is what a browser printed at its start, else the library's own words.
func said(text string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if _, words, ok := strings.Cut(line, "[err] "); ok {
			return cut(words, maxMessage)
		}
	}
	_, after, found := strings.Cut(text, "<process did exit:")
	if found {
		return "it ended at once:" + cut(strings.TrimSuffix(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0]), ">"), maxMessage)
	}
	return oneLine(errors.New(text))
}

func containsAny(s string, parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}
