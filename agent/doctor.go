package agent

import (
	"context"
	"fmt"

	"github.com/autobot-fleet/autobot/internal/check"
)

// Doctor checks what an agent needs. It changes nothing, but that queues which
// it comes upon become known to the fleet.
type Doctor struct {
	Config  *Config
	Files   []string                      // that the configuration came from
	Running func(context.Context) *Status // asks the agent on this machine; nil when there is none

	found       check.List
	unreachable bool
}

// Unreachable reports whether Redis could not be reached, or did not answer, in
// the last Examine.
func (d *Doctor) Unreachable() bool { return d.unreachable }

// Examine looks at everything and returns what it found, in the order of the
// ways a task takes.
func (d *Doctor) Examine(ctx context.Context) check.List {
	d.found, d.unreachable = nil, false
	running := d.Running(ctx)
	d.agent(running)
	d.redis(ctx, running)
	d.stateDir()
	d.disk()
	d.localAPI(running)
	d.executors(ctx, running)
	d.engines()
	d.control(ctx)
	return d.found
}

// agent says whether one is running and what it says about itself.
func (d *Doctor) agent(running *Status) {
	if len(d.Files) == 0 {
		d.found.Note("config", "no configuration file: defaults, variables and flags only (a file would be %s)", ConfigFile)
	} else {
		d.found.OK("config", "%v", d.Files)
	}
	switch {
	case running == nil:
		d.found.Note("agent", "no agent is running with the state folder %s (start it: systemctl start autobot-agent, or autobot-agent run)", d.Config.StateDir)
	case running.Claiming:
		d.found.OK("agent", "%s is claiming (pid %d, version %s)", running.WorkerID, running.PID, running.Version)
	default:
		d.found.Warn("agent", fmt.Sprintf("%s is not claiming: %s", running.WorkerID, running.Reason), "see the other lines; after \"drain\": autobot-agent resume")
	}
	if running != nil && running.ConfigErrors != "" {
		d.found.Warn("config", "the last reload changed nothing: "+running.ConfigErrors, "correct the file, then: systemctl reload autobot-agent, or kill -HUP "+fmt.Sprint(running.PID))
	}
}
