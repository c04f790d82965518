package follow

import (
	"testing"

	"github.com/autobot-fleet/autobot/client"
)

func TestProgressLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		p    client.Progress
		want string
	}{
		{client.Progress{Percent: 40, Stage: "step", Done: 2, Total: 3, Unit: "step"}, "40 %, step, 2 of 3 steps"},
		{client.Progress{Percent: -1, Done: 0, Total: 2, Unit: "file"}, "0 of 2 files"},
		{client.Progress{Percent: -1, Done: 0, Total: 1, Unit: "item"}, "0 of 1 item"},
		{client.Progress{Percent: -1, Done: 5, Total: 100, Unit: "ms"}, "5 of 100 ms"},
		{client.Progress{Percent: 20, Stage: "upload"}, "20 %, upload"},
		{client.Progress{Percent: -1, Done: 1, Total: 4, Message: "so far"}, "1 of 4, so far"},
	} {
		if got := ProgressLine(tt.p); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
