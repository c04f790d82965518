// Package redislist is the primary queue layout: one Redis LIST per queue, one
// HASH per task, one SET per worker.
//
// The keys and fields that other programs know ("queue:{name}",
// "task:{id}", "worker:{id}:tasks", "failover:log" and so on) keep their
// names, types and meaning; everything else starts with "autobot:". keys.go
// lists them all.
//
// Each move is one Lua script in scripts/ with one method here. scripts.go
// puts in front of them what they need of the shared helpers (common.lua, sweep.lua).
//
// A script is given in KEYS every key whose name is known before the call
// (declare.go); what it touches beyond that, because a task or a queue that it
// reads leads there, its header lists as "found". No script works for long: one
// that has done enough stops, and its method calls again for the rest of the
// batch (batch.go).
package redislist
