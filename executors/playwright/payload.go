package playwright

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// The operations, the first is the default.
const (
	opRun        = "run"
	opScreenshot = "screenshot"
	opPDF        = "pdf"
	opExtract    = "extract"
	opSearch     = "search"
	opFetch      = "fetch"
)

var ops = []string{opRun, opScreenshot, opPDF, opExtract, opSearch, opFetch}

// Limits of a payload.
const (
	maxURL         = 2048
	maxSteps       = 50
	maxSelector    = 2048
	maxHeaders     = 50
	maxCookies     = 100
	maxValue       = 64 << 10
	maxKeep        = 300 // seconds
	defaultKeep    = 60
	maxResults     = 50
	defaultNav     = 30_000
	maxNav         = 120_000
	defaultStep    = 10_000
	maxStep        = 60_000
	continueOnFail = "continue"
)

// base are the fields of every operation.
type base struct {
	URL            string            `json:"url"`
	WaitUntil      string            `json:"wait_until"`
	NavTimeoutMS   int64             `json:"nav_timeout_ms"`
	StepTimeoutMS  int64             `json:"step_timeout_ms"`
	Viewport       viewport          `json:"viewport"`
	UserAgent      string            `json:"user_agent"`
	Locale         string            `json:"locale"`
	Timezone       string            `json:"timezone"`
	Headers        map[string]string `json:"headers"`
	Cookies        []cookie          `json:"cookies"`
	Session        *sessionRequest   `json:"session"`
	Egress         *egressRequest    `json:"egress"`
	JavaScript     bool              `json:"javascript"`
	BlockResources []string          `json:"block_resources"`
}

type viewport struct {
	Width  int     `json:"width"`
	Height int     `json:"height"`
	Scale  float64 `json:"scale"`
}

var defaultViewport = viewport{1280, 720, 1}

// A cookie is set before the first page is opened.
type cookie struct {
	Name     string   `json:"name"`
	Value    string   `json:"value"`
	Domain   string   `json:"domain"` // default: the host of url
	Path     string   `json:"path"`   // default: /
	Expires  *float64 `json:"expires"`
	HTTPOnly bool     `json:"http_only"`
	Secure   bool     `json:"secure"`
	SameSite string   `json:"same_site"` // Strict, Lax, None
}

// A sessionRequest names a context that is kept for the next task.
type sessionRequest struct {
	ID     string `json:"id"`
	KeepS  *int64 `json:"keep_s"`
	Resume bool   `json:"resume"` // it must be there already
}

// An egressRequest narrows what the administrator allows.
type egressRequest struct {
	Hosts []string `json:"hosts"`
}

type runPayload struct {
	base
	Steps   []json.RawMessage `json:"steps"`
	OnError string            `json:"on_error"`
}

type screenshotPayload struct {
	base
	screenshotOptions
}

type pdfPayload struct {
	base
	pdfOptions
}

type extractPayload struct {
	base
	Fields map[string]field `json:"fields"`
}

type searchPayload struct {
	base
	Query      string `json:"query"`
	MaxResults int    `json:"max_results"`
}

// A plan is a payload that has been checked.
type plan struct {
	base
	op      string
	steps   []step
	proceed bool // after a step that failed
	results int  // of a search
	policy  *egress.Policy
}

// checking is what the checks of a payload know.
type checking struct {
	settings Settings
	guard    *egress.Guard
	policy   *egress.Policy
	task     executors.Task
}

// decode reads a task's payload and checks all of it, before anything starts.
func (c *checking) decode(task executors.Task, op string) (*plan, error) {
	c.task = task
	p := &plan{op: op}
	b := base{
		WaitUntil: "domcontentloaded", NavTimeoutMS: defaultNav, StepTimeoutMS: defaultStep,
		Viewport: defaultViewport, JavaScript: true,
	}
	var raw []json.RawMessage
	var err error
	switch op {
	case opRun:
		in := runPayload{base: b}
		err = executors.DecodePayload(task, &in)
		p.base, raw = in.base, in.Steps
		p.proceed = in.OnError == continueOnFail
		if err == nil {
			err = oneOf("on_error", in.OnError, "", "stop", continueOnFail)
		}
	case opScreenshot:
		in := screenshotPayload{base: b}
		err = executors.DecodePayload(task, &in)
		p.base, p.steps = in.base, []step{&screenshotStep{screenshotOptions: in.screenshotOptions}}
	case opPDF:
		in := pdfPayload{base: b, pdfOptions: defaultPDF()}
		err = executors.DecodePayload(task, &in)
		p.base, p.steps = in.base, []step{&pdfStep{pdfOptions: in.pdfOptions}}
	case opExtract:
		in := extractPayload{base: b}
		err = executors.DecodePayload(task, &in)
		p.base, p.steps = in.base, []step{&extractStep{Fields: in.Fields}}
	case opSearch:
		in := searchPayload{base: b, MaxResults: 10}
		err = executors.DecodePayload(task, &in)
		p.base, p.results = in.base, in.MaxResults
		if err == nil {
			err = c.search(p, in)
		}
	default:
		in := b
		err = executors.DecodePayload(task, &in)
		p.base = in
	}
	if err != nil {
		return nil, err
	}
	if err := c.base(p); err != nil {
		return nil, err
	}
	if len(raw) > maxSteps {
		return nil, executors.Invalid("steps", "must have at most %d entries, got %d", maxSteps, len(raw))
	}
	for i, r := range raw {
		s, err := decodeStep(i, r)
		if err != nil {
			return nil, err
		}
		p.steps = append(p.steps, s)
	}
	for i, s := range p.steps {
		path := ""
		if op == opRun {
			path = fmt.Sprintf("steps[%d]", i)
		}
		if err := c.step(path, s); err != nil {
			return nil, err
		}
	}
	return p, c.startable(p)
}

// startable refuses a plan that has no page to work on.
func (c *checking) startable(p *plan) error {
	if p.URL != "" || p.Session != nil {
		return nil
	}
	if len(p.steps) > 0 {
		if _, ok := p.steps[0].(*navigateStep); ok {
			return nil
		}
	}
	return executors.Invalid("url", "is required, unless the first step is navigate or the task goes on with a session")
}

// downloads reports whether a step keeps a file, for which a larger budget
// holds.
func (p *plan) downloads() bool {
	return slices.ContainsFunc(p.steps, func(s step) bool {
		_, ok := s.(*downloadStep)
		return ok
	})
}
