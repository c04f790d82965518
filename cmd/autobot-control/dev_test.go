package main

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/internal/e2e"
)

// checkWAV fails the test unless path is one PCM file with a correct header.
func checkWAV(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) < 44 || string(b[:4]) != "RIFF" || string(b[8:16]) != "WAVEfmt " || string(b[36:40]) != "data" {
		t.Fatalf("%s has no WAV header: % x", path, b[:min(len(b), 44)])
	}
	le := binary.LittleEndian
	if riff, data := int(le.Uint32(b[4:])), int(le.Uint32(b[40:])); riff != len(b)-8 || data != len(b)-44 || data == 0 {
		t.Errorf("%s: %d bytes, RIFF says %d, data %d", path, len(b), riff, data)
	}
	if format, channels, rate, bits := le.Uint16(b[20:]), le.Uint16(b[22:]), le.Uint32(b[24:]), le.Uint16(b[34:]); format != 1 || channels != 1 || rate != 22050 || bits != 16 {
		t.Errorf("%s: format %d, %d channels, %d Hz, %d bits", path, format, channels, rate, bits)
	}
}

func TestDemoRunsOneTaskPerExecutor(t *testing.T) {
	t.Parallel()
	bin := e2e.Install(t, "general", "tts", "exec")
	for _, tt := range []struct {
		name string
		path string // PATH; empty: the test's own
		want []string
	}{
		{"with redis-server", "", []string{"redis-server 7", "kept in"}},
		{"in memory", e2e.PathWith(t, "espeak-ng"), []string{"in memory", "apt-get install redis-server"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var env []string
			if tt.path != "" {
				env = []string{"PATH=" + tt.path}
			}
			d := e2e.StartDev(t, bin, env, "--demo", "--once")
			if code := d.Wait(); code != 0 {
				t.Fatalf("exit code %d", code)
			}
			for _, want := range append(tt.want, "general", "words", "tts", "of speech", "speech.wav", "exec: ", filepath.Join(d.Dir, "demo")) {
				if !strings.Contains(d.Output(), want) {
					t.Errorf("%q is missing in the output", want)
				}
			}
			checkWAV(t, filepath.Join(d.Dir, "demo", "speech.wav"))
			if left := d.Left(); len(left) > 0 {
				t.Errorf("processes are left: %v", left)
			}
		})
	}
}

func TestTheDemoShowsWhatEachExecutorDoes(t *testing.T) {
	t.Parallel()
	bin := e2e.Install(t, "general", "tts", "openvino", "playwright")
	t.Run("with all engines", func(t *testing.T) {
		t.Parallel()
		d := e2e.StartDev(t, bin, nil, "--demo", "--once")
		if code := d.Wait(); code != 0 {
			t.Fatalf("exit code %d (are the engines there? scripts/setup)", code)
		}
		for _, want := range []string{"Cat 0.", ` "Tasks of a dead machine move on."`, "Region-based segmentation", "AutoBot Fleet on"} {
			if !strings.Contains(d.Output(), want) {
				t.Errorf("%q is missing in the output", want)
			}
		}
		checkWAV(t, filepath.Join(d.Dir, "demo", "speech.wav"))
		for file, begin := range map[string]string{
			"objects.png": "\x89PNG", "text.png": "\x89PNG", "page.png": "\x89PNG", "page.pdf": "%PDF-",
		} {
			content, err := os.ReadFile(filepath.Join(d.Dir, "demo", file))
			if err != nil || !strings.HasPrefix(string(content), begin) || len(content) < 5000 {
				t.Errorf("%s: %d bytes, %v", file, len(content), err)
			}
		}
		if left := d.Left(); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
	})
	t.Run("without engines", func(t *testing.T) {
		t.Parallel()
		d := e2e.StartDev(t, bin, []string{"AUTOBOT_ENGINES_DIR=" + filepath.Join(e2e.ShortDir(t), "engines")}, "--demo", "--once")
		if code := d.Wait(); code != 0 {
			t.Fatalf("exit code %d: what is not installed has not failed", code)
		}
		for _, want := range []string{
			"openvino: not run, it is not ready: ", "autobot-agent engines install openvino",
			"playwright: not run, it is not ready: ", "autobot-agent engines install playwright", "speech.wav",
		} {
			if !strings.Contains(d.Output(), want) {
				t.Errorf("%q is missing in the output", want)
			}
		}
	})
}

