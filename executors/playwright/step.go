package playwright

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/autobot-fleet/autobot/executors"
)

// A step is one thing that a task does on a page.
type step interface {
	// common are the fields that every step has.
	common() *stepCommon

	// check refuses fields that break a rule, before anything starts.
	check(c *stepCheck) error

	// run does it. The value is shown in the result; a *saved becomes the
	// step's artifact.
	run(r *run) (any, error)
}

// stepCommon are the fields that every step may have.
type stepCommon struct {
	Action    string `json:"action"`
	As        string `json:"as"`         // name of the value in the result's values
	TimeoutMS int64  `json:"timeout_ms"` // 0: step_timeout_ms of the payload
	OnError   string `json:"on_error"`   // stop, continue; "" as the payload says
}

func (s *stepCommon) common() *stepCommon { return s }

// target is the element that a step is about.
type target struct {
	Selector string `json:"selector"`
	Nth      *int   `json:"nth"` // which one when several match, from 0, -1 is the last
}

// A stepCheck checks the fields of one step.
type stepCheck struct {
	*checking
	path string // "" or steps[3]
}

// at is the JSON path of a field of the step.
func (c *stepCheck) at(field string) string {
	if c.path == "" {
		return field
	}
	return c.path + "." + field
}

// target checks the element of a step.
func (c *stepCheck) target(t target, required bool) error {
	return first(
		when(required && strings.TrimSpace(t.Selector) == "", c.at("selector"), "is required"),
		when(len(t.Selector) > maxSelector, c.at("selector"), "must have at most %d characters, got %d", maxSelector, len(t.Selector)),
		when(t.Nth != nil && t.Selector == "", c.at("nth"), "needs selector"),
		when(t.Nth != nil && (*t.Nth < -1 || *t.Nth > 10_000), c.at("nth"), "must be -1 to 10000"),
	)
}

// actions makes an empty step for each action, with its defaults.
var actions = map[string]func() step{
	"navigate":      func() step { return &navigateStep{} },
	"back":          func() step { return &historyStep{} },
	"forward":       func() step { return &historyStep{} },
	"reload":        func() step { return &historyStep{} },
	"click":         func() step { return &clickStep{Count: 1, Button: "left"} },
	"fill":          func() step { return &fillStep{} },
	"type":          func() step { return &typeStep{} },
	"press":         func() step { return &pressStep{} },
	"select":        func() step { return &selectStep{} },
	"check":         func() step { return &checkStep{Checked: true} },
	"hover":         func() step { return &hoverStep{} },
	"scroll":        func() step { return &scrollStep{} },
	"wait_for":      func() step { return &waitStep{} },
	"get_text":      func() step { return &textStep{} },
	"get_html":      func() step { return &htmlStep{} },
	"get_attribute": func() step { return &attributeStep{} },
	"extract":       func() step { return &extractStep{} },
	"evaluate":      func() step { return &evaluateStep{} },
	"screenshot":    func() step { return &screenshotStep{} },
	"pdf":           func() step { return &pdfStep{pdfOptions: defaultPDF()} },
	"mhtml":         func() step { return &mhtmlStep{} },
	"set_cookies":   func() step { return &setCookiesStep{} },
	"get_cookies":   func() step { return &getCookiesStep{} },
	"download":      func() step { return &downloadStep{} },
	"upload":        func() step { return &uploadStep{} },
	"tab":           func() step { return &tabStep{} },
}

// notInSteps are fields of a payload that a step does not have.
var notInSteps = []string{"op", "artifacts", "trace_id"}

// decodeStep reads steps[i].
func decodeStep(i int, raw json.RawMessage) (step, error) {
	path := fmt.Sprintf("steps[%d]", i)
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, executors.Invalid(path, "must be an object with action")
	}
	var action string
	if err := json.Unmarshal(fields["action"], &action); err != nil || action == "" {
		return nil, executors.Invalid(path+".action", "is required, a text; one of %s", knownActions())
	}
	empty, ok := actions[action]
	if !ok {
		e := executors.Invalid(path+".action", "unknown action %.40q; known are %s", action, knownActions())
		if near := executors.Nearest(action, slices.Collect(maps.Keys(actions)), 1); len(near) > 0 {
			e.Hint = "did you mean " + near[0] + "?"
		}
		return nil, e
	}
	for _, name := range notInSteps {
		if _, there := fields[name]; there {
			return nil, executors.Invalid(path+"."+name, "is a field of the payload, not of a step")
		}
	}
	s := empty()
	if err := executors.DecodePayload(executors.Task{Payload: raw}, s); err != nil {
		return nil, below(path, err)
	}
	return s, nil
}

// below puts path in front of the field that an error is about.
func below(path string, err error) error {
	e := executors.AsError(err)
	rest := strings.TrimPrefix(e.Message, e.Field)
	switch {
	case e.Field == "payload":
		e.Field = path
	default:
		e.Field = path + "." + e.Field
	}
	e.Message = e.Field + rest
	return e
}

func knownActions() string { return strings.Join(slices.Sorted(maps.Keys(actions)), ", ") }

// step checks one step, its common fields first.
func (c *checking) step(path string, s step) error {
	sc := &stepCheck{checking: c, path: path}
	common := s.common()
	return first(
		when(common.TimeoutMS != 0 && (common.TimeoutMS < 100 || common.TimeoutMS > maxStep), sc.at("timeout_ms"), "must be 100 to %d, got %d", maxStep, common.TimeoutMS),
		when(common.As != "" && !sessionGrammar.MatchString(common.As), sc.at("as"), "must match %s", sessionGrammar),
		oneOf(sc.at("on_error"), common.OnError, "", "stop", continueOnFail),
		s.check(sc),
	)
}
