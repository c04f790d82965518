package chaos

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) {
	logging.Disable() // servers that are away are what this is about
	leaktest.Main(m)
}
