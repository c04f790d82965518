// Command bench measures the queue of AutoBot Fleet next to asynq, BullMQ and
// Celery, on a Redis that it starts on a free loopback port and with the same
// configuration for all.
//
//	go run .                     every row, five rounds, peers included
//	go run . --only noop         one row
//	go run . --quick --peers asynq   one short round with the peer that needs no installation
//	go run . --write             the figures go into docs/performance.md as well
//
// It is a module of its own, so that no peer is a dependency of the product.
//
// Each row is a file: noop.go, submit.go and so on. A side (sides.go) is a
// system under measurement. Its worker is a process of its own, its tasks are
// put in place before the clock starts, and the sides take turns round by
// round, so that a change of the machine's load meets all of them. Between two
// measurements the server is emptied.
package main
