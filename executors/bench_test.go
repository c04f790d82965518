package executors_test

import (
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/executorstest"
)

// BenchmarkTaskThroughProcess is one no-op task, from Start to its outcome,
// with 50 at a time in one executor process.
func BenchmarkTaskThroughProcess(b *testing.B) {
	const slots = 50
	p := executorstest.Start(b, executorstest.Binary{
		Path: executorstest.Build(b, "github.com/autobot-fleet/autobot/executors/general/cmd/autobot-executor-general"),
	})
	s := p.Attach(b)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range slots {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				done, err := s.Start(executors.Task{
					ID: strconv.FormatInt(n, 10), Attempt: 1, Type: "general", Payload: json.RawMessage(`{"value": 1}`),
				}, nil)
				if err != nil {
					b.Error(err)
					return
				}
				if o := <-done; o.Err != nil {
					b.Error(o.Err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}
