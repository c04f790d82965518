// Package probes holds no code, only a test: every way that is known by which
// a page or an address can make a browser reach something, tried in the real
// browser inside a network namespace of its own.
//
// Each probe runs three times: without the guard, where it must reach its
// target or it proves nothing; behind a lane with the guard's switches
// (egress.ModeFlags); and behind a lane in a namespace without any switch
// (egress.ModeNamespace). A sniffer on all devices of the outer namespace sees
// every connection and datagram, wherever it goes. Behind the guard it must
// see none but those of the guard itself.
//
// The test needs the Playwright driver, node, the headless shell and iproute2,
// and a kernel that permits user namespaces or a root that may make network
// namespaces. Nothing leaves the machine: the addresses of the test exist in
// its namespace only.
package probes
