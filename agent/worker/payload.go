package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/autobot-fleet/autobot/agent/spool"
	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/internal/rawjson"
	"github.com/autobot-fleet/autobot/queue"
)

// Limits of the payload fields that every task type has.
const (
	minTimeout  = 100 * time.Millisecond
	minTTL      = 60
	maxTTL      = 604800
	defaultTime = time.Hour // of a run, when neither the task nor the executor says
)

// common is what the worker itself reads of a payload.
type common struct {
	op          string
	timeout     time.Duration // 0: not given
	commit      spool.CommitOptions
	keepPartial bool // keep artifacts of a cancelled run
}

// readCommon checks that a payload is one JSON object and reads the fields that
// every type has. Errors are INVALID_INPUT; they name the field.
func readCommon(payload json.RawMessage) (common, error) {
	var c common
	if err := queue.CheckPayloadJSON(payload); err != nil {
		var invalid *queue.InvalidError
		if errors.As(err, &invalid) {
			return c, executors.Invalid(invalid.Field, "%s", invalid.Rule)
		}
		return c, executors.Invalid("payload", "%v", err)
	}
	var p struct{ Op, TimeoutMS, Artifacts json.RawMessage }
	rawjson.Members(payload, func(name string, value json.RawMessage) bool {
		switch name {
		case "op":
			p.Op = value
		case "timeout_ms":
			p.TimeoutMS = value
		case "artifacts":
			p.Artifacts = value
		}
		return true
	})
	c.op, _ = rawjson.Text(p.Op) // the executor judges it
	if given(p.TimeoutMS) {
		n, err := number("timeout_ms", p.TimeoutMS, float64(minTimeout.Milliseconds()), math.MaxInt32)
		if err != nil {
			return c, err
		}
		c.timeout = time.Duration(n) * time.Millisecond
	}
	if !given(p.Artifacts) {
		return c, nil
	}
	var a struct {
		Inline json.RawMessage `json:"inline_max_bytes"`
		TTL    json.RawMessage `json:"ttl_s"`
		Keep   bool            `json:"keep_partial"`
	}
	if err := json.Unmarshal(p.Artifacts, &a); err != nil {
		return c, executors.Invalid("artifacts", "must be an object with inline_max_bytes, ttl_s, keep_partial, got %s", show(p.Artifacts))
	}
	c.keepPartial = a.Keep
	if given(a.Inline) {
		n, err := number("artifacts.inline_max_bytes", a.Inline, 0, spool.MaxInline)
		if err != nil {
			return c, err
		}
		c.commit.InlineMax = n
	}
	if given(a.TTL) {
		n, err := number("artifacts.ttl_s", a.TTL, minTTL, maxTTL)
		if err != nil {
			return c, err
		}
		c.commit.TTL = time.Duration(n) * time.Second
	}
	return c, nil
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// number reads a whole number between low and high.
func number(field string, raw json.RawMessage, low, high float64) (int64, error) {
	var f float64
	if err := json.Unmarshal(raw, &f); err != nil || f != math.Trunc(f) || f < low || f > high {
		return 0, executors.Invalid(field, "must be a whole number from %.0f to %.0f, got %s", low, high, show(raw))
	}
	return int64(f), nil
}

func show(raw json.RawMessage) string { return clip(string(raw), 80) }

// budget is how long a run may take.
type budget struct {
	limit time.Duration
	final bool // the task's own deadline ends it
}

// effective is the shortest of what the payload, the task and the executor
// allow, and of what is left until the task's own deadline.
func effective(c common, task queue.Task, left time.Duration, t TypeStatus) budget {
	b := budget{limit: t.DefaultTimeout}
	if b.limit <= 0 {
		b.limit = defaultTime
	}
	asked := time.Duration(0)
	for _, d := range []time.Duration{c.timeout, task.Timeout} {
		if d > 0 && (asked == 0 || d < asked) {
			asked = d
		}
	}
	if asked > 0 {
		b.limit = asked
	}
	if t.MaxTimeout > 0 {
		b.limit = min(b.limit, t.MaxTimeout)
	}
	if left != 0 && left < b.limit {
		b = budget{limit: left, final: true}
	}
	return b
}

func (b budget) String() string { return fmt.Sprint(b.limit.Round(time.Millisecond)) }
