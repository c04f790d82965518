package chaos

import (
	"bytes"
	"fmt"
	"testing"
)

func wireFormat(args ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.Bytes()
}

func TestCommandsAreReadWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	raw := wireFormat("EVAL", "return\r\n1", "0")
	for n := range len(raw) {
		if _, got := command(raw[:n]); got != 0 {
			t.Fatalf("%d bytes of %d are taken for a command of %d", n, len(raw), got)
		}
	}
	args, n := command(append(bytes.Clone(raw), wireFormat("PING")...))
	if n != len(raw) || len(args) != 3 || string(args[1]) != "return\r\n1" {
		t.Errorf("got %q, %d bytes", args, n)
	}
}

func TestOnlyScriptsThatFitAreRewritten(t *testing.T) {
	t.Parallel()
	r := &rewrite{Break: "fence"}
	edited := func(args ...string) string {
		raw := wireFormat(args...)
		parts, _ := command(raw)
		return string(r.edited(parts, raw))
	}
	script := "x\nelseif ours and h.attempt == ARGV[i + 1] then\n"
	for _, args := range [][]string{{"EVAL", "return 1", "0"}, {"SET", "k", script}, {"EVALSHA", "00", "0"}, {"PING"}} {
		if got, want := edited(args...), string(wireFormat(args...)); got != want {
			t.Errorf("%q became %q", args, got)
		}
	}
	after := "x\nelseif ours then\n"
	if got, want := edited("eval", script, "0"), string(wireFormat("eval", after, "0")); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := edited("SCRIPT", "LOAD", script), string(wireFormat("SCRIPT", "LOAD", after)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzCommand: whatever a client writes, nothing is taken beyond what came, and
// a whole command is written again as it was.
func FuzzCommand(f *testing.F) {
	f.Add(wireFormat("EVAL", "return 1", "0"))
	f.Add([]byte("PING\r\n"))
	f.Add([]byte("*2\r\n$-1\r\n"))
	f.Add([]byte("*99999999\r\n$99999999999\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		args, n := command(raw)
		if n < 0 || n > len(raw) {
			t.Fatalf("%d bytes of %d", n, len(raw))
		}
		if len(args) > 0 && n > 0 {
			words := make([]string, len(args))
			for i, a := range args {
				words[i] = string(a)
			}
			again, m := command(wireFormat(words...))
			if m == 0 || len(again) != len(args) {
				t.Fatalf("%q is read again as %q", args, again)
			}
		}
	})
}
