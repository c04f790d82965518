// Package api is the control plane's HTTP API: tasks, queues, workers,
// failover, artifacts, events and health.
//
// A handler decodes, calls one method and replies; it returns its error, and
// one adapter (errors.go) turns that into a status and {"detail": ...}. The
// table of routes is in routes.go, the description for machines in
// openapi.json, and a test keeps the two equal.
package api
