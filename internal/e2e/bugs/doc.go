// Package bugs reproduces faults that users of other task queues have reported
// in public. Each test bears the number of its fault in docs/reliability.md,
// which names the reports; what must hold is told by the test's comment.
//
// Sizes are such that all tests together are quick. Flags bring them to the
// size of the reports:
//
//	go test ./internal/e2e/bugs -bugs.full -timeout 60m
//
// -bugs.strict also checks figures that only a machine with nothing else to do
// can keep.
package bugs
