package main

import (
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/queue"
)

func TestAScanSaysWhomItCannotJudgeYet(t *testing.T) {
	t.Parallel()
	late := []client.PendingWorker{{WorkerID: "late", Watched: 12.4, Timeout: 45}}
	for _, tt := range []struct {
		name   string
		report client.ScanReport
		want   string
	}{
		{"all are well", client.ScanReport{Workers: 2}, "2 workers, none is dead\n"},
		{"one is in its grace", client.ScanReport{Workers: 2, Pending: late},
			"2 workers, none is known to be dead\nnot judged yet: late has no heartbeat, and this monitor has watched for 12 s of 45 s\n"},
		{"one is dead, one in its grace", client.ScanReport{Workers: 2, Dead: []string{"gone"}, Pending: late, Events: []queue.FailoverEvent{{WorkerID: "gone"}}},
			"2 workers, dead: gone\nnot judged yet: late has no heartbeat, and this monitor has watched for 12 s of 45 s\nTIME"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if err := printScan(&out, tt.report); err != nil || !strings.HasPrefix(out.String(), tt.want) {
				t.Errorf("%v\n%s\nwant\n%s", err, out.String(), tt.want)
			}
		})
	}
}