func TestDevLeavesNothing(t *testing.T) {
	t.Parallel()
	bin := e2e.Install(t, "general")
	for _, tt := range []struct {
		name   string
		signal syscall.Signal
		code   int
	}{
		{"after ctrl-C", syscall.SIGINT, 0},
		{"after SIGTERM", syscall.SIGTERM, 0},
		{"after SIGKILL", syscall.SIGKILL, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := e2e.StartDev(t, bin, nil)
			d.AwaitUp()
			if left := d.Left(); len(left) < 3 {
				t.Fatalf("redis-server, agent and executor should run, found %v", left)
			}
			r := d.CLI("", "tasks", "submit", "general", `{"op":"echo","value":"kept"}`, "--id", "kept", "--wait")
			if r.Code != 0 {
				t.Fatalf("submit: %+v", r)
			}
			// On a slow disk Redis writes up to 2 s late; SIGKILL ends it with dev.
			e2e.Await(t, "Redis has written the task", func() bool {
				logs, err := filepath.Glob(filepath.Join(d.Dir, "redis", "appendonlydir", "*.incr.aof"))
				if err != nil || len(logs) == 0 {
					return false
				}
				text, err := os.ReadFile(logs[len(logs)-1])
				return err == nil && strings.Contains(string(text), "kept") && strings.Contains(string(text), "completed")
			})
			d.Signal(tt.signal)
			if code := d.Wait(); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if tt.code == 0 {
				if left := d.Left(); len(left) > 0 {
					t.Errorf("processes are left: %v", left)
				}
			}
			d.AwaitNoneLeft()
			if r := d.CLI("", "workers", "list"); r.Code != cli.ExitUnreachable || !strings.Contains(r.Stderr, "autobot-control dev") {
				t.Errorf("the command line finds something that has gone: %+v", r)
			}
			// Its folder is as good as before, and nothing was lost.
			d.Start()
			d.AwaitUp()
			if r := d.CLI("", "tasks", "result", "kept"); r.Code != 0 || !strings.Contains(r.Stdout, "kept") {
				t.Errorf("after a new start: %+v", r)
			}
			d.Signal(syscall.SIGTERM)
			if code := d.Wait(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// ctrl-C while a task runs lets it end; a second one hands it back.
func TestDevDrains(t *testing.T) {
	t.Parallel()
	d := e2e.StartDev(t, e2e.Install(t, "general"), nil)
	d.AwaitUp()
	running := func(id, ms string) {
		t.Helper()
		if r := d.CLI("", "tasks", "submit", "general", `{"op":"sleep","ms":`+ms+`}`, "--id", id); r.Code != 0 {
			t.Fatalf("submit: %+v", r)
		}
		e2e.Await(t, id+" runs", func() bool { return strings.Contains(d.CLI("", "tasks", "show", id).Stdout, "running") })
	}
	running("short", "3000")
	d.Signal(syscall.SIGINT)
	if code := d.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	d.Start()
	d.AwaitUp()
	if r := d.CLI("", "tasks", "result", "short"); r.Code != 0 {
		t.Errorf("the task that ran did not end: %+v", r)
	}
	running("long", "3600000")
	d.Signal(syscall.SIGINT)
	e2e.Await(t, "it stops", func() bool { return strings.Contains(d.Output(), "ctrl-C again") })
	d.Signal(syscall.SIGINT)
	if code := d.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	d.Start()
	d.AwaitUp()
	if r := d.CLI("", "tasks", "show", "long"); !strings.Contains(r.Stdout, "0 of 3") {
		t.Errorf("a task that was handed back was counted: %s", r.Stdout)
	}
	if r := d.CLI("", "tasks", "cancel", "long"); r.Code != 0 {
		t.Errorf("cancel: %+v", r)
	}
	d.Signal(syscall.SIGINT)
	if code := d.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestDevRefuses(t *testing.T) {
	t.Parallel()
	bin := e2e.Install(t, "general")
	t.Run("a folder in which one runs", func(t *testing.T) {
		t.Parallel()
		d := e2e.StartDev(t, bin, nil)
		d.AwaitUp()
		if r := d.CLI("", "dev", "--dir", d.Dir); r.Code != 1 || !strings.Contains(r.Stderr, "runs in "+d.Dir+" already") {
			t.Errorf("%+v", r)
		}
		// A second one elsewhere is fine, and does not take the first one's place.
		other := filepath.Join(e2e.ShortDir(t), "x")
		r := d.CLI("", "dev", "--demo", "--once", "--dir", other)
		if r.Code != 0 {
			t.Errorf("a second fleet: %+v", r)
		}
		if r := d.CLI("", "workers", "list"); r.Code != 0 {
			t.Errorf("the first fleet is not found any more: %+v", r)
		}
	})
	alone := e2e.ShortDir(t)
	program, err := os.ReadFile(filepath.Join(bin, "autobot-control"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(alone, "autobot-control"), program, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, bin string
		args      []string
		code      int
		want      string
	}{
		{"without an agent beside it", alone, nil, 1, "run make build"},
		{"a path too long for sockets", bin, []string{"--dir", "/tmp/" + strings.Repeat("x", 100)}, 1, "shorter"},
		{"once without demo", bin, []string{"--once"}, 2, "--demo"},
		{"flags of serve", bin, []string{"--http-listen", ":1"}, 2, "http.listen"},
		{"a Redis that is not there", bin, []string{"--redis-url", "redis://127.0.0.1:1"}, 69, "is unreachable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			home := e2e.ShortDir(t)
			r := e2e.Command(t, []string{"XDG_STATE_HOME=" + home, "XDG_RUNTIME_DIR=" + home}, filepath.Join(tt.bin, "autobot-control"), append([]string{"dev"}, tt.args...)...)
			if r.Code != tt.code || !strings.Contains(r.Stderr, tt.want) || strings.Count(strings.TrimSpace(r.Stderr), "\n") > 0 {
				t.Errorf("want code %d and %q in one sentence, got %+v", tt.code, tt.want, r)
			}
		})
	}
}

// A Redis that dies by itself takes the fleet down with a reason.
func TestDevTellsWhatDied(t *testing.T) {
	t.Parallel()
	d := e2e.StartDev(t, e2e.Install(t, "general"), nil)
	d.AwaitUp()
	for _, line := range d.Left() {
		pid, rest, _ := strings.Cut(line, " ")
		if strings.Contains(rest, "redis-server") {
			n, err := strconv.Atoi(pid)
			if err == nil {
				err = syscall.Kill(n, syscall.SIGKILL)
			}
			if err != nil {
				t.Fatalf("kill %q: %v", pid, err)
			}
		}
	}
	if code := d.Wait(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(d.Output(), "redis-server ended by itself (signal: killed)") {
		t.Error("the reason is missing")
	}
	d.AwaitNoneLeft()
}
