// Package monitor finds dead workers and stuck tasks and puts the tasks back
// into their queues.
//
// Any number of control planes may run a Monitor on the same queue. One of
// them holds the lease on leadership (leader.go) and acts; the others watch,
// so that the next leader knows at once who is dead. The tour:
//
//   - scan.go and marks.go judge who is dead. A monitor that was paused, or a
//     server that restarted or refused writes, blames nobody.
//   - failover.go takes a dead worker's tasks away, chunk by chunk, and records
//     one event when the last one has moved.
//   - reap.go finds ids that hang in a processing list without a living owner.
//   - promote.go moves delayed tasks to their queues when they are due.
//   - retention.go and discover.go keep the server tidy and the list of queues
//     complete.
//   - gauges.go and alarms.go publish what a person on call wants to see.
//
// Every move is one atomic step of the queue with the lease's epoch as its
// fence, so a monitor that dies half way, or that lost the lead without
// noticing, loses and doubles nothing.
package monitor
