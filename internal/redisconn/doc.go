// Package redisconn is how our programs reach Redis: one server, Sentinel or
// Cluster, by TCP, TLS or Unix socket.
//
// A Manager has thirteen named databases and opens a pool for each when it is
// first used. It hands out three kinds of client:
//
//   - Client, for loops that must go on whatever happens (claim, finish,
//     monitor, leader). It is never blocked.
//   - Guarded, on the same pool but behind the circuit breaker of the database,
//     for callers that would rather be told "not now" than wait: the API, the
//     CLI, producers.
//   - Dedicated, with connections of its own, for heartbeats and for commands
//     that block.
//
// # The circuit breaker
//
// Five failures in a row to reach a database, or to get a reply from it, open
// its breaker; Guarded clients then fail at once with ErrCircuitOpen. A minute
// later (and up to a tenth more, so that many processes do not try together)
// the breaker is half open: the next operation is a trial, all others are still
// refused. If the trial succeeds the breaker closes, else it opens again.
//
// Unguarded clients report into the breaker but never wait for it. They go on
// asking while it is open, so they learn first that the server is back: the
// first answer that one of them gets closes the breaker at once. In a program
// with such a loop callers are therefore served again within the loop's
// back-off, a second or two; the minute is for programs without one. Replies
// such as WRONGTYPE, NOSCRIPT, READONLY or OOM prove that the server is there
// and are no failures; a cancelled call, or a pool without a free connection,
// counts neither way.
//
// # Cluster
//
// A cluster has one database, and a script may use only keys of one slot. So
// the prefix, which must have one hash tag such as {autobot}:, starts every
// key, and named databases become longer prefixes: see DatabasePrefix. Clients
// that write names without the prefix cannot take part.
//
// A command is sent once unless max_retries says otherwise: if its reply is
// lost, only the caller knows whether it may be repeated.
package redisconn
