package redisconn

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// breaker is the circuit breaker of one database. Guarded operations ask it
// before they start; all operations report to it.
//
// It opens after some failures in a row, whoever met them. It closes when a
// trial succeeds after openFor, and at once when an operation that nobody had
// to allow gets an answer from the server: that is as good as a trial. So
// where a loop keeps asking, guarded callers are served again as soon as the
// loop gets through, and openFor only bounds the wait where nobody else asks.
type breaker struct {
	database string
	cfg      BreakerConfig
	openFor  time.Duration
	changed  func(from, to gobreaker.State)

	mu       sync.Mutex
	cb       *gobreaker.TwoStepCircuitBreaker[struct{}] // replaced when an answer closes it
	shown    gobreaker.State                            // what changed was told last
	openedAt time.Time
}

// newBreaker returns a closed breaker. changed is told each change of state.
func newBreaker(database string, cfg BreakerConfig, changed func(from, to gobreaker.State)) *breaker {
	b := &breaker{database: database, cfg: cfg, changed: changed}
	// Up to a tenth longer, drawn once per process and database.
	b.openFor = cfg.OpenFor + time.Duration(rand.Int64N(int64(cfg.OpenFor)/10+1))
	b.cb = b.closed()
	return b
}

// closed returns the machinery of a closed breaker.
func (b *breaker) closed() *gobreaker.TwoStepCircuitBreaker[struct{}] {
	var cb *gobreaker.TwoStepCircuitBreaker[struct{}]
	cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        b.database,
		MaxRequests: 1,
		Timeout:     b.openFor,
		ReadyToTrip: func(counts gobreaker.Counts) bool {
			return int64(counts.ConsecutiveFailures) >= int64(b.cfg.Failures)
		},
		IsSuccessful: func(err error) bool { return !classify(err).server },
		IsExcluded:   func(err error) bool { return !classify(err).server && !answered(err) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.cb == cb {
				b.show(to)
			}
		},
	})
	return cb
}

// show tells of a change of state. Call with mu held.
func (b *breaker) show(to gobreaker.State) {
	from := b.shown
	if from == to {
		return
	}
	b.shown = to
	if to == gobreaker.StateOpen {
		b.openedAt = time.Now()
	}
	b.changed(from, to)
}

// answered reports whether an operation that ended with err has got an answer
// from a server that can be used. A cancelled call, or one that found all
// connections busy, says nothing either way.
func answered(err error) bool {
	var reply redis.Error
	return err == nil || errors.As(err, &reply) && !classify(err).server
}

// errPanicked ends an operation that panicked: it says nothing about Redis.
var errPanicked = errors.New("panicked")

// allow asks whether a guarded operation may start. If so, done must be called
// with its error; else err is a *CircuitOpenError.
func (b *breaker) allow() (done func(error), err error) {
	if done, err = b.current().Allow(); err == nil {
		return done, nil
	}
	return nil, &CircuitOpenError{Database: b.database, RetryAfter: max(b.remaining(), time.Second)}
}

// report tells how an operation ended that nobody had to allow. An answer
// closes the breaker whatever state it is in; a failure counts unless it is
// open, and when a trial is due it is one.
func (b *breaker) report(err error) {
	cb := b.current()
	if done, refused := cb.Allow(); refused == nil {
		done(err)
		return
	}
	if !answered(err) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cb == cb { // else somebody has closed it
		b.cb = b.closed()
		b.show(gobreaker.StateClosed)
	}
}

func (b *breaker) current() *gobreaker.TwoStepCircuitBreaker[struct{}] {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cb
}

func (b *breaker) remaining() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Until(b.openedAt.Add(b.openFor))
}

// refuses returns how long guarded operations are still refused, 0 if they are
// not.
func (b *breaker) refuses() time.Duration {
	if b.current().State() != gobreaker.StateOpen {
		return 0
	}
	return max(b.remaining(), time.Second)
}

// failures returns how many failures there were in a row.
func (b *breaker) failures() uint32 { return b.current().Counts().ConsecutiveFailures }

// state returns closed, open or half_open.
func (b *breaker) state() string { return stateName(b.current().State()) }

func stateName(s gobreaker.State) string {
	switch s {
	case gobreaker.StateOpen:
		return "open"
	case gobreaker.StateHalfOpen:
		return "half_open"
	default:
		return "closed"
	}
}

// stateValue is the value of the state gauges: 0 closed, 1 open, 2 half open.
func stateValue(s gobreaker.State) float64 {
	switch s {
	case gobreaker.StateOpen:
		return 1
	case gobreaker.StateHalfOpen:
		return 2
	default:
		return 0
	}
}
