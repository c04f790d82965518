package engines

import (
	"testing"

	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
