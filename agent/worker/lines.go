package worker

import (
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// maxLines is how many log lines may wait for the log to take them.
const maxLines = 4096

// lines lets the worker log without waiting for the log: what reads standard
// error may be slow or stand still, above all on a machine without time, and
// neither a heartbeat nor the fence may wait for it. Lines beyond maxLines are
// left out and counted.
type lines struct {
	out     chan line
	dropped atomic.Int64

	mu      sync.RWMutex
	running bool
}

// line is one log line on its way to the core it is for.
type line struct {
	core   zapcore.Core
	entry  zapcore.Entry
	fields []zapcore.Field
}

// newLines returns a logger that writes to log, at once while the goroutine of
// start does not run, else through it.
func newLines(log *zap.Logger) (*lines, *zap.Logger) {
	l := &lines{out: make(chan line, maxLines)}
	return l, log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return &lineCore{c, l} }))
}

// start begins to pass lines on; the returned function waits until all are.
func (l *lines) start() (stop func()) {
	l.mu.Lock()
	l.running = true
	l.mu.Unlock()
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case x := <-l.out:
				l.write(x)
				continue
			default:
			}
			select {
			case x := <-l.out:
				l.write(x)
			case <-quit:
				return
			}
		}
	}()
	return func() {
		l.mu.Lock()
		l.running = false
		l.mu.Unlock()
		close(quit)
		<-ended
		for {
			select {
			case x := <-l.out:
				l.write(x)
			default:
				return
			}
		}
	}
}

// write errors have nowhere to go: the logger itself reports its own.
func (l *lines) write(x line) {
	if n := l.dropped.Swap(0); n > 0 {
		more := zapcore.Entry{Level: zapcore.WarnLevel, Time: x.entry.Time, LoggerName: x.entry.LoggerName,
			Message: "log lines were left out: the log does not take them fast enough"}
		_ = x.core.Write(more, []zapcore.Field{zap.Int64("lines", n)})
	}
	_ = x.core.Write(x.entry, x.fields)
}

// lineCore is the core of the worker's logger.
type lineCore struct {
	zapcore.Core
	lines *lines
}

func (c *lineCore) With(fields []zapcore.Field) zapcore.Core {
	return &lineCore{c.Core.With(fields), c.lines}
}

func (c *lineCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

func (c *lineCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	c.lines.mu.RLock()
	defer c.lines.mu.RUnlock()
	if !c.lines.running {
		return c.Core.Write(entry, fields)
	}
	select {
	case c.lines.out <- line{c.Core, entry, append([]zapcore.Field(nil), fields...)}:
	default:
		c.lines.dropped.Add(1)
	}
	return nil
}
