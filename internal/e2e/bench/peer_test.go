package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors/child"
	"github.com/autobot-fleet/autobot/executors/engines"
)

// A peer is a program of the folder peers, in Python: the same work by the
// usual libraries, without queue and processes in between. It answers each
// line with a line, so that both sides take turns and meet the same machine.
// Like all that is compared with an executor it runs at the priority that
// executors have; else the other load of a machine would favour it.
type peer struct {
	b    *testing.B
	name string
	pid  int
	in   io.WriteCloser
	out  *bufio.Reader
}

// answer is what peers tell.
type answer struct {
	MS      []float64 `json:"ms"`
	AudioMS float64   `json:"audio_ms"`
	Vector  []float64 `json:"vector"`
}

// times are the durations of an answer.
func (a answer) times() times {
	var t times
	for _, ms := range a.MS {
		t = append(t, time.Duration(ms*float64(time.Millisecond)))
	}
	return t
}

// startPeer starts a program and waits until it is warm.
func startPeer(b *testing.B, name string, args ...string) *peer {
	b.Helper()
	python := filepath.Join(engines.CacheDir(), "bench-peers", "venv", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		b.Fatalf("the libraries to compare with are missing: %v (get them with: scripts/bench-peers)", err)
	}
	args = append([]string{filepath.Join("peers", name+".py"), engines.Locate().ModelsDir}, args...)
	cmd := exec.Command(python, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	child.Lower(cmd.Process.Pid)
	p := &peer{b: b, name: name, pid: cmd.Process.Pid, in: in, out: bufio.NewReader(out)}
	b.Cleanup(func() {
		_ = in.Close() // that ends it
		if err := cmd.Wait(); err != nil {
			b.Errorf("peer %s: %v", name, err)
		}
	})
	p.read()
	return p
}

// ask sends a question and returns the answer.
func (p *peer) ask(question any) answer {
	p.b.Helper()
	raw, err := json.Marshal(question)
	if err != nil {
		p.b.Fatal(err)
	}
	if _, err := fmt.Fprintf(p.in, "%s\n", raw); err != nil {
		p.b.Fatalf("peer %s: %v", p.name, err)
	}
	return p.read()
}

func (p *peer) read() (a answer) {
	p.b.Helper()
	line, err := p.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err != nil {
		p.b.Fatalf("peer %s: %v %s", p.name, err, line)
	}
	return a
}
