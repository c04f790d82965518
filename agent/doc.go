// Package agent is the worker agent of one machine: it wires the queue, the
// executors and the local API together and runs them.
//
// Where things are:
//
//   - config.go, defaults.go, validate.go, load.go: what an operator can set
//   - agent.go: Run, the life of the agent and the order of its end
//   - work.go: the part that needs Redis, started when there is an address
//   - reload.go: what SIGHUP changes
//   - report.go, heartbeat.go: what the agent tells about itself
//   - notify.go: systemd
//   - httpapi.go, httpguard.go, serve.go: the local API
//   - doctor*.go: the checks of "autobot-agent doctor"
//   - identity.go, statedir.go: who we are, and that we are alone
//
// The work itself is in the packages below: worker (claims, heartbeats,
// outcomes), host (executor processes), spool (artifacts), sysload (load gate).
package agent
