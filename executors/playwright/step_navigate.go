package playwright

import (
	pw "github.com/mxschmitt/playwright-go"

	"github.com/autobot-fleet/autobot/executors"
)

// navigateStep opens an address in the current tab.
type navigateStep struct {
	stepCommon
	URL       string `json:"url"`
	WaitUntil string `json:"wait_until"` // "": as the payload says
}

func (s *navigateStep) check(c *stepCheck) error {
	if s.URL == "" {
		return executors.Invalid(c.at("url"), "is required")
	}
	return first(
		oneOf(c.at("wait_until"), s.WaitUntil, "", "load", "domcontentloaded", "networkidle"),
		c.url(c.at("url"), s.URL),
	)
}

func (s *navigateStep) run(r *run) (any, error) {
	return nil, r.navigate(s.URL, orElse(s.WaitUntil, r.plan.WaitUntil))
}

// historyStep is back, forward and reload.
type historyStep struct {
	stepCommon
	WaitUntil string `json:"wait_until"`
}

func (s *historyStep) check(c *stepCheck) error {
	return oneOf(c.at("wait_until"), s.WaitUntil, "", "load", "domcontentloaded", "networkidle")
}

func (s *historyStep) run(r *run) (any, error) {
	state, limit := r.waitState(orElse(s.WaitUntil, r.plan.WaitUntil)), r.navLimit()
	var resp pw.Response
	var err error
	page := r.page()
	switch s.Action {
	case "back":
		resp, err = page.GoBack(pw.PageGoBackOptions{Timeout: &limit, WaitUntil: state})
	case "forward":
		resp, err = page.GoForward(pw.PageGoForwardOptions{Timeout: &limit, WaitUntil: state})
	default:
		_, err = page.Reload(pw.PageReloadOptions{Timeout: &limit, WaitUntil: state})
		return nil, r.navigationError(page.URL(), err)
	}
	if err != nil {
		return nil, r.navigationError(page.URL(), err)
	}
	if resp == nil && page.URL() == "about:blank" {
		return nil, executors.Errorf(executors.CodeNavigationFailed, "there is no page to go %s to", s.Action)
	}
	return nil, nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
