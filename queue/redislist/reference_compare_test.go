package redislist_test

import (
	"reflect"
	"slices"
	"strconv"
)

// compare reads everything that the server holds.
func (p *pair) compare() {
	p.Helper()
	ctx, r := p.Context(), p.r
	s := p.look()
	p.same("tasks", sortedKeys(s.tasks), sortedKeys(r.tasks))
	for id, t := range r.tasks {
		h := s.tasks[id]
		n := func(v int64) string { return strconv.FormatInt(v, 10) }
		for field, want := range map[string]string{
			"status": string(t.status), "queue": t.queue, "worker_id": t.worker, "previous_worker": t.previous, "priority": string(t.priority),
			"attempt": n(t.attempt), "generation": n(t.generation), "retry_count": n(int64(t.retries)), "death_count": n(int64(t.deaths)),
			"crash_count": n(int64(t.crashes)), "cancel_requested": map[bool]string{true: "1"}[t.cancel],
		} {
			if got := h[field]; got != want && !(got == "" && want == "0") {
				p.Fatalf("%s of %s: got %q, want %q\n%s", field, id, got, want, s)
			}
		}
	}
	lists := map[string][]string{}
	for prefix, of := range map[string]map[string][]string{"queue:": r.waiting, "autobot:inbox:": r.inbox} {
		for name, ids := range of {
			lists[prefix+name] = ids
		}
	}
	for name, ids := range r.processing {
		lists["queue:"+name+":processing"] = ids
	}
	for key := range lists {
		p.same(key, s.lists[key], lists[key])
	}
	for key, ids := range s.lists {
		p.same(key, ids, lists[key])
	}
	for _, w := range append(slices.Clone(modelWorkers), "f") {
		p.same("owned by "+w, sorted(s.owned[w]), sorted(r.owned[w]))
	}
	for status, key := range refIndexes {
		p.same(key, sorted(s.indexes[key]), sorted(r.index[status]))
	}
	p.same("delayed", sorted(s.indexes["autobot:delayed"]), sorted(r.delayed))
	p.same("unique keys", len(s.unique), len(r.unique))
	for key, id := range r.unique {
		p.same("unique key "+key, s.unique[key], id)
	}
	p.same("paused", sorted(p.rdb.SMembers(ctx, "autobot:paused").Val()), sorted(r.paused))
	p.same("cordoned", sorted(p.rdb.SMembers(ctx, "autobot:cordoned").Val()), sorted(r.cordoned))
	p.same("registered", sorted(p.rdb.SMembers(ctx, "workers:registered").Val()), sortedKeys(r.generation))
	p.same("events", int(p.rdb.LLen(ctx, "failover:log").Val()), r.events)
}

// equal is reflect.DeepEqual for which nothing and an empty list are the same.
func equal(a, b any) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.IsValid() && y.IsValid() && x.Kind() == reflect.Slice && y.Kind() == reflect.Slice {
		if x.Len() != y.Len() {
			return false
		}
		for i := range x.Len() {
			if !equal(x.Index(i).Interface(), y.Index(i).Interface()) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}
