package playwright

import (
	"fmt"

	"github.com/autobot-fleet/autobot/executors"
)

// output is the result of a task.
type output struct {
	FinalURL   string            `json:"final_url"`
	Status     int               `json:"status_code,omitempty"`
	Title      string            `json:"title"`
	Redirects  []string          `json:"redirects"`
	Steps      []stepResult      `json:"steps"`
	Console    []consoleEntry    `json:"console"`
	Dialogs    []dialogEntry     `json:"dialogs"`
	Blocked    []blockedEntry    `json:"blocked_requests"`
	Downloads  []downloadEntry   `json:"downloads"`
	Values     map[string]any    `json:"values,omitempty"`
	Data       any               `json:"data,omitempty"`    // extract
	Results    any               `json:"results,omitempty"` // search
	Query      string            `json:"query,omitempty"`
	HTML       *string           `json:"html,omitempty"` // fetch
	Text       *string           `json:"text,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	Session    *sessionState     `json:"session,omitempty"`
	Requests   int               `json:"requests"`
	PopupsShut int               `json:"popups_closed,omitempty"`
}

type stepResult struct {
	Index    int        `json:"index"`
	Action   string     `json:"action"`
	OK       bool       `json:"ok"`
	MS       int64      `json:"ms"`
	Value    any        `json:"value,omitempty"`
	Artifact string     `json:"artifact,omitempty"`
	Error    *stepError `json:"error,omitempty"`
}

type stepError struct {
	Code    executors.Code `json:"code"`
	Message string         `json:"message"`
}

type blockedEntry struct {
	URL    string `json:"url"`
	Reason string `json:"reason"`
}

// describe fills the rest of the output, after success and failure alike.
func (r *run) describe(failed bool) {
	r.out.Downloads = r.rec.settle(r.ctx)
	if page := r.page(); r.surface.isOpen(page) {
		r.out.FinalURL = cut(r.secrets.message(page.URL()), maxURL)
		if v := r.rec.visit(page); v != nil {
			r.out.Status = v.status
			for _, u := range v.redirects {
				r.out.Redirects = append(r.out.Redirects, cut(r.secrets.message(u), maxURL))
			}
		}
		if r.reason() == nil && !r.surface.crashed.Load() {
			title := ""
			err := r.within(maxPatience, func() (err error) {
				title, err = page.Title()
				return err
			})
			switch {
			case err == nil:
				r.out.Title = cut(r.secrets.message(title), maxMessage)
			case !failed && r.reason() == nil:
				r.warn("PAGE_BUSY", "the page did not tell its title: %s", oneLine(err))
			}
		}
	}
	r.rec.mu.Lock()
	defer r.rec.mu.Unlock()
	r.out.Console, r.out.Dialogs = r.rec.console, r.rec.dialogs
	r.out.Requests, r.out.PopupsShut = r.rec.count, r.rec.popups
	for _, d := range r.surface.lane.Denials() {
		if len(r.out.Blocked) < maxBlocked {
			r.out.Blocked = append(r.out.Blocked, blockedEntry{URL: r.secrets.message(d.URL), Reason: d.Reason})
		}
	}
}

// encode is the output of the run.
func (r *run) encode() ([]byte, error) {
	o := &r.out
	o.Redirects, o.Steps = notNil(o.Redirects), notNil(o.Steps)
	o.Console, o.Dialogs, o.Blocked = notNil(o.Console), notNil(o.Dialogs), notNil(o.Blocked)
	raw, err := encode(o)
	if err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	return raw, nil
}

func notNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
