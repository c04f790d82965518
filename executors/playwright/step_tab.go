package playwright

import (
	"github.com/autobot-fleet/autobot/executors"
)

// tabStep opens, closes or selects a tab. Tabs are counted from 0 in the order
// in which they were opened; pages open some too.
type tabStep struct {
	stepCommon
	Open   bool   `json:"open"`
	Close  bool   `json:"close"`
	Select *int   `json:"select"`
	URL    string `json:"url"` // for open
}

func (s *tabStep) check(c *stepCheck) error {
	given := 0
	for _, there := range []bool{s.Open, s.Close, s.Select != nil} {
		if there {
			given++
		}
	}
	err := first(
		when(given != 1, c.at("open"), "give one of open: true, close: true and select: NUMBER"),
		when(s.URL != "" && !s.Open, c.at("url"), "needs open: true"),
	)
	if err != nil || s.URL == "" {
		return err
	}
	return c.url(c.at("url"), s.URL)
}

func (s *tabStep) run(r *run) (any, error) {
	switch {
	case s.Open:
		if n := len(r.surface.tabs()); n >= maxTabs {
			return nil, executors.Errorf(executors.CodeTooLarge, "%d tabs are open, that is the limit", n)
		}
		page, err := r.surface.ctx.NewPage()
		if err != nil {
			return nil, err
		}
		r.surface.choose(page)
		if s.URL != "" {
			return nil, r.navigate(s.URL, r.plan.WaitUntil)
		}
		return nil, nil
	case s.Close:
		tabs := r.surface.tabs()
		if len(tabs) < 2 {
			return nil, executors.Errorf(executors.CodeInvalidInput, "the last tab cannot be closed")
		}
		page := r.page()
		if err := page.Close(); err != nil {
			return nil, err
		}
		tabs = r.surface.tabs()
		if len(tabs) == 0 {
			return nil, errSurfaceClosed
		}
		r.surface.choose(tabs[len(tabs)-1])
		return nil, nil
	}
	tabs := r.surface.tabs()
	i := *s.Select
	if i < 0 || i >= len(tabs) {
		return nil, executors.Errorf(executors.CodeNotFound, "there is no tab %d; %d are open, counted from 0", i, len(tabs))
	}
	r.surface.choose(tabs[i])
	return nil, tabs[i].BringToFront()
}
