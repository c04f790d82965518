// Package check is what the doctors of agent and control plane find.
package check

import "fmt"

// The values of Check.Level.
const (
	LevelOK      = "ok"
	LevelNote    = "note"    // worth knowing
	LevelWarning = "warning" // works, and deserves a look
	LevelFault   = "fault"   // does not work
)

// Check is one thing that a doctor looked at. Repair says what to do; it is set
// for every fault and warning.
type Check struct {
	Name   string `json:"name"`
	Level  string `json:"level"`
	Detail string `json:"detail"`
	Repair string `json:"repair,omitempty"`
}

// List collects what a doctor finds, in the order of its looking.
type List []Check

// OK records that something is as it should be.
func (l *List) OK(name, format string, args ...any) {
	*l = append(*l, Check{name, LevelOK, fmt.Sprintf(format, args...), ""})
}

// Note records what is worth knowing and needs no repair.
func (l *List) Note(name, format string, args ...any) {
	*l = append(*l, Check{name, LevelNote, fmt.Sprintf(format, args...), ""})
}

// Warn records what works and deserves a look.
func (l *List) Warn(name, detail, repair string) {
	*l = append(*l, Check{name, LevelWarning, detail, repair})
}

// Fault records what does not work.
func (l *List) Fault(name, detail, repair string) {
	*l = append(*l, Check{name, LevelFault, detail, repair})
}

// Count returns how many faults and warnings there are.
func (l List) Count() (faults, warnings int) {
	for _, c := range l {
		switch c.Level {
		case LevelFault:
			faults++
		case LevelWarning:
			warnings++
		}
	}
	return faults, warnings
}
