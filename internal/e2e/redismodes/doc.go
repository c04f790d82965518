// Package redismodes tests our programs on Redis as people run it: behind
// Sentinels, as a Cluster, with TLS and client certificates, with a user for
// each role, on a Unix socket, and in the states that it may be found in.
// Everything is real: the servers are children of the tests, on loopback ports.
package redismodes
