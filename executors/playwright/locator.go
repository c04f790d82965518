package playwright

import (
	"strings"

	pw "github.com/mxschmitt/playwright-go"
)

// prefixes choose another way to find elements than CSS. What follows is as
// Playwright has it: text=Sign in, role=button[name="Sign in"], xpath=//h1.
var prefixes = []string{"text=", "role=", "xpath=", "css="}

// locate finds the element of a step in the current tab. Actions on it fail
// when several match, unless nth chooses one.
func (r *run) locate(t target) pw.Locator {
	l := r.page().Locator(selector(t.Selector))
	if t.Nth != nil {
		return l.Nth(*t.Nth)
	}
	return l
}

// selector is what the driver takes: CSS is named, so that nothing else than
// the prefixes above chooses another engine.
func selector(s string) string {
	s = strings.TrimSpace(s)
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return s
		}
	}
	return "css=" + s
}
