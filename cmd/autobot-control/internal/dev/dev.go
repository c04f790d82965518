package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/internal/redisconn"
)

// Options say what to run. Out is required.
type Options struct {
	Dir   string            // where everything is kept; empty: DefaultDir
	Redis *redisconn.Config // a Redis that runs already; nil: one of its own
	Demo  bool              // run real tasks, for each executor that is ready
	Once  bool              // end after that
	Out   io.Writer         // what people read
	Hurry <-chan os.Signal  // asks once more to end, while it ends
}

// ErrDemoFailed is returned with Once when a task of the demo failed; the
// screen says which.
var ErrDemoFailed = errors.New("not every task of the demo succeeded")

// fleet is everything that runs.
type fleet struct {
	o        Options
	folder   *folder
	redis    *server
	control  *plane
	agent    *agent
	unkeep   context.CancelFunc // ends the keeping of the agent, nil before it
	kept     chan struct{}      // closed when that has ended
	site     *site
	withdraw func() // removes the runtime file
}

// Run starts a fleet, shows where it is, and runs it until ctx is done or, with
// Once, until the demo is over. It returns nil after a clean end, and leaves no
// process behind in any case.
func Run(ctx context.Context, o Options) error {
	if o.Dir == "" {
		dir, err := DefaultDir()
		if err != nil {
			return err
		}
		o.Dir = dir
	}
	p, err := findPrograms()
	if err != nil {
		return err
	}
	f := &fleet{o: o, withdraw: func() {}}
	if f.folder, err = openFolder(o.Dir); err != nil {
		return err
	}
	defer f.folder.release()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	f.say("AutoBot Fleet on this machine: starting ...")
	status, err := f.start(ctx, p, fail)
	if err == nil {
		err = f.use(ctx, status)
	}
	interrupted := ctx.Err() != nil
	if err == nil || errors.Is(err, context.Canceled) {
		err = context.Cause(ctx) // what failed, rather than whom that stopped
	}
	ending := f.stop(err)
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		return err // the first thing that went wrong
	case ending == nil && o.Once && interrupted:
		return errors.New("stopped before the demo was over")
	}
	return ending
}

// start brings everything up in order. What was started is in f, also after
// an error.
func (f *fleet) start(ctx context.Context, p programs, fail context.CancelCauseFunc) (agentStatus, error) {
	var err error
	if f.o.Redis != nil {
		f.redis, err = useRedis(ctx, *f.o.Redis)
	} else {
		f.redis, err = startRedis(ctx, f.folder)
	}
	if err != nil {
		return agentStatus{}, err
	}
	if f.redis.child != nil {
		go watch(ctx, f.redis.child, fail)
	}
	if f.control, err = startControl(f.folder, f.redis.config, fail); err != nil {
		return agentStatus{}, err
	}
	if f.site, err = startSite(); err != nil {
		return agentStatus{}, err
	}
	config, err := agentConfig(f.folder, p, f.site, f.redis.config, f.control.Control, f.control.keyFile)
	if err != nil {
		return agentStatus{}, err
	}
	if f.agent, err = startAgent(f.folder, p, config, false); err != nil {
		return agentStatus{}, err
	}
	status, err := f.agent.await(ctx, func(reason string) { f.say("  waiting for the agent: %s", reason) })
	if err != nil {
		return agentStatus{}, err // one that does not come up at all is not tried again
	}
	ctx, f.unkeep = context.WithCancel(ctx)
	f.kept = make(chan struct{})
	go func() {
		defer close(f.kept)
		f.keepAgent(ctx, config, p, fail)
	}()
	return status, nil
}

// watch ends the fleet when a child dies that should live.
func watch(ctx context.Context, c *child, fail context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
	case <-c.done:
		fail(c.ending())
	}
}

// use shows the fleet, runs the demo and waits.
func (f *fleet) use(ctx context.Context, status agentStatus) error {
	remove, published, err := publish(Runtime{
		URL: f.control.URL(), CAFile: f.control.CAPath(), KeyFile: f.control.keyFile,
		JWTSecretFile: f.control.jwtFile, Dir: f.folder.dir,
	})
	f.withdraw = remove
	if err := f.site.show(status); err != nil {
		return err
	}
	f.introduce(status)
	if err != nil {
		f.say("  note        other commands cannot find this fleet by themselves: %v", err)
	}
	if f.o.Demo {
		good, err := f.demo(ctx, status)
		switch {
		case err != nil:
			return err
		case f.o.Once && !good:
			return ErrDemoFailed
		case f.o.Once:
			return nil
		}
	}
	f.explain(published)
	<-ctx.Done()
	return nil // stop asks for the cause
}

