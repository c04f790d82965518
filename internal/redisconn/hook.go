package redisconn

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// hook measures each operation of a client, and in front of a guarded one asks
// the breaker first.
type hook struct {
	db      *database
	guarded bool
}

// nestedKey marks the context of an operation that is measured already: the
// greeting of a new connection runs through the same hooks.
type nestedKey struct{}

func (h *hook) DialHook(next redis.DialHook) redis.DialHook { return next } // see Manager.dial

func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if nested(ctx) || isGreeting(cmd.Name()) {
			return next(ctx, cmd)
		}
		var took time.Duration
		err, refused := h.run(ctx, func(ctx context.Context) error {
			start := time.Now()
			err := next(ctx, cmd)
			took = time.Since(start)
			return err
		})
		if refused {
			cmd.SetErr(err)
			return err
		}
		h.db.observe(cmd.Name(), took, err)
		return err
	}
}

func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if nested(ctx) || len(cmds) == 0 || isGreeting(cmds[0].Name()) {
			return next(ctx, cmds)
		}
		var took time.Duration
		var result error
		worst, refused := h.run(ctx, func(ctx context.Context) error {
			start := time.Now()
			result = next(ctx, cmds)
			took = time.Since(start)
			return worstOf(result, cmds)
		})
		if refused {
			for _, cmd := range cmds {
				cmd.SetErr(worst)
			}
			return worst
		}
		h.db.observe("pipeline", took, worst)
		h.db.metrics.pipelines.WithLabelValues(h.db.name).Inc()
		h.db.metrics.pipelineSize.WithLabelValues(h.db.name).Observe(float64(len(cmds)))
		return result
	}
}

// run runs f, behind the breaker if the client is guarded, and reports to it.
// refused says that f was not run.
func (h *hook) run(ctx context.Context, f func(context.Context) error) (err error, refused bool) {
	done := h.db.breaker.report
	if h.guarded {
		if done, err = h.db.breaker.allow(); err != nil {
			h.db.rejected()
			return err, true
		}
	}
	err = errPanicked // unless f returns
	defer func() { done(err) }()
	err = f(context.WithValue(ctx, nestedKey{}, true))
	h.db.told(err)
	return err, false
}

func nested(ctx context.Context) bool { return ctx.Value(nestedKey{}) != nil }

// isGreeting reports whether a command sets up a connection. go-redis sends
// these by itself when it connects.
func isGreeting(name string) bool {
	switch name {
	case "hello", "auth", "select", "client", "readonly", "readwrite":
		return true
	default:
		return false
	}
}

// worstOf returns the error that says most about the server.
func worstOf(err error, cmds []redis.Cmder) error {
	if classify(err).reason != "" {
		return err
	}
	for _, cmd := range cmds {
		if e := cmd.Err(); classify(e).reason != "" {
			return e
		}
	}
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}
