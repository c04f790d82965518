package egress

import (
	"net/netip"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
)

func TestServersOfTheFleetAreNeverReached(t *testing.T) {
	t.Setenv(executors.EnvFleet, "127.0.0.1:6379,[2001:db8::7]:8443,nonsense,host:99999")
	p, err := ParsePolicy([]string{"127.0.0.0/8", "127.0.0.1:6379"}, []int{6379, 80})
	if err != nil {
		t.Fatal(err)
	}
	p.DeniedAddrs = FleetAddrs()
	if len(p.DeniedAddrs) != 2 {
		t.Fatalf("%v", p.DeniedAddrs)
	}
	if d := p.judge("127.0.0.1", netip.MustParseAddr("127.0.0.1"), 6379); d == nil || d.Rule != RuleOwn {
		t.Errorf("Redis: %v", d)
	}
	if d := p.judge("127.0.0.1", netip.MustParseAddr("127.0.0.1"), 80); d != nil {
		t.Errorf("beside it: %v", d)
	}
}
