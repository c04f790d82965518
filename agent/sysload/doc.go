// Package sysload measures the machine an agent runs on and says when it is
// too loaded to take more work.
//
// One Sampler takes a sample every two seconds; Reading returns the newest
// values (rates are averages over ten seconds) without touching the system, so
// a heartbeat never waits for a slow disk. Closed is the load gate: it gives
// the one sentence that tells why the agent is not claiming.
//
// Three things are measured with care:
//
//   - The CPU's busy time leaves out what the hypervisor took away (steal, told
//     apart) and, for the gate, what the agent and its executors used
//     themselves: an agent never stops claiming because of its own work.
//   - Memory is the tightest of the machine and every cgroup (v2) above the
//     agent.
//   - The disk is asked in a goroutine of its own: a dead network mount blocks
//     for ever in the kernel, which must cost one goroutine and not the agent.
package sysload
