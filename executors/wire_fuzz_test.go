package executors

import (
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	executorpb "github.com/autobot-fleet/autobot/executors/proto"
)

// FuzzExecutorMessage: whatever an executor process sends, the agent gets
// events and outcomes within their limits.
func FuzzExecutorMessage(f *testing.F) {
	for _, m := range []*executorpb.ExecutorMessage{
		{Event: &executorpb.ExecutorMessage_Progress{Progress: &executorpb.Progress{Percent: -7, Stage: "s", Message: "m"}}},
		{Event: &executorpb.ExecutorMessage_Log{Log: &executorpb.Log{Level: "loud", Message: "m", UnixMs: -1}}},
		{Event: &executorpb.ExecutorMessage_Artifact{Artifact: &executorpb.Artifact{Name: "../x", Meta: map[string]string{"a": "b"}}}},
		{Event: &executorpb.ExecutorMessage_Outcome{Outcome: &executorpb.Outcome{Output: []byte(`{"meta":1}`), LoadUs: -1}}},
		{Event: &executorpb.ExecutorMessage_Outcome{Outcome: &executorpb.Outcome{Output: []byte(`{"a":1}`), Failure: &executorpb.Failure{DelayMs: 1 << 62}}}},
	} {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m executorpb.ExecutorMessage
		if proto.Unmarshal(raw, &m) != nil {
			return
		}
		if e := eventFromWire(&m); e != nil && e.Progress != nil {
			if p := e.Progress; p.Percent < -1 || p.Percent > 100 || utf8.RuneCountInString(p.Message) > MaxProgress {
				t.Errorf("progress %+v", p)
			}
		}
		o := outcomeFromWire(m.GetOutcome())
		if o.Result.Load < 0 {
			t.Errorf("load time %v", o.Result.Load)
		}
		if o.Err == nil || len(o.Result.Output) > 0 {
			var fields map[string]json.RawMessage
			if err := json.Unmarshal(o.Result.Output, &fields); err != nil || fields == nil || len(o.Result.Output) > MaxOutput {
				t.Errorf("output %q passes: %v", o.Result.Output, err)
			}
		}
		if e := AsError(o.Err); o.Err != nil && (e.Delay < 0 || e.Delay > 1<<62*time.Nanosecond) {
			t.Errorf("delay %v", e.Delay)
		}
	})
}
