package chaos

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/autobot-fleet/autobot/internal/e2e"
)

// agent carries out a fault of an agent, whose lock the caller holds.
func (in *injector) agent(a *agentSlot, fault Fault) error {
	switch fault.Kind {
	case FreezeAgent:
		a.freeze(a.Process)
		pause(fault.For)
		a.thaw(a.Process)
		return nil
	case FullDisk:
		if err := in.f.disks.fill(fault.Target); err != nil {
			return err
		}
		pause(fault.For)
		return in.f.disks.empty(fault.Target)
	case KillAgent:
		a.Signal(syscall.SIGKILL)
		a.Wait()
	case RestartAgent:
		if code := a.Stop(); code != 0 {
			a.ends = append(a.ends, unclean(code, a.Output())...)
		}
	}
	pause(fault.For)
	a.Start()
	a.note(a.Process)
	return nil
}

// control carries out a fault of a control plane, whose lock the caller holds.
func (in *injector) control(c *controlSlot, fault Fault) error {
	switch fault.Kind {
	case FreezeControl:
		c.freeze(c.Process)
		pause(fault.For)
		c.thaw(c.Process)
		return nil
	case KillControl:
		c.Kill()
	case RestartControl:
		c.Signal(syscall.SIGTERM)
		if code := c.Wait(); code != 0 {
			c.ends = append(c.ends, unclean(code, c.Output())...)
		}
	}
	pause(fault.For)
	c.Start()
	c.note(c.Process)
	return nil
}

// executor kills or freezes one executor process of the fleet.
func (in *injector) executor(fault Fault) bool {
	var pids []int
	for _, a := range in.f.agents {
		if a.mu.TryLock() {
			for _, pid := range e2e.ChildrenOf(a.PID()) {
				if e2e.Alive(pid) {
					pids = append(pids, pid)
				}
			}
			a.mu.Unlock()
		}
	}
	if len(pids) == 0 {
		return false
	}
	slices.Sort(pids)
	pid := pids[int(fault.Pick*float64(len(pids)))%len(pids)]
	if fault.Kind == KillExecutor {
		return syscall.Kill(pid, syscall.SIGKILL) == nil
	}
	if syscall.Kill(pid, syscall.SIGSTOP) != nil {
		return false
	}
	pause(fault.For)
	_ = syscall.Kill(pid, syscall.SIGCONT) // its agent may have killed it
	return true
}

// unclean is what is wrong with a stop that ended with a code. An agent that
// cannot deliver its outcomes, because Redis is away, says so and is right.
func unclean(code int, output string) []string {
	if last := lastLine(output); !strings.Contains(output, "could not be delivered") {
		return []string{fmt.Sprintf("was stopped and ended with code %d: %s", code, last)}
	}
	return nil
}
