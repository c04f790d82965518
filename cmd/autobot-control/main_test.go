package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/internal/leaktest"
	"github.com/autobot-fleet/autobot/internal/redistest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// invoke runs one command line with an empty input.
func invoke(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("redis:\n  url: redis://localhost\nprofil: fast\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	locked := redistest.Start(t, redistest.WithPassword("hush"))
	serve := func(folder, listen string) []string {
		return []string{"serve", "--redis-url", "redis://127.0.0.1:1", "--state-dir", filepath.Join(dir, folder), "--http-listen", listen}
	}
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string // in stdout or stderr
	}{
		{"a taken port", serve("a", taken.Addr().String()), 75, "another program uses the port"},
		{"an address of another machine", serve("b", "192.0.2.1:8443"), 1, "an address of this machine"},
		{"no command prints the help", nil, 0, "serve"},
		{"version", []string{"version"}, 0, "autobot-control"},
		{"an unknown command", []string{"sreve"}, 2, "did you mean serve?"},
		{"help on nothing", []string{"help", "nosuch"}, 2, `no command "nosuch"`},
		{"an unknown flag", []string{"serve", "--nope"}, 2, "--nope"},
		{"an unknown output", []string{"version", "-o", "xml"}, 2, "table, json, yaml"},
		{"arguments where there are none", []string{"serve", "now"}, 2, "takes no arguments"},
		{"an unknown key", []string{"config", "check", "--config", bad}, 78, "profil"},
		{"serve with a bad configuration", []string{"serve", "--config", bad}, 78, "bad.yaml:3"},
		{"a file that is not there", []string{"config", "check", "--config", filepath.Join(dir, "none.yaml")}, 78, "none.yaml"},
		{"Redis away", []string{"redis", "health", "--redis-url", "redis://127.0.0.1:1"}, 69, "refused"},
		{"an unknown database", []string{"redis", "info", "--database", "x", "--redis-url", "redis://127.0.0.1:1"}, 2, "unknown Redis database"},
		{"the doctor without Redis", []string{"doctor", "--redis-url", "redis://127.0.0.1:1", "--state-dir", dir}, 69, "repair"},
		{"the doctor with a wrong password", []string{"doctor", "--redis-url", "redis://" + locked.Addr(), "--state-dir", dir}, 1, "redis.password_file"},
		{"completion", []string{"completion", "bash"}, 0, "autobot-control"},
		{"man pages", []string{"man", filepath.Join(dir, "man")}, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := invoke(tt.args...)
			if code != tt.code {
				t.Errorf("exit code %d, want %d\n%s%s", code, tt.code, stdout, stderr)
			}
			if !strings.Contains(stdout+stderr, tt.want) {
				t.Errorf("%q is missing in:\n%s%s", tt.want, stdout, stderr)
			}
			if strings.Contains(stderr, "goroutine") {
				t.Errorf("a stack trace:\n%s", stderr)
			}
		})
	}
}

func TestReadCommandsSpeakJSON(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, args := range [][]string{
		{"redis", "health"}, {"redis", "info"}, {"redis", "info", "--database", "locks"}, {"doctor"}, {"config", "show"}, {"config", "check"}, {"version"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := invoke(append(args, "--output", "json", "--redis-url", srv.URL(), "--state-dir", t.TempDir())...)
			if code != 0 || !json.Valid([]byte(stdout)) {
				t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
			}
		})
	}
}

func TestConfigShowMasksSecrets(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := invoke("config", "show", "--redis-url", "redis://u:sesame-7@localhost", "--state-dir", t.TempDir())
	if code != 0 || strings.Contains(stdout+stderr, "sesame-7") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
