package agent

import (
	"testing"

	"github.com/autobot-fleet/autobot/agent/host"
)

// Operators see what confines an executor as the host has it.
func TestStatusTellsWhatConfinesAnExecutor(t *testing.T) {
	t.Parallel()
	for _, want := range []string{host.ConfinedByCgroup, host.ConfinedByGroup, ""} {
		if got := executorList([]host.Status{{Name: "one", Confinement: want}}); len(got) != 1 || got[0].Confinement != want {
			t.Errorf("status = %+v, want confinement %q", got, want)
		}
	}
}
