//go:build unix

package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Test ports lie below the range from which Linux takes ports for outgoing
// connections, so that a stopped server finds its port free when it restarts.
const (
	firstPort = 20000
	lastPort  = 31999
)

// Port returns a free loopback port that no other test will be given until t
// ends.
func Port(t testing.TB) int {
	t.Helper()
	port, release, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return port
}

// reservePort returns a free loopback port that no other test binary on this
// machine will choose until release is called.
func reservePort() (port int, release func(), err error) {
	dir := filepath.Join(os.TempDir(), "redistest-ports-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, nil, err
	}
	const attempts = 200
	for range attempts {
		port = firstPort + rand.IntN(lastPort-firstPort+1)
		release, err = lockPort(filepath.Join(dir, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if portIsFree(port) {
			return port, release, nil
		}
		release()
	}
	return 0, nil, errors.Join(errors.New("no free port among 200 tried"), err)
}

// lockPort holds a lock on a file named after the port. The system drops it
// with the process.
func lockPort(path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

func portIsFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
