package playwright

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
	"github.com/autobot-fleet/autobot/internal/buildinfo"
)

// Name is the executor's name, in its manifest and in agent.yaml.
const Name = "playwright"

// Time limits of a task.
const (
	defaultTimeout = 60 * time.Second
	maxTimeout     = 300 * time.Second
)

// Executor runs tasks of types playwright and browser. Close ends it.
type Executor struct {
	settings Settings
	engine   *engine
	guard    *egress.Guard
	pool     *pool
	sessions *sessions
	spares   *spares
	ns       *egress.Namespace // nil in mode flags
	mode     egress.Mode
	live     bool // in an executor process, where browsers are started ahead
}

// FromEnvironment builds the executor as its process does: with the settings
// that the agent hands over.
func FromEnvironment() (executors.Executor, error) {
	s := DefaultSettings()
	if err := executors.Settings(&s); err != nil {
		return nil, err
	}
	return New(s, egress.Options{})
}

// New returns an executor. options are those of its egress guard.
func New(s Settings, options egress.Options) (*Executor, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	policy, err := s.policy()
	if err != nil {
		return nil, err
	}
	user, err := chooseUser(s.BrowserUser)
	if err != nil {
		return nil, err
	}
	ns, mode, err := isolate(s.Guard, &options)
	if err != nil {
		return nil, err
	}
	e := &Executor{
		ns: ns, mode: mode, settings: s, engine: &engine{settings: s}, guard: egress.New(policy, options),
		sessions: &sessions{byName: make(map[string]*kept)}, live: executors.Mark() != "",
	}
	if e.live { // whatever is left of a browser goes when this process is killed
		if err := executors.GuardChildren(); err != nil {
			if ns != nil {
				err = errors.Join(err, ns.Close())
			}
			return nil, err
		}
	}
	e.pool = newPool(s, e.engine, user, ns)
	e.spares = newSpares(e)
	e.pool.onRetire = func(b *browser) {
		e.sessions.leave(b)
		e.spares.leave(b)
	}
	return e, nil
}

// isolate makes the network namespace that the setting guard asks for, and has
// the guard listen in it.
func isolate(guard string, o *egress.Options) (*egress.Namespace, egress.Mode, error) {
	if guard == string(egress.ModeFlags) {
		return nil, egress.ModeFlags, nil
	}
	ns, mode, err := egress.Isolate()
	if ns != nil {
		o.ListenIn = ns.Listen
	}
	if err != nil && guard == string(egress.ModeNamespace) {
		return nil, mode, fmt.Errorf("executors.playwright.guard: %w", err)
	}
	return ns, mode, nil
}

// types are the task types that are served.
func types() []executors.TypeDescription {
	var out []executors.TypeDescription
	for _, name := range []string{"playwright", "browser"} {
		out = append(out, executors.TypeDescription{Type: name, Ops: ops, DefaultTimeout: defaultTimeout, MaxTimeout: maxTimeout, Inputs: true})
	}
	return out
}

// Describe looks whether the programs are there and whether the last browser
// came up. It does not wait for one that is starting.
func (e *Executor) Describe(ctx context.Context) (executors.Description, error) {
	d := executors.Description{
		Name: Name, Version: buildinfo.Version, Engine: "chromium", Types: types(),
		Concurrency: e.settings.Concurrency,
	}
	found, err := e.engine.find(ctx)
	if err != nil {
		d.Reasons = []string{err.Error()}
		return d, nil
	}
	if e.live {
		e.pool.warm()
	}
	version, failed := e.pool.state()
	d.EngineVersion = version
	if failed != nil {
		d.Reasons = []string{failed.Error()}
		return d, nil
	}
	d.Ready = true
	if _, why := runsAs(e.pool.user, found, e.settings.BrowserUser); why != "" {
		d.Reasons = []string{why}
	} else if e.pool.bare.Load() {
		d.Reasons = []string{bareReason}
	}
	d.Capabilities = []string{"driver:" + DriverVersion, "guard:" + string(e.mode)}
	if e.settings.Search.configured() {
		d.Capabilities = append(d.Capabilities, "search")
	}
	return d, nil
}

// Health tells what is wrong, and what is not as safe as it could be.
func (e *Executor) Health(ctx context.Context) executors.Health {
	d, err := e.Describe(ctx)
	h := executors.Health{Ready: err == nil && d.Ready}
	if len(d.Reasons) > 0 {
		h.Message = d.Reasons[0]
	}
	return h
}

// Close ends sessions, browsers and drivers and removes their files.
func (e *Executor) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	e.sessions.close(ctx)
	e.spares.close()
	e.pool.close()
	if e.ns != nil {
		return e.ns.Close()
	}
	return nil
}

// Execute runs one task.
func (e *Executor) Execute(ctx context.Context, task executors.Task) (executors.Result, error) {
	all := types()
	i := slices.IndexFunc(all, func(t executors.TypeDescription) bool { return t.Type == task.Type })
	if i < 0 {
		return executors.Result{}, executors.Errorf(executors.CodeUnsupported, "type %q is not served by this executor", task.Type)
	}
	op, err := executors.Op(task, all[i])
	if err != nil {
		return executors.Result{}, err
	}
	check := &checking{settings: e.settings, guard: e.guard}
	p, err := check.decode(task, op)
	if err != nil {
		return executors.Result{Op: op}, err
	}
	task.Progress(executors.Progress{Percent: 0, Stage: "launch"})
	defer e.spares.fill() // for the next one
	return e.newRun(ctx, task, p).execute()
}
