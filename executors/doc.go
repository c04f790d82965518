// Package executors is the contract between the agent and an executor: a
// separate process that runs tasks of a few types.
//
// An executor implements Executor and calls Serve from its main. It knows
// neither Redis nor the agent: it gets a Task, reports progress, logs and
// artifacts through it, and returns a Result or an error. The agent starts the
// process with Launch, gets a Process, and gives it tasks through a Session.
//
// An executor's main is one call:
//
//	func main() {
//		executors.ServeFunc("name", version, func() (executors.Executor, error) {
//			var s mySettings
//			if err := executors.Settings(&s); err != nil {
//				return nil, err
//			}
//			return newMyExecutor(s)
//		})
//	}
//
// Execute reads its payload with Op and DecodePayload, which give users errors
// that name the field. Child processes are started with package child, so that
// none outlives its task; those that start processes of their own need
// GuardChildren and Mark. Package executorstest checks any executor binary.
//
// On the wire it is gRPC over go-plugin (proto/executor.proto): one long-lived
// bidirectional stream carries all tasks and events of a process, beside the
// calls Describe, Health, Drain and Shutdown.
package executors
