// Package devfleet lets the programs of a user find the fleet that
// "autobot-control dev" runs on this machine: dev publishes a small file with
// addresses and its process id, the command lines look for it.
package devfleet
