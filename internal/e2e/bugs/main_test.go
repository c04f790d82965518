package bugs_test

import (
	"flag"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/autobot-fleet/autobot/internal/leaktest"
)

var (
	full   = flag.Bool("bugs.full", false, "run at the size of the reports instead of a small one")
	strict = flag.Bool("bugs.strict", false, "check figures that need a machine with nothing else to do")
)

// sized is the small size, or that of the reports where it was asked for.
func sized[T any](small, reported T) T {
	if *full {
		return reported
	}
	return small
}

func TestMain(m *testing.M) {
	logging.Disable() // a test server that starts refuses the first attempts
	leaktest.MainWaiting(m, 8)
}
