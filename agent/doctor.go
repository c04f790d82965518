package agent

import (
	"context"
	"fmt"
)

// The values of Check.Level.
const (
	LevelOK      = "ok"
	LevelNote    = "note"    // worth knowing
	LevelWarning = "warning" // works, and deserves a look
	LevelFault   = "fault"   // does not work
)

// Check is one thing the doctor looked at. Repair says what to do; it is set
// for every fault and warning.
type Check struct {
	Name   string `json:"name"`
	Level  string `json:"level"`
	Detail string `json:"detail"`
	Repair string `json:"repair,omitempty"`
}

// Doctor checks what an agent needs. It changes nothing, but that queues which
// it comes upon become known to the fleet.
type Doctor struct {
	Config  *Config
	Files   []string                      // that the configuration came from
	Running func(context.Context) *Status // asks the agent on this machine; nil when there is none

	checks []Check
}

// Examine looks at everything and returns what it found, in the order of the
// ways a task takes.
func (d *Doctor) Examine(ctx context.Context) []Check {
	d.checks = nil
	running := d.Running(ctx)
	d.agent(running)
	d.redis(ctx, running)
	d.stateDir()
	d.disk()
	d.localAPI(running)
	d.executors(ctx, running)
	d.engines()
	d.control(ctx)
	return d.checks
}

func (d *Doctor) ok(name, format string, args ...any) {
	d.checks = append(d.checks, Check{name, LevelOK, fmt.Sprintf(format, args...), ""})
}

func (d *Doctor) note(name, format string, args ...any) {
	d.checks = append(d.checks, Check{name, LevelNote, fmt.Sprintf(format, args...), ""})
}

func (d *Doctor) warn(name, detail, repair string) {
	d.checks = append(d.checks, Check{name, LevelWarning, detail, repair})
}

func (d *Doctor) fault(name, detail, repair string) {
	d.checks = append(d.checks, Check{name, LevelFault, detail, repair})
}

// agent says whether one is running and what it says about itself.
func (d *Doctor) agent(running *Status) {
	if len(d.Files) == 0 {
		d.note("config", "no configuration file: defaults, variables and flags only (a file would be %s)", ConfigFile)
	} else {
		d.ok("config", "%v", d.Files)
	}
	switch {
	case running == nil:
		d.note("agent", "no agent is running with the state folder %s (start it: systemctl start autobot-agent, or autobot-agent run)", d.Config.StateDir)
	case running.Claiming:
		d.ok("agent", "%s is claiming (pid %d, version %s)", running.WorkerID, running.PID, running.Version)
	default:
		d.warn("agent", fmt.Sprintf("%s is not claiming: %s", running.WorkerID, running.Reason), "see the other lines; after \"drain\": autobot-agent resume")
	}
	if running != nil && running.ConfigErrors != "" {
		d.warn("config", "the last reload changed nothing: "+running.ConfigErrors, "correct the file, then: systemctl reload autobot-agent, or kill -HUP "+fmt.Sprint(running.PID))
	}
}
