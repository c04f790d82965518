package monitor

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/queue"
)

// Anybody may write names into Redis that are no text; none of them may end
// the control plane.
func TestNamesThatAreNoText(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	g, err := newGauges(reg)
	if err != nil {
		t.Fatal(err)
	}
	const odd = "normal:gen\xcberal"
	queues := []queue.QueueInfo{{Name: odd, Waiting: 2}, {Name: "\xff", Waiting: 1}}
	g.queues(queues)
	g.failover("w\xff")
	g.fleet(queue.Census{Workers: map[string]bool{"w\xfe": true}})
	a := &alarms{log: zap.NewNop(), gauges: g, seen: map[string]*alarm{}}
	for range alarmLooks {
		a.look(queues)
	}
	a.look(nil)
	if _, err := reg.Gather(); err != nil {
		t.Error(err)
	}
}
