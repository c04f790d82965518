package queue

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Limits of what producers may write.
const (
	MaxPayload = 1 << 20   // bytes of a payload
	MaxResult  = 256 << 10 // bytes of a result document
	maxID      = 200
)

var (
	idPattern     = regexp.MustCompile(`^[A-Za-z0-9._-]{1,200}$`)
	partPattern   = regexp.MustCompile(`^[a-z0-9_.-]{1,64}$`)
	workerPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
)

// CheckTaskID reports whether a caller may use id for a new task.
func CheckTaskID(id string) error {
	if !idPattern.MatchString(id) {
		return &InvalidError{Field: "id", Rule: fmt.Sprintf("must be 1-%d of [A-Za-z0-9._-], got %s", maxID, quote(id))}
	}
	return nil
}

// CheckType reports whether typ can name a task type.
func CheckType(typ string) error {
	if typ == "" {
		return &InvalidError{Field: "type", Rule: "is required"}
	}
	return checkPart("type", typ)
}

// CheckQueue reports whether name can be given as a plain queue name or as
// "{priority}:{type}".
func CheckQueue(name string) error {
	head, tail, two := strings.Cut(name, ":")
	if two {
		if _, ok := priorityWord(head); !ok {
			return &InvalidError{Field: "queue", Rule: fmt.Sprintf("the part before ':' must be critical, high, normal or low, got %s", quote(head))}
		}
		return checkPart("queue", tail)
	}
	if _, ok := priorityWord(name); ok {
		return &InvalidError{Field: "queue", Rule: fmt.Sprintf("%s is a priority, not a queue name", quote(name))}
	}
	return checkPart("queue", name)
}

// CheckWorkerID reports whether id can name a worker.
func CheckWorkerID(id string) error {
	if !workerPattern.MatchString(id) {
		return &InvalidError{Field: "worker", Rule: fmt.Sprintf("must be 1-128 of [A-Za-z0-9_-], got %s", quote(id))}
	}
	return nil
}

func checkPart(field, s string) error {
	if s == "processing" {
		return &InvalidError{Field: field, Rule: `"processing" is reserved`}
	}
	if !partPattern.MatchString(s) {
		return &InvalidError{Field: field, Rule: fmt.Sprintf("must be 1-64 of [a-z0-9_.-], got %s", quote(s))}
	}
	return nil
}

// ParsePriority reads a priority word or number; empty is normal.
func ParsePriority(s string) (Priority, error) {
	if s == "" {
		return PriorityNormal, nil
	}
	if p, ok := priorityWord(s); ok {
		return p, nil
	}
	switch s {
	case "1":
		return PriorityLow, nil
	case "2":
		return PriorityNormal, nil
	case "3":
		return PriorityHigh, nil
	case "4":
		return PriorityCritical, nil
	}
	return "", &InvalidError{Field: "priority", Rule: fmt.Sprintf("must be critical, high, normal, low or 4..1, got %s", quote(s))}
}

func priorityWord(s string) (Priority, bool) {
	for _, p := range Priorities {
		if string(p) == s {
			return p, true
		}
	}
	return "", false
}

// TypeQueue is the queue of a task type at a priority.
func TypeQueue(p Priority, typ string) string { return string(p) + ":" + typ }

// WatchedQueues lists the queues a worker has to watch for the given types, in
// strict claiming order: every critical list, every high one, and so on, then
// the bare type names, then the plain names.
func WatchedQueues(types, plain []string) []string {
	out := make([]string, 0, len(types)*5+len(plain))
	for _, p := range Priorities {
		for _, t := range types {
			out = append(out, TypeQueue(p, t))
		}
	}
	out = append(out, types...)
	return append(out, plain...)
}

// quote shows at most 80 characters of a value that a caller gave.
func quote(s string) string {
	if r := []rune(s); len(r) > 80 {
		s = string(r[:80]) + "..."
	}
	return strconv.Quote(s)
}
