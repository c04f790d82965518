// Package control is the control plane: the monitor that fails dead workers
// over, the HTTP API, the store of artifacts and what they need.
//
// New wires the parts together and Run runs them; the parts do not know each
// other. The control plane is out of the data path: without it agents go on
// claiming, running and finishing tasks. It may start before Redis is there
// and waits for it.
package control
