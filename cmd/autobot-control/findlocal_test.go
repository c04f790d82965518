package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
)

// The command line finds the control plane that the configuration of this
// machine describes, and trusts exactly that one.
func TestTheLocalControlPlaneIsFound(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	program := e2e.ControlProgram(t)
	first := e2e.ShortDir(t)
	for _, tt := range []struct {
		name, listen, more string
	}{
		{"on loopback", "127.0.0.1:%d", ""},
		{"on all addresses", ":%d", ""},
		{"with a certificate that was configured", "127.0.0.1:%d",
			fmt.Sprintf("tls:\n  cert_file: %s/state/server.crt\n  key_file: %s/state/server.key\n", first, first)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := first
			if tt.more != "" {
				dir = e2e.ShortDir(t)
			}
			config := filepath.Join(dir, "control.yaml")
			text := fmt.Sprintf("redis:\n  url: %q\nhttp:\n  listen: %q\nstate_dir: %q\n%s",
				srv.URL(), fmt.Sprintf(tt.listen, redistest.Port(t)), filepath.Join(dir, "state"), tt.more)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			p := e2e.Start(t, nil, program, "serve", "--config", config)
			var r e2e.Result
			e2e.Await(t, "the command line reaches it", func() bool {
				r = e2e.Command(t, nil, program, "tasks", "submit", "waits", "--config", config)
				if p.Ended() {
					t.Fatalf("serve has ended: %s", p.Output())
				}
				return r.Code != cli.ExitUnreachable && r.Code != cli.ExitTryLater && !strings.Contains(r.Stderr, "no such file")
			})
			if r.Code != 0 || !strings.Contains(r.Stdout, "queued in normal:waits") {
				t.Errorf("%+v", r)
			}
			p.Signal(syscall.SIGTERM)
			if code := p.Wait(); code != 0 {
				t.Errorf("serve ended with %d", code)
			}
			if r := e2e.Command(t, nil, program, "tasks", "list", "--config", config); r.Code != cli.ExitUnreachable || !strings.Contains(r.Stderr, "systemctl start autobot-control") {
				t.Errorf("after its end: %+v", r)
			}
		})
	}
}
