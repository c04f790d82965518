// Package redistest gives tests a real Redis of their own: a redis-server child
// process on a free loopback port with a data folder of its own, ended when the
// test ends. StartMini gives the in-process stand-in instead.
//
// A server can be stopped, killed, frozen and restarted by the test, which is
// how outages are rehearsed. If redis-server is not installed, tests that need
// it fail with the command that installs it; they are never skipped.
package redistest
