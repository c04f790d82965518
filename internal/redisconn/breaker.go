package redisconn

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// breaker is the circuit breaker of one database.
type breaker struct {
	database string
	openFor  time.Duration
	cb       *gobreaker.TwoStepCircuitBreaker[struct{}]

	mu       sync.Mutex
	openedAt time.Time
}

// newBreaker returns a closed breaker. changed is told each change of state.
func newBreaker(database string, cfg BreakerConfig, changed func(from, to gobreaker.State)) *breaker {
	// Up to a tenth longer, drawn once per process and database.
	openFor := cfg.OpenFor + time.Duration(rand.Int64N(int64(cfg.OpenFor)/10+1))
	b := &breaker{database: database, openFor: openFor}
	b.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        database,
		MaxRequests: 1,
		Timeout:     openFor,
		ReadyToTrip: func(counts gobreaker.Counts) bool {
			return int64(counts.ConsecutiveFailures) >= int64(cfg.Failures)
		},
		IsSuccessful: func(err error) bool { return !classify(err).server },
		IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) || errors.Is(err, errPanicked) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				b.mu.Lock()
				b.openedAt = time.Now()
				b.mu.Unlock()
			}
			changed(from, to)
		},
	})
	return b
}

// errPanicked ends an operation that panicked: it says nothing about Redis.
var errPanicked = errors.New("panicked")

// allow asks whether a guarded operation may start. If so, done must be called
// with its error; else err is a *CircuitOpenError.
func (b *breaker) allow() (done func(error), err error) {
	if done, err = b.cb.Allow(); err == nil {
		return done, nil
	}
	return nil, &CircuitOpenError{Database: b.database, RetryAfter: max(b.remaining(), time.Second)}
}

// report tells how an operation ended that nobody had to allow. While the
// breaker is open it changes nothing.
func (b *breaker) report(err error) {
	if done, refused := b.cb.Allow(); refused == nil {
		done(err)
	}
}

func (b *breaker) remaining() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Until(b.openedAt.Add(b.openFor))
}

// refuses returns how long guarded operations are still refused, 0 if they are
// not.
func (b *breaker) refuses() time.Duration {
	if b.cb.State() != gobreaker.StateOpen {
		return 0
	}
	return max(b.remaining(), time.Second)
}

// failures returns how many failures there were in a row.
func (b *breaker) failures() uint32 { return b.cb.Counts().ConsecutiveFailures }

// state returns closed, open or half_open.
func (b *breaker) state() string { return stateName(b.cb.State()) }

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
