// Package spool is where executors leave large output and how it gets from
// there to where it is kept.
//
// Each attempt at a task has a private directory of its own (Prepare). When
// the task has ended, Commit takes the announced files out of it: checked,
// synced, hashed, then uploaded to the control plane, or moved into the
// agent's own content-addressed store when there is none. Only then may the
// task be reported as completed. Discard removes the directory.
//
// A late or repeated commit is harmless: content decides the name. What a
// crash leaves behind is swept when the agent starts.
package spool
