// Package queue says what a task is and what may happen to it.
//
// The package holds the vocabulary (Task, Claim, Outcome, Worker), the rules
// for names, the errors and the Backend interface; it does not talk to any
// server. Each Redis layout is a package of its own below this one
// (queue/redislist is the primary one) and passes the conformance suite in
// queue/queuetest.
//
// A task moves through these states:
//
//	(nothing) --submit--> queued --claim--> running --finish--> completed
//	                        ^                  |
//	                        +-- retries left --+-- none left --> failed_permanent
//
// cancelled can be reached from queued and from running. completed,
// failed_permanent and cancelled are terminal: only an operator's retry or
// delete leaves them.
//
// Every change of state is one atomic move with a fence: the caller names the
// worker and the attempt it acts for, and a caller who lost the task changes
// nothing. The server's clock is the only shared clock.
package queue
