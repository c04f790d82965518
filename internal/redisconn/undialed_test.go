package redisconn

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatCannotBeReachedIsToldWithItsAddress tries a socket that is not there:
// neither the address nor the kind of the fault gets lost on the way.
func TestWhatCannotBeReachedIsToldWithItsAddress(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "none.sock")
	m, err := New(Config{URL: "unix://" + socket}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	client, err := m.Client(Main)
	if err != nil {
		t.Fatal(err)
	}
	err = client.Ping(t.Context()).Err()
	var op *net.OpError
	if !errors.As(err, &op) || !strings.Contains(err.Error(), socket) || classify(err).reason != ReasonRefused {
		t.Errorf("%v (%T), reason %s", err, err, classify(err).reason)
	}
	if h := m.Health().Databases[Main]; h.State == StateHealthy {
		t.Errorf("health is %s", h.State)
	}
}
