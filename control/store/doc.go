// Package store is what the control plane itself reads and keeps in Redis,
// one file per duty. Tasks and workers are not here: they belong to the queue.
package store
