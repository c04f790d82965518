package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/queue"
)

// TestATypeWithInputsFindsThemAsFiles lets one task make an artifact and others
// refer to it, by types that take inputs and not.
func TestATypeWithInputsFindsThemAsFiles(t *testing.T) {
	t.Parallel()
	digest := sha256.Sum256([]byte("RIFF"))
	sum := hex.EncodeToString(digest[:])
	refer := func(t *queue.Task) { t.Payload = []byte(`{"image":{"artifact":"sha256:` + sum + `"}}`) }
	missing := func(t *queue.Task) {
		t.Payload = []byte(`{"image":{"artifact":"sha256:` + strings.Repeat("0", 64) + `"}}`)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.h.status[0].Types[1].Inputs = true // tts; general takes none
		seen := map[string]string{}
		r.h.run = func(_ context.Context, job Job, sink func(executors.Event)) (JobOutcome, error) {
			if job.Task.ID == "maker" {
				if err := os.WriteFile(filepath.Join(job.Task.SpoolDir, "a.wav"), []byte("RIFF"), 0o600); err != nil {
					return JobOutcome{}, err
				}
				sink(executors.Event{Artifact: &executors.Artifact{Name: "a.wav", Kind: "audio"}})
			}
			raw, _ := os.ReadFile(job.Task.Inputs[sum])
			seen[job.Task.ID] = string(raw)
			return done(`{}`), nil
		}
		once := func(t *queue.Task) { t.MaxRetries = 0 }
		r.q.add("normal:general", "maker", "general", once)
		r.start()
		rest(time.Minute)
		r.q.add("normal:general", "plain", "general", once, refer)
		r.q.add("normal:tts", "reader", "tts", once, refer)
		r.q.add("normal:tts", "missing", "tts", once, missing)
		rest(time.Minute)
		if seen["reader"] != "RIFF" || seen["plain"] != "" {
			t.Errorf("files: %q", seen)
		}
		if _, ran := seen["missing"]; ran {
			t.Error("a task without its input ran")
		}
		if f := r.q.task("missing").fail; f.Code != string(executors.CodeNotFound) || f.Retryable {
			t.Errorf("failure %+v", f)
		}
		r.wantCleanEnd()
		r.wantNoProblems()
	})
}
