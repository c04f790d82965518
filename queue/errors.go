package queue

import (
	"errors"
	"fmt"
)

// Errors that callers branch on.
var (
	// ErrNotFound says that no task has the id.
	ErrNotFound = errors.New("no such task")
	// ErrExists says that a task with the id is already there.
	ErrExists = errors.New("a task with this id exists already")
	// ErrConflict says that the task's state does not allow the move.
	ErrConflict = errors.New("the task's state does not allow this")
	// ErrNotFinished says that the task has no result yet.
	ErrNotFinished = errors.New("the task has not finished")
	// ErrExpired says that the task finished and its result has been dropped since.
	ErrExpired = errors.New("the result has expired")
	// ErrReregister says that the worker is unknown to the server and has to
	// register again (its tasks have been or will be taken away).
	ErrReregister = errors.New("the worker is not registered any more")
	// ErrSuperseded says that a newer generation of the same worker id exists;
	// the caller has to stop claiming and may publish nothing.
	ErrSuperseded = errors.New("a newer process has taken over this worker id")
	// ErrInUse says that a living worker on another node has the id.
	ErrInUse = errors.New("another living worker uses this worker id")
	// ErrNotEmpty says that the worker still owns tasks.
	ErrNotEmpty = errors.New("the worker still owns tasks")
	// ErrNotLeader says that the caller's lease on leadership has been lost.
	ErrNotLeader = errors.New("this control plane is not the leader")
	// ErrOwnerAlive says that a worker taken for dead has a heartbeat again.
	ErrOwnerAlive = errors.New("the worker is alive")
	// ErrNotList says that a queue's key, or that of its processing list, holds
	// something other than a list.
	ErrNotList = errors.New("the queue or its processing list is not a list")
	// ErrUnreplicated says that a task was stored and can be claimed, but that
	// not as many replicas as were asked for have confirmed it in time.
	ErrUnreplicated = errors.New("stored, but not confirmed by the replicas in time")
	// ErrUnblockRefused says that a blocked wait could not be ended early: it
	// ends by itself after its block time.
	ErrUnblockRefused = errors.New("the server does not let a blocked wait be ended early")
)

// DuplicateError is returned for a submission whose unique key is held.
type DuplicateError struct {
	Key string // the unique key
	ID  string // the task that holds it
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("unique key %q is held by task %s, which has not ended", e.Key, e.ID)
}

// InvalidError says which field of a submission or call breaks which rule.
type InvalidError struct {
	Field string // JSON path, for example "payload" or "id"
	Rule  string // the rule and what was given
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Rule }
