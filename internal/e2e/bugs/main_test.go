package bugs_test

import (
	"flag"
	"os"
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

// These tests mostly wait for timeouts of other processes, so more of them may
// run at once than there are processors.
func TestMain(m *testing.M) {
	logging.Disable() // a test server that starts refuses the first attempts
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		if err := flag.Set("test.parallel", "8"); err != nil {
			os.Exit(2)
		}
	}
	leaktest.Main(m)
}
