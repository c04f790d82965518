package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/queue"
)

// A TaskState is a task as the server has it.
type TaskState struct {
	Status     queue.Status
	Worker     string
	Code       string
	Error      string
	Attempt    int64
	Retries    int
	Deaths     int
	Created    time.Time
	Ended      time.Time
	Result     *ResultState // nil: there is none
	ResultFlaw string       // why the result cannot be read
}

// A ResultState says whose result it is.
type ResultState struct {
	Worker  string
	Attempt int64
}

// State is what the server holds at one moment.
type State struct {
	Tasks  map[string]TaskState
	Places map[string][]string // id -> lists and indexes that hold it, each as often as it does
	Owned  map[string][]string // worker -> ids
	Keys   map[string]bool     // every key -> it has an end
}

// readState reads everything. Nothing runs any more, so the order does not
// matter.
func readState(ctx context.Context, rdb *redis.Client) (State, error) {
	s := State{Tasks: map[string]TaskState{}, Places: map[string][]string{}, Owned: map[string][]string{}, Keys: map[string]bool{}}
	var ids []string
	it := rdb.Scan(ctx, 0, "*", 1000).Iterator()
	for it.Next(ctx) {
		key := it.Val()
		if _, known := s.Keys[key]; known {
			continue // a walk may meet a key twice
		}
		s.Keys[key] = false
		switch id := strings.TrimPrefix(key, "task:"); {
		case id != key && !strings.Contains(id, ":"):
			ids = append(ids, id)
		case strings.HasPrefix(key, "queue:"), strings.HasPrefix(key, "autobot:inbox:"):
			if err := s.place(key, rdb.LRange(ctx, key, 0, -1)); err != nil {
				return s, err
			}
		case key == "autobot:delayed", key == "autobot:completed", key == "autobot:failed", key == "autobot:cancelled":
			if err := s.place(key, rdb.ZRange(ctx, key, 0, -1)); err != nil {
				return s, err
			}
		case strings.HasPrefix(key, "worker:") && strings.HasSuffix(key, ":tasks"):
			owned, err := rdb.SMembers(ctx, key).Result()
			if err != nil {
				return s, err
			}
			s.Owned[key] = owned
		}
	}
	if err := it.Err(); err != nil {
		return s, fmt.Errorf("list the keys: %w", err)
	}
	if err := s.ends(ctx, rdb); err != nil {
		return s, err
	}
	for len(ids) > 0 {
		n := min(len(ids), 500)
		if err := s.read(ctx, rdb, ids[:n]); err != nil {
			return s, err
		}
		ids = ids[n:]
	}
	return s, nil
}

func (s *State) place(key string, cmd *redis.StringSliceCmd) error {
	ids, err := cmd.Result()
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	for _, id := range ids {
		s.Places[id] = append(s.Places[id], key)
	}
	return nil
}

// ends finds out which keys end by themselves.
func (s *State) ends(ctx context.Context, rdb *redis.Client) error {
	var keys []string
	for key := range s.Keys {
		keys = append(keys, key)
	}
	for len(keys) > 0 {
		n := min(len(keys), 1000)
		cmds, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range keys[:n] {
				p.PTTL(ctx, key)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read the times to live: %w", err)
		}
		for i, c := range cmds {
			s.Keys[keys[i]] = c.(*redis.DurationCmd).Val() > 0
		}
		keys = keys[n:]
	}
	return nil
}

var taskFields = []string{"status", "worker_id", "error_code", "last_error", "attempt", "retry_count", "death_count", "created_at", "completed_at", "failed_at"}

func (s *State) read(ctx context.Context, rdb *redis.Client, ids []string) error {
	cmds, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, id := range ids {
			p.HMGet(ctx, "task:"+id, taskFields...)
			p.Get(ctx, "task:"+id+":result")
		}
		return nil
	})
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
		return fmt.Errorf("read %d tasks: %w", len(ids), err)
	}
	for i, id := range ids {
		values := cmds[2*i].(*redis.SliceCmd).Val()
		field := func(n int) string {
			if n >= len(values) {
				return ""
			}
			text, _ := values[n].(string)
			return text
		}
		number := func(n int) int64 {
			v, _ := strconv.ParseInt(field(n), 10, 64)
			return v
		}
		t := TaskState{
			Status: queue.Status(field(0)), Worker: field(1), Code: field(2), Error: field(3), Attempt: number(4),
			Retries: int(number(5)), Deaths: int(number(6)), Created: moment(field(7)), Ended: moment(field(8)),
		}
		if t.Status != queue.StatusCompleted {
			t.Ended = moment(field(9))
		}
		if raw, err := cmds[2*i+1].(*redis.StringCmd).Result(); err == nil {
			t.Result, t.ResultFlaw = readResult(raw)
		}
		s.Tasks[id] = t
	}
	return nil
}

func readResult(raw string) (*ResultState, string) {
	var result struct{ Meta ResultState }
	if err := json.Unmarshal([]byte(raw), &result); err != nil {
		return &ResultState{}, err.Error()
	}
	return &result.Meta, ""
}

// moment reads a time in seconds, zero when there is none.
func moment(text string) time.Time {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(int64(v * 1e6))
}
