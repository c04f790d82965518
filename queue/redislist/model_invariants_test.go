package redislist_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/autobot-fleet/autobot/queue"
)

// errDuplicate stands for any *queue.DuplicateError.
var errDuplicate = errors.New("duplicate")

func isAny(err error, targets ...error) bool {
	var duplicate *queue.DuplicateError
	for _, target := range targets {
		if errors.Is(err, target) || (errors.Is(target, errDuplicate) && errors.As(err, &duplicate)) {
			return true
		}
	}
	return false
}

// modelState is everything that the server holds.
type modelState struct {
	tasks   map[string]map[string]string
	lists   map[string][]string // waiting and processing lists, inboxes
	indexes map[string][]string
	owned   map[string][]string // worker -> ids
	unique  map[string]string
}

func (m *model) look() *modelState {
	m.Helper()
	ctx := m.Context()
	s := &modelState{tasks: map[string]map[string]string{}, lists: map[string][]string{}, indexes: map[string][]string{},
		owned: map[string][]string{}, unique: map[string]string{}}
	keys, err := m.rdb.Keys(ctx, "*").Result()
	m.ok(err)
	for _, k := range keys {
		var err error
		switch parts := strings.Split(k, ":"); {
		case parts[0] == "task" && len(parts) == 2:
			s.tasks[parts[1]], err = m.rdb.HGetAll(ctx, k).Result()
		case parts[0] == "queue", strings.HasPrefix(k, "autobot:inbox:"):
			s.lists[k], err = m.rdb.LRange(ctx, k, 0, -1).Result()
		case parts[0] == "worker" && parts[2] == "tasks":
			s.owned[parts[1]], err = m.rdb.SMembers(ctx, k).Result()
		case strings.HasPrefix(k, "autobot:unique:"):
			s.unique[strings.TrimPrefix(k, "autobot:unique:")], err = m.rdb.Get(ctx, k).Result()
		case slices.Contains([]string{"autobot:delayed", "autobot:failed", "autobot:completed", "autobot:cancelled"}, k):
			s.indexes[k], err = m.rdb.ZRange(ctx, k, 0, -1).Result()
		}
		m.ok(err)
	}
	return s
}

// places lists where an id waits or is worked on, once for each entry.
func (s *modelState) places(id string) []string {
	var out []string
	for _, k := range sortedKeys(s.lists) {
		for _, x := range s.lists[k] {
			if x == id {
				out = append(out, k)
			}
		}
	}
	if slices.Contains(s.indexes["autobot:delayed"], id) {
		out = append(out, "autobot:delayed")
	}
	return out
}

func processing(places []string) int {
	n := 0
	for _, p := range places {
		if strings.HasSuffix(p, ":processing") {
			n++
		}
	}
	return n
}

func ended(status string) bool { return queue.Status(status).Terminal() }

// held reports whether a task that has not ended holds the unique key.
func (m *model) held(key string) bool {
	s := m.look()
	h, exists := s.tasks[s.unique[key]]
	return exists && !ended(h["status"])
}

// check fails when something does not hold that always must.
func (m *model) check() {
	m.Helper()
	s := m.look()
	wrong := func(format string, args ...any) {
		m.Helper()
		m.Fatalf(format+"\n%s", append(args, s)...)
	}
	ids := append(sortedKeys(s.tasks), modelIDs...)
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		h, exists := s.tasks[id]
		places := s.places(id)
		in := describe(id, places)
		owners := []string{}
		for _, w := range sortedKeys(s.owned) {
			if slices.Contains(s.owned[w], id) {
				owners = append(owners, w)
			}
		}
		status := h["status"]
		if slices.Contains(places, "autobot:delayed") && (!exists || status != "queued") {
			wrong("a task that does not wait is in the delayed set: %s (%q)", in, status)
		}
		if n := m.finished[id]; n > 1 {
			wrong("%d results of one task were accepted: %s", n, in)
		}
		if !exists {
			continue
		}
		retries, _ := strconv.Atoi(h["retry_count"])
		deaths, _ := strconv.Atoi(h["death_count"])
		if retries > 2 || (deaths > 2 && !m.byHands[id]) {
			wrong("counts out of bounds: %s", in)
		}
		if key := h["unique_key"]; key != "" && h["worker_id"] != "f" && !m.byHands[id] && (s.unique[key] == id) == ended(status) &&
			(ended(status) || s.unique[key] == "") {
			wrong("unique key %q is held by %q: %s (%s)", key, s.unique[key], in, status)
		}
		switch {
		case status == "queued":
			if len(places) != 1 {
				wrong("a waiting task has to be in one place: %s", in)
			}
			if len(owners) > 0 {
				wrong("a waiting task is owned by %v: %s", owners, in)
			}
		case status == "running":
			if processing(places) != 1 || len(places) != 1 {
				wrong("a running task has to be in one processing list: %s", in)
			}
			if want := []string{h["worker_id"]}; !slices.Equal(owners, want) {
				wrong("a running task of %v is owned by %v: %s", want, owners, in)
			}
		case ended(status):
			if len(owners) > 0 {
				wrong("an ended task is owned by %v: %s", owners, in)
			}
			index := map[string]string{"completed": "autobot:completed", "failed_permanent": "autobot:failed", "cancelled": "autobot:cancelled"}[status]
			if h["worker_id"] != "f" && !slices.Contains(s.indexes[index], id) {
				wrong("an ended task is in no index: %s", in)
			}
		default:
			wrong("unknown status %q: %s", status, in)
		}
	}
}

// leftovers lists what must not be there when all work is done.
func (s *modelState) leftovers() []string {
	var out []string
	for _, id := range sortedKeys(s.tasks) {
		if !ended(s.tasks[id]["status"]) {
			out = append(out, "task "+id+" "+s.tasks[id]["status"])
		}
	}
	for _, k := range sortedKeys(s.lists) {
		out = append(out, describe(k, s.lists[k]))
	}
	for _, w := range sortedKeys(s.owned) {
		out = append(out, describe("owner "+w, s.owned[w]))
	}
	if d := s.indexes["autobot:delayed"]; len(d) > 0 {
		out = append(out, describe("delayed", d))
	}
	for _, k := range sortedKeys(s.unique) {
		if h := s.tasks[s.unique[k]]; h["worker_id"] != "f" { // foreign workers know no unique keys
			out = append(out, "unique key "+k+" of "+s.unique[k])
		}
	}
	return out
}

func (s *modelState) String() string {
	var b strings.Builder
	for _, id := range sortedKeys(s.tasks) {
		fmt.Fprintf(&b, "%s %v\n", id, s.tasks[id])
	}
	fmt.Fprintf(&b, "lists %v\nindexes %v\nowned %v\nunique %v", s.lists, s.indexes, s.owned, s.unique)
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func describe(id string, places []string) string { return fmt.Sprintf("%s in %v", id, places) }
