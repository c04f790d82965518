//go:build unix

package redistest

import (
	"testing"

	"github.com/autobot-fleet/autobot/internal/miniserver"
)

// StartMini runs the in-process stand-in for Redis (see package miniserver)
// until t ends and returns its host:port.
func StartMini(t testing.TB) string {
	t.Helper()
	srv, err := miniserver.Run("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return srv.Addr()
}
