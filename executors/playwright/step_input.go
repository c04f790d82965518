package playwright

import (
	"time"
	"unicode/utf8"

	pw "github.com/mxschmitt/playwright-go"

	"github.com/autobot-fleet/autobot/executors"
)

// clickStep clicks an element, or a point of it, or a point of the page.
type clickStep struct {
	stepCommon
	target
	Button string   `json:"button"`
	Count  int      `json:"count"`
	X      *float64 `json:"x"`
	Y      *float64 `json:"y"`
}

func (s *clickStep) check(c *stepCheck) error {
	return first(
		c.target(s.target, s.X == nil),
		oneOf(c.at("button"), s.Button, "left", "right", "middle"),
		between(c.at("count"), int64(s.Count), 1, 3),
		when((s.X == nil) != (s.Y == nil), c.at("x"), "x and y come together"),
	)
}

func (s *clickStep) run(r *run) (any, error) {
	button := pw.MouseButton(s.Button)
	if s.Selector == "" {
		return nil, r.page().Mouse().Click(*s.X, *s.Y, pw.MouseClickOptions{Button: &button, ClickCount: &s.Count})
	}
	o := pw.LocatorClickOptions{Button: &button, ClickCount: &s.Count, Timeout: r.limit(s)}
	if s.X != nil {
		o.Position = &pw.Position{X: *s.X, Y: *s.Y}
	}
	return nil, r.locate(s.target).Click(o)
}

// fillStep replaces the value of a field.
type fillStep struct {
	stepCommon
	target
	Value     *string `json:"value"`
	SecretRef string  `json:"secret_ref"` // name of one of the task's secrets
}

func (s *fillStep) check(c *stepCheck) error {
	if err := c.target(s.target, true); err != nil {
		return err
	}
	if (s.Value == nil) == (s.SecretRef == "") {
		return executors.Invalid(c.at("value"), "give either value or secret_ref")
	}
	if s.SecretRef == "" {
		return when(len(*s.Value) > maxValue, c.at("value"), "must have at most %d bytes, got %d", maxValue, len(*s.Value))
	}
	return c.secret(c.at("secret_ref"), s.SecretRef)
}

func (s *fillStep) run(r *run) (any, error) {
	value := ""
	if s.Value != nil {
		value = *s.Value
	} else {
		value = r.task.Secrets[s.SecretRef]
	}
	return nil, r.locate(s.target).Fill(value, pw.LocatorFillOptions{Timeout: r.limit(s)})
}

// typeStep presses a key for each character of a text.
type typeStep struct {
	stepCommon
	target
	Text string `json:"text"`
}

func (s *typeStep) check(c *stepCheck) error {
	return first(c.target(s.target, true), when(utf8.RuneCountInString(s.Text) > 4096, c.at("text"), "must have at most 4096 characters"))
}

func (s *typeStep) run(r *run) (any, error) {
	return nil, r.locate(s.target).PressSequentially(s.Text, pw.LocatorPressSequentiallyOptions{Timeout: r.limit(s)})
}

// pressStep presses a key or a chord such as Control+A.
type pressStep struct {
	stepCommon
	target
	Key string `json:"key"`
}

func (s *pressStep) check(c *stepCheck) error {
	return first(c.target(s.target, false), when(s.Key == "" || len(s.Key) > 64, c.at("key"), "is required, at most 64 characters, for example Enter or Control+A"))
}

func (s *pressStep) run(r *run) (any, error) {
	if s.Selector == "" {
		return nil, r.page().Keyboard().Press(s.Key)
	}
	return nil, r.locate(s.target).Press(s.Key, pw.LocatorPressOptions{Timeout: r.limit(s)})
}

// selectStep chooses options of a list by their value or label.
type selectStep struct {
	stepCommon
	target
	Values []string `json:"values"`
}

func (s *selectStep) check(c *stepCheck) error {
	return first(c.target(s.target, true), when(len(s.Values) > 100, c.at("values"), "must have at most 100 entries"))
}

func (s *selectStep) run(r *run) (any, error) {
	return r.locate(s.target).SelectOption(pw.SelectOptionValues{ValuesOrLabels: &s.Values}, pw.LocatorSelectOptionOptions{Timeout: r.limit(s)})
}

// checkStep checks or unchecks a box.
type checkStep struct {
	stepCommon
	target
	Checked bool `json:"checked"`
}

func (s *checkStep) check(c *stepCheck) error { return c.target(s.target, true) }

func (s *checkStep) run(r *run) (any, error) {
	return nil, r.locate(s.target).SetChecked(s.Checked, pw.LocatorSetCheckedOptions{Timeout: r.limit(s)})
}

// hoverStep moves the mouse over an element.
type hoverStep struct {
	stepCommon
	target
}

func (s *hoverStep) check(c *stepCheck) error { return c.target(s.target, true) }

func (s *hoverStep) run(r *run) (any, error) {
	return nil, r.locate(s.target).Hover(pw.LocatorHoverOptions{Timeout: r.limit(s)})
}

// scrollStep turns the wheel over an element, or where the mouse is.
type scrollStep struct {
	stepCommon
	target
	DX float64 `json:"dx"`
	DY float64 `json:"dy"`
}

func (s *scrollStep) check(c *stepCheck) error {
	far := func(n float64) bool { return n < -1e6 || n > 1e6 }
	return first(c.target(s.target, false), when(far(s.DX) || far(s.DY), c.at("dy"), "dx and dy must be -1000000 to 1000000"))
}

func (s *scrollStep) run(r *run) (any, error) {
	if s.Selector != "" {
		if err := r.locate(s.target).Hover(pw.LocatorHoverOptions{Timeout: r.limit(s)}); err != nil {
			return nil, err
		}
	}
	return nil, r.page().Mouse().Wheel(s.DX, s.DY)
}

// waitStep waits for an element, an address or a time.
type waitStep struct {
	stepCommon
	target
	State   string `json:"state"`
	MS      int64  `json:"ms"`
	URLGlob string `json:"url_glob"`
}

func (s *waitStep) check(c *stepCheck) error {
	given := 0
	for _, there := range []bool{s.Selector != "", s.MS != 0, s.URLGlob != ""} {
		if there {
			given++
		}
	}
	return first(
		when(given != 1, c.at("selector"), "give one of selector, ms and url_glob"),
		c.target(s.target, false),
		oneOf(c.at("state"), s.State, "", "attached", "detached", "visible", "hidden"),
		when(s.MS < 0 || s.MS > 10_000, c.at("ms"), "must be 1 to 10000, got %d", s.MS),
		when(len(s.URLGlob) > maxURL, c.at("url_glob"), "must have at most %d characters", maxURL),
	)
}

func (s *waitStep) run(r *run) (any, error) {
	switch {
	case s.MS > 0:
		timer := time.NewTimer(time.Duration(s.MS) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil, nil
		case <-r.over:
			return nil, errSurfaceClosed
		}
	case s.URLGlob != "":
		return nil, r.page().WaitForURL(s.URLGlob, pw.PageWaitForURLOptions{Timeout: r.limit(s), WaitUntil: pw.WaitUntilStateCommit})
	}
	state := pw.WaitForSelectorState(orElse(s.State, "visible"))
	return nil, r.locate(s.target).WaitFor(pw.LocatorWaitForOptions{State: &state, Timeout: r.limit(s)})
}
