package host

import (
	"slices"
	"strings"
	"testing"
)

func TestA01OutputIsHarmlessAndEndsInTheTasksLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", map[string]any{"concurrency": 4})
	f.start()
	pid := f.untilState("a", StateReady).PIDs[0]

	for _, op := range []string{"print_stdout", "big_line", "odd_lines"} {
		f.ok(job(`{"op":%q}`, op))
	}
	if s := f.h.Status()[0]; s.Crashes != 0 || s.PIDs[0] != pid {
		t.Errorf("status = %+v", s)
	}
	f.ok(job(`{"op":"echo"}`))
	if out := f.ok(job(`{"op":"big_output"}`)); len(out["data"].(string)) != 300<<10 {
		t.Error("large output was not delivered whole")
	}
}

func TestLinesBelongToTheOnlyTaskInTheProcess(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", map[string]any{"concurrency": 4})
	f.start()
	x := f.beginStarted(job(`{"op":"block"}`))
	f.h.mu.Lock()
	var out *output
	for p := range f.h.units[0].procs {
		out = p.output
	}
	f.h.mu.Unlock()
	for _, line := range []string{"a plain line\n", `{"level":"warn","msg":"careful","n":1}` + "\n", "\n"} {
		if n, err := out.Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	}
	y := f.beginStarted(job(`{"op":"block"}`))
	_, _ = out.Write([]byte("whose is it?\n"))
	x.cancel()
	y.cancel()
	f.end(x)
	f.end(y)
	if want := []string{"info a plain line", `warn careful {"n":1}`}; !slices.Equal(x.logs, want) || len(y.logs) != 0 {
		t.Errorf("logs = %q and %q, want %q and none", x.logs, y.logs, want)
	}
}

func TestParseLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, line, level, message string }{
		{"a plain line", "hello\r\n", "info", "hello"},
		{"hclog", `{"@level":"debug","@message":"m","@timestamp":"2026-01-02T03:04:05.000000Z","@module":"x"}`, "debug", `m {"@module":"x"}`},
		{"zap", `{"level":"error","ts":1796037562.5,"msg":"m","caller":"a.go:1"}`, "error", `m {"caller":"a.go:1"}`},
		{"slog", `{"time":"2026-01-02T03:04:05Z","level":"WARN","msg":"m"}`, "warn", "m"},
		{"a message that is no text", `{"@message":1}`, "info", `{"@message":1}`},
		{"a level that is no text", `{"@level":[],"msg":"m"}`, "info", `m {"@level":[]}`},
		{"a timestamp that is no text", `{"@timestamp":5}`, "info", `{"@timestamp":5}`},
		{"half an object", `{"msg":`, "info", `{"msg":`},
		{"an array", `[1]`, "info", `[1]`},
		{"null", `null`, "info", `null`},
		{"NUL bytes", "a\x00b", "info", "a\uFFFDb"},
		{"terminal control", "\x1b[31mred", "info", "\uFFFD[31mred"},
		{"bad UTF-8", "a\xffb", "info", "a\uFFFDb"},
		{"nothing", "\n", "info", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if level, message := parseLine([]byte(tt.line)); level != tt.level || message != tt.message {
				t.Errorf("got %q %q, want %q %q", level, message, tt.level, tt.message)
			}
		})
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte(`{"@message":1}`))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, line []byte) {
		level, message := parseLine(line)
		if !slices.Contains([]string{"debug", "info", "warn", "error"}, level) || strings.ContainsAny(message, "\x00\n\x1b") {
			t.Errorf("%q became %q %q", line, level, message)
		}
	})
}
