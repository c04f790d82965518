// Package host finds executors, starts their processes and keeps them running.
//
// An executor is a file autobot-executor-NAME in one of the configured
// folders, with its manifest autobot-executor-NAME.json beside it. Before anything of it runs
// it must pass the trust rules (trust.go): who could have written it, and is it
// what the manifest says. What passes is copied, under its hash, into the
// agent's own store, and only that copy is ever started.
//
// From there on a unit (unit.go) supervises one version of one executor: a
// slot (slot.go) per process starts it, watches its health and starts it again
// with back-off when it has died. A new version, or new settings, make a new
// unit; the former one drains.
//
// Execute sends a task to a process with a free place. A crash costs the tasks
// that were in the process one attempt each, and never the agent; who is to
// blame when there were several is found out by running each of them alone.
//
// Work stops when it must (kill.go): KillTask waits for nothing but the kernel,
// and the lease that ExtendLease moves on is read by the processes themselves,
// which end when the agent has stood still for too long. They run at a lower
// priority than the agent, and, where the agent may make cgroups (cgroup.go),
// whatever they start dies with them.
package host
