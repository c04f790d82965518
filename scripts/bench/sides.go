package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// work is what each task of a run does.
type work struct {
	tasks   int
	slots   int
	sleep   time.Duration // 0: the task does nothing
	payload int           // bytes, of JSON
	all     bool          // each side has as many tasks, whatever its share
}

// small is the payload of most rows.
const small = 100

// body returns a JSON object of n bytes.
func body(n int) json.RawMessage {
	const frame = `{"pad":""}`
	return json.RawMessage(`{"pad":"` + strings.Repeat("x", max(n-len(frame), 0)) + `"}`)
}

// outcome is the result that every task of every side stores.
var outcome = json.RawMessage(`{"ok":true}`)

// side is one system under measurement.
type side struct {
	name string
	// fill puts w.tasks tasks in place, as the system's own client does it for
	// many tasks.
	fill func(ctx context.Context, b *bench, w work) error
	// start runs a worker with w.slots slots.
	start func(ctx context.Context, b *bench, w work) (*child, error)
	// done counts the tasks whose result is stored.
	done func(ctx context.Context, b *bench) (int64, error)
	// share is the part of the usual number of tasks that makes a run about as
	// long as the others', 0 for all.
	share float64
}

// withPeers returns our sides and behind them the peers that were asked for.
func (b *bench) withPeers(ours ...side) []side {
	for _, s := range allPeers {
		if slices.Contains(b.peers, s.name) {
			ours = append(ours, s)
		}
	}
	return ours
}

var allPeers = []side{asynqSide, bullmqSide, celerySide}

func peerNames() []string {
	var out []string
	for _, s := range allPeers {
		out = append(out, s.name)
	}
	return out
}
