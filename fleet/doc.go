// Package fleet says which workers exist and whether they live.
//
// A worker is known by its registration and alive by its heartbeat. The
// package holds the heartbeat document (Heartbeat), reads those that other
// people's workers write (ParseHeartbeat takes whatever makes sense and never
// more than a bounded amount), and joins both into the view that people and
// the API see (Worker).
//
// It talks to no server. Records come from queue.Backend (Workers, Worker),
// and an agent's heartbeats go out through queue.WorkerSide (Renew). The names
// of the keys are in the leaf package fleet/keys.
package fleet
