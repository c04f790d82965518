package redismodes

import (
	"flag"
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/autobot-fleet/autobot/internal/leaktest"
)

// These tests mostly wait for timeouts of other processes, so more of them may
// run at once than there are processors.
func TestMain(m *testing.M) {
	logging.Disable() // a test server that starts refuses the first attempts
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		if err := flag.Set("test.parallel", "4"); err != nil {
			os.Exit(2)
		}
	}
	leaktest.Main(m)
}
