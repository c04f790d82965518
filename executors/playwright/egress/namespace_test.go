package egress

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// With CAP_SYS_ADMIN a namespace must come up; without it Isolate must say
// what is missing. Both ways are promises, so neither is skipped.
func TestIsolate(t *testing.T) {
	t.Parallel()
	n, mode, err := Isolate()
	if err != nil {
		if n != nil || mode != ModeFlags || !strings.Contains(err.Error(), "CAP_SYS_ADMIN") {
			t.Fatalf("%v, %q, %v", n, mode, err)
		}
		if os.Geteuid() == 0 {
			t.Logf("root without CAP_SYS_ADMIN: %v", err)
		}
		return
	}
	if mode != ModeNamespace {
		t.Fatalf("mode %q", mode)
	}
	defer n.Close()
	var inside string
	if err := n.Do(func() error {
		out, err := exec.Command("/bin/cat", "/proc/self/net/dev").Output()
		inside = string(out)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if strings.Count(inside, ":") != 1 || !strings.Contains(inside, "lo:") {
		t.Errorf("a process inside sees more than loopback:\n%s", inside)
	}
	listener, err := n.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if conn, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		conn.Close()
		t.Error("a listener inside is reached from outside")
	}
	var conn net.Conn
	if err := n.Do(func() (err error) { conn, err = net.Dial("tcp", listener.Addr().String()); return err }); err != nil {
		t.Errorf("a listener inside is not reached from inside: %v", err)
	} else {
		conn.Close()
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if err := n.Do(func() error { return nil }); !errors.Is(err, ErrNamespaceClosed) {
		t.Errorf("after Close: %v", err)
	}
}
