// Package worker is the part of the agent that owns tasks: it registers the
// worker, claims tasks, runs them on the executors, keeps the worker alive by
// heartbeats, delivers every outcome, and hands everything back when it stops.
//
// Who does what:
//
//   - Run (worker.go, start.go, drain.go) is the life of the worker: wait for
//     the server, kill what a former run left, register, recover, work, drain,
//     deregister.
//   - the claimer (claim.go, claimreply.go, settle.go) is one goroutine that
//     makes every call which moves tasks, one after the other. So a claim whose
//     reply is under way can never be mistaken for one whose reply was lost, and
//     a slot is never given away twice.
//   - the waiters (waiters.go) block on one queue each and only report what they
//     won; the claimer decides.
//   - the heart (heartbeat.go) is the only one who registers and renews, on a
//     connection of its own; the fence (fence.go) counts from its last
//     confirmed beat and stops all work when the lease is about to lapse.
//   - a run (runs.go, execute.go) is one claim from its start until its
//     outcome has been accepted; it holds its slot for as long.
//
// No error of the queue ever becomes the failure of a task: the call is made
// again until it is answered, or until the fence has dropped the claim.
package worker
