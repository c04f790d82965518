package redislist

import "github.com/autobot-fleet/autobot/fleet/keys"

// layout names every key of the layout; common.lua repeats the names for keys
// that a script finds. Its value is the key prefix: empty,
// or one hash tag in Redis Cluster so that all keys share a slot.
type layout string

func (l layout) task(id string) string       { return string(l) + "task:" + id }
func (l layout) result(id string) string     { return l.task(id) + ":result" }
func (l layout) failure(id string) string    { return l.task(id) + ":failure" }
func (l layout) progress(id string) string   { return l.task(id) + ":progress" }
func (l layout) events(id string) string     { return l.task(id) + ":events" } // pub/sub
func (l layout) queue(name string) string    { return string(l) + "queue:" + name }
func (l layout) processing(n string) string  { return l.queue(n) + ":processing" }
func (l layout) heartbeat(w string) string   { return string(l) + keys.Heartbeat(w) }
func (l layout) config(w string) string      { return string(l) + keys.Config(w) }
func (l layout) tasks(w string) string       { return string(l) + keys.Tasks(w) }
func (l layout) registered() string          { return string(l) + keys.Registered }
func (l layout) cordoned() string            { return string(l) + keys.Cordoned }
func (l layout) channel(w string) string     { return string(l) + keys.Channel(w) } // pub/sub
func (l layout) failoverLog() string         { return string(l) + "failover:log" }
func (l layout) queues() string              { return l.own("queues") }        // SET of queue names
func (l layout) delayed() string             { return l.own("delayed") }       // ZSET id -> due, ms
func (l layout) paused() string              { return l.own("paused") }        // SET of queue names
func (l layout) completed() string           { return l.own("completed") }     // ZSET id -> end, ms
func (l layout) failed() string              { return l.own("failed") }        // ZSET id -> end, ms
func (l layout) cancelled() string           { return l.own("cancelled") }     // ZSET id -> end, ms
func (l layout) inboxes() string             { return l.own("inboxes") }       // SET of worker ids
func (l layout) inbox(w string) string       { return l.own("inbox:" + w) }    // LIST of task ids
func (l layout) leader() string              { return l.own("leader") }        // STRING with TTL
func (l layout) missing() string             { return l.own("missing") }       // ZSET id -> first seen, ms
func (l layout) unique(key string) string    { return l.own("unique:" + key) } // STRING task id
func (l layout) failover(w string) string    { return l.own("failover:" + w) } // HASH of counts
func (l layout) epoch() string               { return l.own("epoch") }         // STRING, counts leaders
func (l layout) allEvents() string           { return l.own("events") }        // pub/sub
func (l layout) own(what string) string      { return string(l) + "autobot:" + what }
func (l layout) queueNamePattern() string    { return string(l) + "queue:*" }
func (l layout) queueNameOf(k string) string { return k[len(string(l)+"queue:"):] }
