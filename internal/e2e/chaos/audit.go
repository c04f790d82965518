package chaos

import (
	"context"
	_ "embed" // the script
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/audit.lua
var auditSource string

var auditScript = redis.NewScript(auditSource)

// auditEvery is the time between two looks.
const auditEvery = 200 * ms

// A Sighting is something that no moment may show.
type Sighting struct {
	ID   string
	What string
}

// auditor looks at the server again and again: a state change is one script, so
// each moment has to be right, and what repairs itself later is seen as well.
type auditor struct {
	f *fleet

	mu    sync.Mutex
	looks int
	seen  map[Sighting]bool
}

func newAuditor(f *fleet) *auditor { return &auditor{f: f, seen: map[Sighting]bool{}} }

// run looks until ctx is done. The server may be away meanwhile.
func (a *auditor) run(ctx context.Context) {
	names := make([]any, len(queues))
	for i, q := range queues {
		names[i] = q
	}
	for rest(ctx, auditEvery) == nil {
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		// The text each time: a script that the server has to know would
		// be one more thing that restarts and flushes take away.
		words, err := auditScript.Eval(call, a.f.direct, nil, names...).StringSlice()
		cancel()
		if err != nil {
			continue
		}
		a.mu.Lock()
		a.looks++
		for i := 0; i+1 < len(words); i += 2 {
			a.seen[Sighting{words[i], words[i+1]}] = true
		}
		a.mu.Unlock()
	}
}

// sightings is what was seen, and in how many looks.
func (a *auditor) sightings() (out []Sighting, looks int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s := range a.seen {
		out = append(out, s)
	}
	return out, a.looks
}