// introduce says what runs where.
func (f *fleet) introduce(s agentStatus) {
	f.say("")
	f.say("  redis       %s", f.redis.about)
	f.say("  control     %s", f.control.URL())
	f.say("  agent       worker %s, http://%s/status", s.WorkerID, s.API)
	var ready, rest []string
	for _, e := range s.Executors {
		if e.ready() {
			ready = append(ready, e.Name)
		} else {
			rest = append(rest, fmt.Sprintf("  not ready   %s: %s", e.Name, e.why()))
		}
	}
	if len(ready) == 0 {
		ready = []string{"none is ready"}
	}
	f.say("  executors   %s", strings.Join(ready, ", "))
	for _, line := range rest {
		f.say("%s", line)
	}
	f.say("  page        %s, which tasks may open", f.site.url())
	if pictures, err := engines.Locate().DataSet("sample-pictures"); err == nil {
		f.say("  pictures    %s, which tasks may read", pictures)
	}
	f.say("  logs        %s", f.folder.path("logs"))
}

// explain says how to use the fleet and how to stop it.
func (f *fleet) explain(published bool) {
	program := shellWord(callName())
	flags := ""
	if !published {
		flags = fmt.Sprintf(" --control-url %s --ca-file %s --key-file %s", f.control.URL(), shellWord(f.control.CAPath()), shellWord(f.control.keyFile))
	}
	f.say("")
	f.say("Try it from another terminal:")
	f.say("  %s tasks submit%s general '{\"op\":\"echo\",\"value\":42}' --wait", program, flags)
	f.say("  %s workers list%s", program, flags)
	f.say("  %s doctor --config %s", program, shellWord(f.folder.path("control.yaml")))
	f.say("  %s status --config %s", shellWord(agentName(callName())), shellWord(f.folder.path("agent.yaml")))
	if f.redis.how != "" {
		f.say("  %s", f.redis.how)
	}
	f.say("")
	f.say("It runs until you press ctrl-C.")
}

// callName is how the reader can call this program.
func callName() string {
	const name = "autobot-control"
	self, err := os.Executable()
	if err != nil {
		return name
	}
	if found, err := exec.LookPath(name); err == nil {
		if found, err = filepath.EvalSymlinks(found); err == nil && found == self {
			return name
		}
	}
	if here, err := os.Getwd(); err == nil {
		if near, err := filepath.Rel(here, self); err == nil && !strings.HasPrefix(near, "..") {
			return "./" + near
		}
	}
	return self
}

// agentName is how the reader can call the agent's program, which lies beside
// this one.
func agentName(control string) string {
	return strings.TrimSuffix(control, "autobot-control") + "autobot-agent"
}

// stop takes everything down in order: the agent ends its tasks while the rest
// is there. It first says the cause of an end that nobody asked for.
func (f *fleet) stop(cause error) error {
	if f.unkeep != nil {
		f.unkeep()
		<-f.kept
	}
	f.withdraw()
	f.accuse(cause)
	if f.agent != nil {
		f.farewell()
		f.agent.stop(drainTimeout+30*time.Second, f.o.Hurry)
	}
	var err error
	if f.control != nil {
		err = f.control.stop()
	}
	if f.redis != nil {
		f.redis.stop(f.o.Hurry)
	}
	if f.site != nil {
		f.site.stop()
	}
	if err == nil && f.agent != nil && (cause == nil || errors.Is(cause, context.Canceled) || errors.Is(cause, ErrDemoFailed)) {
		f.say("Stopped. Everything is kept in %s", f.folder.dir)
	}
	return err
}

// accuse says why the fleet ends, with the log of who is to blame. The error
// that Run returns comes to the screen when all has ended, which may take long.
func (f *fleet) accuse(cause error) {
	if cause == nil || f.agent == nil || errors.Is(cause, context.Canceled) || errors.Is(cause, ErrDemoFailed) {
		return
	}
	f.say("")
	var d *death
	if errors.As(cause, &d) {
		f.say("%v; %s", cause, d.logged())
		return
	}
	f.say("%v", cause)
}

// farewell says what the end waits for.
func (f *fleet) farewell() {
	f.say("")
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := f.agent.status(ctx)
	if err == nil && len(s.Running) > 0 {
		f.say("Stopping: waiting up to %s for what runs, tasks: %d (ctrl-C again hands back to the queue) ...", drainTimeout, len(s.Running))
		return
	}
	f.say("Stopping ...")
}

// say writes one line, or more where it does not fit.
func (f *fleet) say(format string, args ...any) {
	text := cli.Printable(fmt.Sprintf(format, args...))
	if width, ok := cli.Width(f.o.Out); ok {
		text = cli.Wrap(text, width, "              ")
	}
	_, _ = fmt.Fprintln(f.o.Out, text) // a screen that is gone must not stop the fleet's orderly end
}

// dial opens a client of the fleet's control plane, as everybody else would.
func (f *fleet) dial() (*client.Client, error) {
	return client.Dial(client.Options{URL: f.control.URL(), CAFile: f.control.CAPath(), KeyFile: f.control.keyFile})
}
