// Package keys names the Redis keys of workers. It is a leaf, so that the
// queue layouts can use the names without knowing the fleet.
package keys

// Registered is the set of registered worker ids.
const Registered = "workers:registered"

// Cordoned is the set of worker ids that an operator drained.
const Cordoned = "autobot:cordoned"

// Heartbeat is the heartbeat JSON of a worker, with a TTL.
func Heartbeat(worker string) string { return "worker:" + worker + ":heartbeat" }

// Config is the hash a worker writes at registration.
func Config(worker string) string { return "worker:" + worker + ":config" }

// Tasks is the set of task ids a worker owns.
func Tasks(worker string) string { return "worker:" + worker + ":tasks" }

// Channel is the pub/sub channel with commands for one worker.
func Channel(worker string) string { return "autobot:worker:" + worker }
