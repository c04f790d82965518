// Package queuetest is the conformance suite of queue.Backend. Every layout
// runs Exercise against every server it claims to support; what it asserts is
// what agents, control planes and producers rely on.
package queuetest
