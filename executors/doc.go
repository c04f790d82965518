// Package executors is the contract between the agent and an executor: a
// separate process that runs tasks of a few types.
//
// An executor implements Executor and calls Serve from its main. It knows
// neither Redis nor the agent: it gets a Task, reports progress, logs and
// artifacts through it, and returns a Result or an error. The agent starts the
// process with Launch.
//
// On the wire it is gRPC over go-plugin (proto/executor.proto): one long-lived
// bidirectional stream carries all tasks and events of a process, beside the
// calls Describe, Health, Drain and Shutdown.
package executors
