package host

import (
	"encoding/json"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/time/rate"

	"github.com/autobot-fleet/autobot/executors"
)

// Lines of an executor that reach the agent's log: so many per second, with
// bursts. The rest is counted.
const (
	logRate  = 20
	logBurst = 200
)

// output takes what a process prints, line by line: into the agent's log, and
// into the log of the task when there is exactly one it can belong to. What
// comes is not trusted to be anything in particular.
type output struct {
	log   *zap.Logger
	limit *rate.Limiter

	mu      sync.Mutex
	p       *proc
	dropped int
}

func newOutput(log *zap.Logger) *output {
	return &output{log: log, limit: rate.NewLimiter(logRate, logBurst)}
}

func (o *output) attach(p *proc) {
	o.mu.Lock()
	o.p = p
	o.mu.Unlock()
}

// Write takes one line. It never fails.
func (o *output) Write(raw []byte) (n int, err error) {
	n = len(raw)
	defer func() {
		if p := recover(); p != nil { // whatever a line holds, it must not end the agent
			o.log.Warn("a line of output could not be read", zap.Any("panic", p))
		}
	}()
	level, message := parseLine(raw)
	if message == "" {
		return n, nil
	}
	o.mu.Lock()
	p := o.p
	allowed := o.limit.Allow()
	dropped := o.dropped
	if allowed {
		o.dropped = 0
	} else {
		o.dropped++
	}
	o.mu.Unlock()
	if allowed {
		if dropped > 0 {
			o.log.Info("lines of output were left out", zap.Int("lines", dropped))
		}
		at := zapcore.InfoLevel
		if level == "debug" {
			at = zapcore.DebugLevel
		}
		o.log.Log(at, "output: "+message, zap.String("level_there", level))
	}
	if p != nil {
		if r := p.onlyRun(); r != nil {
			r.event(executors.Event{Log: &executors.Log{Level: level, Message: clip(message, 4<<10), Time: time.Now()}})
		}
	}
	return n, nil
}

// flush says how much was left out, at the end.
func (o *output) flush() {
	o.mu.Lock()
	dropped := o.dropped
	o.dropped = 0
	o.mu.Unlock()
	if dropped > 0 {
		o.log.Info("lines of output were left out", zap.Int("lines", dropped))
	}
}

// onlyRun is the run that a line of output belongs to, nil if there are none
// or several.
func (p *proc) onlyRun() *run {
	p.u.h.mu.Lock()
	defer p.u.h.mu.Unlock()
	if len(p.runs) != 1 {
		return nil
	}
	for r := range p.runs {
		return r
	}
	return nil
}

// parseLine finds level and message in a line of hclog, zap or slog JSON; any
// other line is a message of level info. Fields beside the usual ones are kept
// as JSON behind the message.
func parseLine(raw []byte) (level, message string) {
	for len(raw) > 0 && (raw[len(raw)-1] == '\n' || raw[len(raw)-1] == '\r') {
		raw = raw[:len(raw)-1]
	}
	text := printable(string(raw))
	if len(raw) == 0 || raw[0] != '{' {
		return "info", text
	}
	var fields map[string]any
	if json.Unmarshal(raw, &fields) != nil {
		return "info", text
	}
	take := func(keys ...string) string {
		for _, k := range keys {
			if s, ok := fields[k].(string); ok {
				delete(fields, k)
				return s
			}
		}
		return ""
	}
	level = levelOf(take("@level", "level", "lvl", "severity"))
	message = printable(take("@message", "msg", "message"))
	if message == "" {
		return level, text
	}
	take("@timestamp", "ts", "time", "timestamp")
	for _, k := range []string{"ts", "time", "@timestamp"} {
		delete(fields, k) // zap writes numbers
	}
	if len(fields) > 0 {
		if rest, err := json.Marshal(fields); err == nil {
			message += " " + string(rest)
		}
	}
	return level, message
}

func levelOf(s string) string {
	switch s {
	case "trace", "TRACE", "debug", "DEBUG":
		return "debug"
	case "warn", "WARN", "warning", "WARNING":
		return "warn"
	case "error", "ERROR", "fatal", "FATAL", "panic", "PANIC", "dpanic", "DPANIC", "critical":
		return "error"
	}
	return "info"
}

// printable replaces control characters, which would act on a terminal.
func printable(s string) string {
	out := []rune(s)
	for i, r := range out {
		if r < ' ' && r != '\t' || r == 0x7f {
			out[i] = '\uFFFD'
		}
	}
	return string(out)
}

// clip cuts s to at most n bytes of whole runes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + "..."
}
