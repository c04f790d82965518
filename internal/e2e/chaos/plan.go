package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/queue"
)

// Misbehaviour costs time, so there is a little of it each second, however
// many tasks there are.
const (
	crashes = 0.08 // a second; its executor process dies. Five in five minutes disable it on an agent
	hangs   = 0.05 // deaf to cancel and deadline
	broods  = 0.3  // starts processes
	longs   = 1.5  // seconds of work
	bigs    = 0.8  // output that becomes an artifact
)

// plan is the i-th task of a run: the same for the same seed. Most are short.
func plan(o Options, i int) (queue.Submission, Submitted) {
	rng := rand.New(rand.NewPCG(o.Seed, 1<<32+uint64(i)))
	retries := 3
	s := queue.Submission{
		ID: fmt.Sprintf("t%06d", i), Type: ledger.Name, Priority: priorities[rng.IntN(len(priorities))],
	}
	if rng.IntN(5) == 0 {
		s.Queue = ledger.Name // the list of the type alone
	}
	note := Submitted{ID: s.ID}
	x := rng.Float64()
	share := func(perSecond float64) bool {
		x -= min(perSecond/o.Rate, 0.1)
		return x < 0
	}
	payload := ""
	switch {
	case share(crashes):
		note.Harmful, note.Failing = true, true
		payload = fmt.Sprintf(`{"op":"crash","ms":%d,"until":%d}`, rng.IntN(200), rng.IntN(2)) // 0: always
	case share(hangs):
		note.Harmful, note.Failing = true, true
		retries = 1
		s.Timeout = time.Second
		payload = `{"op":"hang","until":1}`
	case share(broods):
		payload = fmt.Sprintf(`{"op":"sleep","ms":%d,"children":true}`, 100+rng.IntN(1000))
	case share(longs):
		payload = fmt.Sprintf(`{"op":"sleep","ms":%d,"progress":true}`, 1000+rng.IntN(3000))
	case share(bigs):
		payload = fmt.Sprintf(`{"op":"big","ms":%d,"bytes":%d}`, rng.IntN(50), 100_000+rng.IntN(900_000))
	case share(o.Rate * 0.02):
		note.Failing = true
		payload = fmt.Sprintf(`{"op":"fail","ms":%d,"until":%d}`, rng.IntN(30), rng.IntN(3)) // 0: always
		retries = 1 + rng.IntN(2)
	case share(o.Rate * 0.02):
		s.Delay = time.Duration(rng.IntN(2000)) * ms
		payload = `{"op":"sleep","ms":0}`
	default:
		payload = fmt.Sprintf(`{"op":"sleep","ms":%d}`, rng.IntN(30))
	}
	s.Payload, s.MaxRetries = []byte(payload), &retries
	note.MaxRetries = retries
	return s, note
}
