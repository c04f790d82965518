package playwright

import (
	"context"
	"fmt"
	"sync"
	"time"

	pw "github.com/mxschmitt/playwright-go"

	"github.com/autobot-fleet/autobot/executors"
)

// maxRoom is what the texts of a result may have together, in bytes. With the
// rest of the result it stays below executors.MaxOutput.
const maxRoom = 2_400_000

// budgetCheck is how often the bytes of a task are looked at.
const budgetCheck = 100 * time.Millisecond

// A run is one task at work. Its steps run on one goroutine; whatever ends the
// task early closes the surface, which makes the call fail that a step waits
// in.
type run struct {
	ex      *Executor
	ctx     context.Context
	task    executors.Task
	plan    *plan
	secrets *redactor
	rec     *recorder
	surface *surface
	over    chan struct{} // closed by abort

	patience time.Duration // left for calls that the task does not depend on
	step     int           // the one that runs, -1 before the first
	began    time.Time     // that step
	room     int           // bytes left for texts
	out      output
	warnings []executors.Warning
	taken    map[string]bool // names of artifacts

	mu      sync.Mutex
	ended   error         // why abort was called
	force   []*time.Timer // of abort
	closing sync.WaitGroup
	watch   sync.WaitGroup
	files   sync.Mutex // guards taken and announce: downloads end on goroutines of their own
}

func (e *Executor) newRun(ctx context.Context, task executors.Task, p *plan) *run {
	r := &run{
		ex: e, ctx: ctx, task: task, plan: p, secrets: p.redactor(task),
		over: make(chan struct{}), step: -1, room: maxRoom, patience: maxPatience, taken: make(map[string]bool),
	}
	r.rec = &recorder{
		requests: e.settings.MaxRequests, fail: r.abort, clean: r.secrets.message, keep: r.keepDownload,
		visits: make(map[pw.Page]*visit),
	}
	return r
}

// abort ends the run for a reason; the first one counts. It does not wait.
func (r *run) abort(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return
	}
	r.ended = why
	close(r.over)
	if s := r.surface; s != nil {
		r.closing.Go(s.close)
		// Closing ends whatever call is under way. Should one go on, what it
		// waits for is ended.
		r.force = []*time.Timer{
			time.AfterFunc(closeWait+time.Second, s.browser.kill),
			time.AfterFunc(2*closeWait+time.Second, s.browser.driver.kill),
		}
	}
}

// settled stops what abort has begun, once the work has ended.
func (r *run) settled() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, timer := range r.force {
		timer.Stop()
	}
}

// reason is why the run was aborted, nil if it was not.
func (r *run) reason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// use makes s the surface of the run, unless the run has been aborted.
func (r *run) use(s *surface) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.surface = s
	if r.ended != nil {
		r.closing.Go(s.close)
		return r.ended
	}
	return nil
}

// work does the task's work: the first page, then the steps.
func (r *run) work() error {
	if err := r.addCookies(r.plan.Cookies, r.plan.URL); err != nil {
		return r.explain(nil, err)
	}
	if r.plan.URL != "" {
		r.stage("navigate")
		if err := r.navigate(r.plan.URL, r.plan.WaitUntil); err != nil {
			return r.explain(nil, err)
		}
	}
	var failed error
	for i, s := range r.plan.steps {
		r.step = i
		r.task.Progress(executors.Progress{
			Percent: 10 + 80*i/len(r.plan.steps), Stage: "step", Done: int64(i), Total: int64(len(r.plan.steps)), Unit: "step",
		})
		if err := r.do(i, s); err != nil {
			stop := s.common().OnError != continueOnFail && (!r.plan.proceed || s.common().OnError == "stop")
			if stop || r.reason() != nil || !r.surface.usable() {
				failed = err
				break
			}
		}
	}
	if failed != nil {
		return failed
	}
	r.step = len(r.plan.steps)
	if err := r.overBudget(); err != nil { // what was read may be cut
		return r.explain(nil, err)
	}
	if err := r.denied(); err != nil {
		return r.explain(nil, err)
	}
	return r.finish()
}

// do runs one step and notes what came of it.
func (r *run) do(i int, s step) error {
	r.began = time.Now()
	stop := r.guard(s)
	value, err := s.run(r)
	stop()
	if err == nil {
		err = r.denied()
	}
	res := stepResult{Index: i, Action: s.common().Action, OK: err == nil, MS: time.Since(r.began).Milliseconds()}
	if err != nil {
		e := r.explain(s, err)
		plain := executors.AsError(e)
		res.Error = &stepError{Code: plain.Code, Message: plain.Message}
		r.out.Steps = append(r.out.Steps, res)
		return e
	}
	switch v := value.(type) {
	case saved:
		res.Artifact = string(v)
	case downloadEntry:
		res.Artifact, res.Value = v.Artifact, v
	default:
		if as := s.common().As; as != "" {
			if r.out.Values == nil {
				r.out.Values = make(map[string]any)
			}
			r.out.Values[as] = value // and not twice
		} else {
			res.Value = value
		}
	}
	if r.plan.op == opExtract {
		r.out.Data, res.Value = res.Value, nil
	}
	if r.plan.op == opRun { // the other operations have no steps of their own
		r.out.Steps = append(r.out.Steps, res)
	}
	return nil
}

func (r *run) actionOf(s step) string { return orElse(s.common().Action, r.plan.op) }

// page is the tab that steps work on.
func (r *run) page() pw.Page { return r.surface.page() }

// where names the step that runs, for messages.
func (r *run) where() string {
	if r.plan.op != opRun || r.step < 0 || r.step >= len(r.plan.steps) {
		return r.plan.op
	}
	return fmt.Sprintf("steps[%d]", r.step)
}

func (r *run) stage(name string) {
	percent := 5
	if n := len(r.plan.steps); n > 0 && r.step >= 0 {
		percent = 10 + 80*min(r.step, n)/n
	}
	r.task.Progress(executors.Progress{Percent: percent, Stage: name})
}

func (r *run) warn(code, format string, args ...any) {
	r.warnings = append(r.warnings, executors.Warning{Code: code, Message: r.secrets.message(fmt.Sprintf(format, args...))})
}

// watchBudget ends the task once its pages have received all they may: what
// comes after that would only be waited for. It returns when stop is closed.
func (r *run) watchBudget(stop <-chan struct{}) {
	ticker := time.NewTicker(budgetCheck)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		if err := r.overBudget(); err != nil {
			r.abort(err)
			return
		}
	}
}

// overBudget is an error when the pages of the task have received all they may.
func (r *run) overBudget() error {
	lane, limit, key := r.surface.lane, r.ex.settings.MaxPageBytes, "max_page_bytes"
	if r.plan.downloads() {
		limit, key = max(limit, r.ex.settings.MaxDownloadBytes), "max_download_bytes"
	}
	if !lane.Exceeded() || lane.Bytes() < limit {
		return nil
	}
	return executors.Errorf(executors.CodeTooLarge,
		"the pages sent more than %d MiB (an administrator can raise executors.playwright.%s)", limit/mib, key)
}

// finish reads what the result tells about the last page.
func (r *run) finish() error {
	if r.plan.op == opSearch {
		if err := r.searchResults(); err != nil {
			return r.explain(nil, err)
		}
	}
	if r.plan.op == opFetch {
		if err := r.fetched(); err != nil {
			return r.explain(nil, err)
		}
	}
	return nil
}
