package sdnotify

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Environment variables are per process, so these tests run one by one.

func TestMessagesReachTheSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "sd") // t.TempDir may be too long for a socket name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "notify")
	sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sock.Close() })
	t.Setenv("NOTIFY_SOCKET", path)

	for _, tt := range []struct {
		name string
		call func()
		want string
	}{
		{"ready", Ready, "READY=1"},
		{"stopping", Stopping, "STOPPING=1"},
		{"watchdog", Watchdog, "WATCHDOG=1"},
		{"extend", func() { ExtendTimeout(1500 * time.Millisecond) }, "EXTEND_TIMEOUT_USEC=1500000"},
		{"a negative extension is zero", func() { ExtendTimeout(-time.Second) }, "EXTEND_TIMEOUT_USEC=0"},
		{"a status is one line", func() { Status("claiming\nREADY=0") }, "STATUS=claiming READY=0"},
	} {
		tt.call()
		if got := receive(t, sock); got != tt.want {
			t.Errorf("%s: sent %q, want %q", tt.name, got, tt.want)
		}
	}

	Reloading()
	first, second, _ := strings.Cut(receive(t, sock), "\n")
	usec, err := strconv.ParseInt(strings.TrimPrefix(second, "MONOTONIC_USEC="), 10, 64)
	if first != "RELOADING=1" || err != nil || usec <= 0 {
		t.Errorf("reloading sent %q and %q", first, second)
	}
}

func receive(t *testing.T, sock *net.UnixConn) string {
	t.Helper()
	if err := sock.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := sock.Read(buf)
	if err != nil {
		t.Fatalf("no message arrived: %v", err)
	}
	return string(buf[:n])
}

func TestOutsideSystemdNothingHappens(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_USEC", "")
	Ready()
	Status("x")
	if d, ok := WatchdogInterval(); ok {
		t.Errorf("a watchdog of %v was reported without one being set", d)
	}
}

func TestWatchdogIntervalIsHalfTheLimit(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "30000000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	if d, ok := WatchdogInterval(); !ok || d != 15*time.Second {
		t.Errorf("got %v, %v; want 15s, true", d, ok)
	}
	t.Setenv("WATCHDOG_PID", "1")
	if _, ok := WatchdogInterval(); ok {
		t.Error("the watchdog of another process was taken for ours")
	}
}
