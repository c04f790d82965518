package executors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/status"

	executorpb "github.com/autobot-fleet/autobot/executors/proto"
)

// A Process is a running executor process as the host sees it. Its methods
// may be called at the same time. Calls to a process that has ended return an
// error that says how it ended.
type Process struct {
	runner *processRunner
	hangUp func() // closes the connection; waits for the process, killing it after two seconds
	api    executorpb.ExecutorClient
}

// PID is the id of the process and of its process group.
func (p *Process) PID() int { return p.runner.proc.PID() }

// Mark is the KEY=VALUE that the process and everything it starts carry in
// their environment, unless they clear it.
func (p *Process) Mark() string { return p.runner.mark }

// Exited is closed when the process has ended, everything in its process
// group is gone and its output has been read.
func (p *Process) Exited() <-chan struct{} { return p.runner.ended }

// Exit says how the process ended; it waits for Exited.
func (p *Process) Exit() Exit {
	<-p.runner.ended
	return p.runner.exit
}

// Kill sends SIGKILL to the whole process group and waits until it is gone.
// What runs in the process is lost.
func (p *Process) Kill() {
	p.runner.kill()
	<-p.runner.ended
}

// KillNow is Kill that does not wait: it makes two system calls and touches
// nothing that could hold it up.
func (p *Process) KillNow() { p.runner.kill() }

// afterDeath releases the connection and the socket once the process is gone.
func (p *Process) afterDeath() {
	<-p.runner.ended
	p.hangUp()
	p.runner.cleanUp()
}

// Describe asks the executor what it serves, and checks the answer.
func (p *Process) Describe(ctx context.Context) (Description, error) {
	reply, err := p.api.Describe(ctx, &executorpb.DescribeRequest{})
	if err != nil {
		return Description{}, p.callError("describe", err)
	}
	d := describeFromWire(reply)
	return d, d.Check()
}

// Health asks the executor how it is.
func (p *Process) Health(ctx context.Context) (Health, error) {
	reply, err := p.api.Health(ctx, &executorpb.HealthRequest{})
	if err != nil {
		return Health{}, p.callError("health", err)
	}
	return Health{
		Ready: reply.GetReady(), InFlight: int(reply.GetInFlight()),
		Devices: reply.GetDevices(), Message: reply.GetMessage(),
	}, nil
}

// Drain makes the executor refuse new tasks and waits at most timeout for the
// running ones. It returns how many run then.
func (p *Process) Drain(ctx context.Context, timeout time.Duration) (inFlight int, err error) {
	reply, err := p.api.Drain(ctx, &executorpb.DrainRequest{TimeoutMs: timeout.Milliseconds()})
	if err != nil {
		return 0, p.callError("drain", err)
	}
	return int(reply.GetInFlight()), nil
}

// Shutdown ends the process: what runs is cancelled and has grace to end (0:
// five seconds), outcomes are still delivered, then the process exits. When it
// has not exited soon after grace, or ctx is done, it is killed, and the error
// says so. In any case the process is gone when Shutdown returns.
func (p *Process) Shutdown(ctx context.Context, grace time.Duration) error {
	if grace <= 0 {
		grace = defaultGrace
	}
	ctx, cancel := context.WithTimeout(ctx, grace+exitDelay)
	defer cancel()
	_, err := p.api.Shutdown(ctx, &executorpb.ShutdownRequest{GraceMs: grace.Milliseconds()})
	if err == nil {
		// Closing the connection is what ends the serving on the other side.
		// It waits for two seconds at most, then kills.
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			p.hangUp()
		}()
		select {
		case <-p.runner.ended:
		case <-ctx.Done():
		}
		defer func() { <-closed }()
	}
	select {
	case <-p.runner.ended:
		if exit := p.runner.exit; exit.Killed {
			return fmt.Errorf("the executor did not end by itself and was killed: %s", exit)
		}
		return nil
	default:
	}
	p.Kill()
	if err != nil {
		return fmt.Errorf("the executor did not answer to its shutdown and was killed: %w", err)
	}
	return errors.New("the executor did not end by itself and was killed")
}

// callError says which call failed, and how the process ended if it has.
func (p *Process) callError(call string, err error) error {
	select {
	case <-p.runner.ended:
		return fmt.Errorf("executor %s: the process has ended: %s", call, p.runner.exit)
	default:
	}
	if st, ok := status.FromError(err); ok {
		return fmt.Errorf("executor %s: %s", call, st.Message())
	}
	return fmt.Errorf("executor %s: %w", call, err)
}
