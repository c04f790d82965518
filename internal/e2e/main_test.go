package e2e_test

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) {
	logging.Disable() // a test server that starts refuses the first attempts
	leaktest.MainWaiting(m, 4)
}
