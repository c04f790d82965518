package host

import (
	"slices"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// The states of an executor.
const (
	StateStarting    = "starting"    // its first process has not answered yet
	StateReady       = "ready"       // takes tasks
	StateNotReady    = "not_ready"   // runs, and says what it misses
	StateCrashed     = "crashed"     // will be started again soon
	StateDisabled    = "disabled"    // crashed too often, or switched off
	StateQuarantined = "quarantined" // not trusted, never started
	StateDraining    = "draining"    // replaced; finishes what it has
)

// Status describes one executor. While a version is being replaced the former
// one has an entry of its own, draining.
type Status struct {
	Name          string       `json:"name"`
	Version       string       `json:"version,omitempty"`
	Engine        string       `json:"engine,omitempty"`
	EngineVersion string       `json:"engine_version,omitempty"`
	Path          string       `json:"path"`
	Types         []TypeStatus `json:"types"`
	Concurrency   int          `json:"concurrency"` // tasks at once in all processes that are ready now
	InFlight      int          `json:"in_flight"`
	State         string       `json:"state"`
	Reasons       []string     `json:"reasons,omitempty"` // why it is not ready, or what a ready one leaves out; each names the repair where there is one
	PIDs          []int        `json:"pids,omitempty"`
	Crashes       int          `json:"crashes"` // since the agent started
	// Confinement tells what holds together the processes that it starts:
	// ConfinedByCgroup or ConfinedByGroup.
	Confinement string `json:"confinement,omitempty"`
}

// TypeStatus describes one task type of an executor.
type TypeStatus struct {
	Type           string        `json:"type"`
	Ops            []string      `json:"ops,omitempty"`
	DefaultTimeout time.Duration `json:"default_timeout,omitempty"`
	MaxTimeout     time.Duration `json:"max_timeout,omitempty"`
	Inputs         bool          `json:"inputs,omitempty"` // payloads may refer to artifacts
	MakesSpoolDir  bool          `json:"-"`                // the executor makes a task's folder itself
}

// Status returns one entry per executor, sorted by name.
func (h *Host) Status() []Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	list := make([]Status, 0, len(h.units)+len(h.refused))
	for _, u := range h.units {
		list = append(list, u.status(now))
	}
	for path, r := range h.refused {
		s := Status{
			Name: r.name, Version: r.version, Path: path, State: r.state, Reasons: []string{r.reason},
			Types: []TypeStatus{}, Crashes: h.crashes[r.name],
		}
		for _, t := range r.types {
			s.Types = append(s.Types, TypeStatus{Type: t})
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Status) int {
		if a.Name != b.Name {
			return strings.Compare(a.Name, b.Name)
		}
		return strings.Compare(a.State+a.Path, b.State+b.Path)
	})
	return list
}

// status is called with the host's lock held.
func (u *unit) status(now time.Time) Status {
	s := Status{
		Name: u.name, Version: u.manifest.Version, Path: u.path, Types: []TypeStatus{},
		InFlight: u.inFlight(), State: u.state(now), Crashes: u.h.crashes[u.name],
	}
	if u.desc.Version != "" {
		s.Version = u.desc.Version
	}
	s.Confinement = ConfinedByGroup
	if u.h.cgroups != "" {
		s.Confinement = ConfinedByCgroup
	}
	s.Engine, s.EngineVersion = u.desc.Engine, u.desc.EngineVersion
	for _, t := range u.desc.Types {
		s.Types = append(s.Types, typeStatus(t))
	}
	if len(u.desc.Types) == 0 {
		for _, t := range u.manifest.Types {
			s.Types = append(s.Types, TypeStatus{Type: t})
		}
	}
	for p := range u.procs {
		s.PIDs = append(s.PIDs, p.pid)
		if p.ready && !p.solo && s.State == StateReady {
			s.Concurrency += p.desc.Concurrency
		}
	}
	slices.Sort(s.PIDs)
	s.Reasons = u.reasons(s.State, now)
	return s
}

func typeStatus(t executors.TypeDescription) TypeStatus {
	return TypeStatus{Type: t.Type, Ops: t.Ops, DefaultTimeout: t.DefaultTimeout, MaxTimeout: t.MaxTimeout, Inputs: t.Inputs, MakesSpoolDir: t.MakesSpoolDir}
}
