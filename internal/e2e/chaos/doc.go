// Package chaos runs a fleet of real processes under faults and proves
// afterwards that no task was lost, doubled or left behind.
//
// Three agents, two control planes and two kinds of producers share a Redis
// server, each behind a proxy of its own. About once a second something is
// killed, frozen, cut off, filled up or restarted, by a schedule that a seed
// decides. When all of it has been put right and every task has ended, a
// checker compares what Redis holds, what the executors wrote into their
// ledger, what was announced and what the processes did with seven invariants.
//
//	schedule.go  which fault when: the same for the same seed
//	proxy.go     the network, in which connections stall and break
//	fleet.go     the processes
//	fault*.go    what each kind of fault does and how it is undone
//	produce.go   the tasks
//	audit.go     looks at the server while all this happens
//	state.go     what the server holds afterwards
//	check.go     the invariants, a function of plain data
//	breaks.go    moves that are broken on purpose, to show that the checker sees it
//	run.go       one run, report.go its summary
//
// cmd/chaos is the program behind `make chaos`.
package chaos
