package dev

import "github.com/autobot-fleet/autobot/internal/devfleet"

// Runtime tells other programs of this user about a fleet that runs.
type Runtime = devfleet.Runtime

// Find returns the fleet of this user that runs now, nil when there is none.
func Find() *Runtime { return devfleet.Find() }

// publish writes the file that Find reads, unless that of another running
// fleet is there. The returned function removes what was written.
func publish(r Runtime) (remove func(), published bool, err error) { return devfleet.Publish(r) }
