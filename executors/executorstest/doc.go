// Package executorstest checks executor binaries: Run takes any of them through
// the contract, from the handshake to what is left after a crash. Executors run
// it in their own tests; whoever writes a new one can do the same.
package executorstest
