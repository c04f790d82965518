package redislist

import "fmt"

const (
	// batchIDs is the most ids that one call works through. A script stops
	// before them when it has done enough (see spend in common.lua).
	batchIDs = 256
	// batchBytes bounds the documents that one call stores.
	batchBytes = 2 << 20
)

// inBatches calls do for consecutive parts of n items until all are handled.
// do returns how many of its part it handled; a part that was too much for one
// script makes the next ones smaller.
func inBatches(n int, do func(from, to int) (handled int, err error)) error {
	limit := batchIDs
	for from := 0; from < n; {
		to := min(n, from+limit)
		handled, err := do(from, to)
		if err != nil {
			return err
		}
		if handled < 1 || handled > to-from {
			return fmt.Errorf("script handled %d of %d items", handled, to-from)
		}
		if handled < to-from {
			limit = 2 * handled
		}
		from += handled
	}
	return nil
}

// fitting is how many of the documents fit into one call, at least one.
func fitting(n int, size func(i int) int) int {
	bytes := 0
	for i := range n {
		bytes += size(i)
		if bytes > batchBytes && i > 0 {
			return i
		}
	}
	return n
}

// withIDs appends the ids to the arguments of a script.
func withIDs(args []any, ids []string) []any {
	for _, id := range ids {
		args = append(args, id)
	}
	return args
}
