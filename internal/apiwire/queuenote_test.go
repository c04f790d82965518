package apiwire

import (
	"testing"

	"github.com/autobot-fleet/autobot/queue"
)

func TestQueueNote(t *testing.T) {
	t.Parallel()
	queues := []queue.QueueInfo{{Name: "normal:general"}, {Name: "high:tts", Paused: true}, {Name: "batch"}}
	workers := []queue.WorkerRecord{{Alive: true, Queues: []string{"low:vision"}}, {Queues: []string{"low:audio"}}}
	for _, tt := range []struct {
		name  string
		pause bool
		want  string
	}{
		{"normal:general", true, ""},
		{"high:tts", true, ""},
		{"low:vision", true, "no task has used this queue yet"},
		{"low:audio", true, "no task has used this queue yet and no living worker serves it; nearest: low:vision"},
		{"normal:genral", true, "no task has used this queue yet and no living worker serves it; nearest: normal:general"},
		{"general", true, "no task has used this queue yet and no living worker serves it; nearest: normal:general"},
		{"zzzzzz", true, "no task has used this queue yet and no living worker serves it"},
		{"high:tts", false, ""},
		{"batch", false, "it was not paused"},
		{"high:tst", false, "it was not paused; nearest: high:tts"},
	} {
		if got := QueueNote(tt.name, tt.pause, queues, workers); got != tt.want {
			t.Errorf("%s, pause %v: %q, want %q", tt.name, tt.pause, got, tt.want)
		}
	}
}
