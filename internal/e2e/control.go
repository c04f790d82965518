package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Control says how a control plane is to be started.
type Control struct {
	RedisURL string
	StateDir string // empty: one of its own
	Config   string // more lines of control.yaml; sections given here replace ours
}

// RunningControl is a control plane process.
type RunningControl struct {
	*Process
	t          testing.TB
	program    string
	c          Control
	configPath string
	listen     string
	http       *http.Client
	StateDir   string
	URL        string // https://127.0.0.1:port; a restart keeps it
	KeyPath    string // the file with the internal key
	CAPath     string // the certificate to trust
}

// StartControl starts a control plane with the fast profile and waits until it
// serves.
func StartControl(t testing.TB, c Control) *RunningControl {
	t.Helper()
	if c.StateDir == "" {
		c.StateDir = filepath.Join(ShortDir(t), "control")
	}
	r := &RunningControl{
		t: t, program: ControlProgram(t), c: c, StateDir: c.StateDir, listen: "127.0.0.1:0",
		configPath: filepath.Join(ShortDir(t), "control.yaml"),
		KeyPath:    filepath.Join(c.StateDir, "internal.key"), CAPath: filepath.Join(c.StateDir, "ca.crt"),
	}
	r.Start()
	return r
}

// Start starts the control plane again after it has ended, at the same address.
func (r *RunningControl) Start() {
	r.t.Helper()
	text := merge(map[string]string{
		"redis":     fmt.Sprintf("redis:\n  url: %q\n", r.c.RedisURL),
		"profile":   "profile: fast\n",
		"http":      fmt.Sprintf("http:\n  listen: %q\n", r.listen),
		"state_dir": fmt.Sprintf("state_dir: %q\n", r.StateDir),
		"log":       "log:\n  level: debug\n  format: console\n",
	}, r.c.Config)
	if err := os.WriteFile(r.configPath, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.Process = start(r.t, nil, r.program, "serve", "--config", r.configPath)
	served := regexp.MustCompile(`control plane started.*"url": ?"https://([^"]+)"`)
	Await(r.t, "the control plane serves", func() bool {
		if r.Ended() {
			r.t.Fatalf("the control plane has ended (code %d)", r.code)
		}
		m := served.FindStringSubmatch(r.Output())
		if m != nil {
			r.listen, r.URL = m[1], "https://"+m[1]
		}
		return m != nil
	})
	r.trust()
}

func (r *RunningControl) trust() {
	r.t.Helper()
	pem, err := os.ReadFile(r.CAPath)
	if err != nil {
		r.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		r.t.Fatalf("no certificate in %s", r.CAPath)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}
	r.http = &http.Client{Transport: transport, Timeout: Patience}
}

// CLI runs another command of autobot-control with the same configuration.
func (r *RunningControl) CLI(args ...string) Result {
	r.t.Helper()
	return Command(r.t, nil, r.program, append(args, "--config", r.configPath)...)
}

// Call makes a request with the internal key.
func (r *RunningControl) Call(method, path, body string) (code int, answer []byte) {
	r.t.Helper()
	key, err := os.ReadFile(r.KeyPath)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.CallAs(strings.TrimSpace(string(key)), method, path, body)
}

// CallAs makes a request with a key; "" shows none.
func (r *RunningControl) CallAs(key, method, path, body string) (code int, answer []byte) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.URL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("X-Internal-API-Key", key)
	}
	resp, err := r.http.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err = io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// Do is Call for requests that must succeed; it decodes the answer into v
// unless that is nil.
func (r *RunningControl) Do(method, path, body string, v any) {
	r.t.Helper()
	code, answer := r.Call(method, path, body)
	if code/100 != 2 {
		r.t.Fatalf("%s %s: %d %s", method, path, code, answer)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal(answer, v); err != nil {
		r.t.Fatalf("%s %s: %v in %s", method, path, err, answer)
	}
}

// Kill ends it as a crash would and waits for its end.
func (r *RunningControl) Kill() {
	r.t.Helper()
	r.Signal(syscall.SIGKILL)
	r.Wait()
}

// merge writes the sections, those of extra instead of ours.
func merge(sections map[string]string, extra string) string {
	var text strings.Builder
	for name, lines := range sections {
		if !strings.Contains("\n"+extra, "\n"+name+":") {
			text.WriteString(lines)
		}
	}
	return text.String() + extra
}
