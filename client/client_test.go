package client_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// ways runs a test over both ways into the fleet.
func ways(t *testing.T, f *fleet, test func(t *testing.T, c *client.Client)) {
	t.Helper()
	t.Run("over HTTPS", func(t *testing.T) { test(t, f.dial(t)) })
	t.Run("on Redis", func(t *testing.T) { test(t, f.connect(t)) })
}

func submit(t *testing.T, c *client.Client, s queue.Submission) queue.Receipt {
	t.Helper()
	r, err := c.Submit(limited(t), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestErrorsAreTheSameBothWays(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	ways(t, f, func(t *testing.T, c *client.Client) {
		ctx := limited(t)
		id := "twice-" + strings.ReplaceAll(strings.ToLower(t.Name()), "/", "-")
		submit(t, c, queue.Submission{Type: "waits", ID: id, UniqueKey: "key of " + id})
		done := submit(t, c, queue.Submission{Type: "echo"}).ID
		if _, err := c.Wait(ctx, done, nil); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			name string
			do   func() error
			want error
		}{
			{"the id exists", func() error { _, err := c.Submit(ctx, queue.Submission{Type: "waits", ID: id}); return err }, queue.ErrExists},
			{"no such task", func() error { _, err := c.Get(ctx, "nope"); return err }, queue.ErrNotFound},
			{"no such result", func() error { _, err := c.Result(ctx, "nope"); return err }, queue.ErrNotFound},
			{"not finished", func() error { _, err := c.Result(ctx, id); return err }, queue.ErrNotFinished},
			{"cancel what has ended", func() error { _, err := c.Cancel(ctx, done); return err }, queue.ErrConflict},
			{"retry what waits", func() error { return c.Retry(ctx, id) }, queue.ErrConflict},
			{"delete nothing", func() error { return c.Delete(ctx, "nope") }, queue.ErrNotFound},
			{"drain nobody", func() error { return c.Drain(ctx, "nobody") }, queue.ErrNotFound},
			{"no such worker", func() error { _, err := c.Worker(ctx, "nobody"); return err }, queue.ErrNotFound},
			{"wait for nothing", func() error { _, err := c.Wait(ctx, "nope", nil); return err }, queue.ErrNotFound},
			{"watch nothing", func() error { _, err := c.Watch(ctx, "nope"); return err }, queue.ErrNotFound},
		} {
			if err := tt.do(); !errors.Is(err, tt.want) {
				t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
			}
		}
		var duplicate *queue.DuplicateError
		if _, err := c.Submit(ctx, queue.Submission{Type: "waits", UniqueKey: "key of " + id}); !errors.As(err, &duplicate) || duplicate.ID != id {
			t.Errorf("unique key: %v", err)
		}
		var invalid *queue.InvalidError
		if _, err := c.Submit(ctx, queue.Submission{Type: "Bad Type"}); !errors.As(err, &invalid) || invalid.Field != "type" {
			t.Errorf("bad type: %v", err)
		}
		if _, err := c.RetryAll(ctx, queue.Filter{}, true); !errors.As(err, &invalid) {
			t.Errorf("retry of everything: %v", err)
		}
	})
}

func TestALifeOfTasks(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	ways(t, f, func(t *testing.T, c *client.Client) {
		ctx := limited(t)
		retries := 0
		bad := submit(t, c, queue.Submission{Type: "fail", MaxRetries: &retries, Labels: map[string]string{"a": "b"}, Timeout: 90 * time.Second})
		var states []queue.Status
		var progress []client.Progress
		_, err := c.Wait(ctx, bad.ID, func(e client.Event) {
			switch e.Kind {
			case queue.EventState:
				states = append(states, e.State.Status)
			case queue.EventProgress:
				progress = append(progress, e.Progress)
			}
		})
		var failed *queue.FailedError
		if !errors.As(err, &failed) || failed.Code != "NOT_FOUND" || !strings.Contains(failed.Message, "no such thing") || !strings.Contains(string(failed.Document), "meta") {
			t.Fatalf("the failure is told as: %#v", err)
		}
		if len(states) == 0 || states[len(states)-1] != queue.StatusFailedPermanent {
			t.Errorf("states %v", states)
		}
		for _, p := range progress {
			if p.Percent != 50 || p.Stage != "echo" || p.Total != 2 || p.Unit != "half" {
				t.Errorf("progress %+v", p)
			}
		}
		task, err := c.Get(ctx, bad.ID)
		if err != nil || task.Timeout != 90*time.Second || task.Labels["a"] != "b" || string(task.Payload) != "{}" || task.CreatedAt.IsZero() {
			t.Errorf("task %+v, %v", task, err)
		}
		report, err := c.RetryAll(ctx, queue.Filter{Type: "fail", Code: "NOT_FOUND"}, true)
		if err != nil || len(report.Retried) == 0 || !report.DryRun {
			t.Errorf("dry run: %+v, %v", report, err)
		}
		if report, err = c.RetryAll(ctx, queue.Filter{Type: "fail"}, false); err != nil || len(report.Retried) == 0 {
			t.Errorf("retry: %+v, %v", report, err)
		}
		if _, err := c.Wait(ctx, bad.ID, nil); !errors.As(err, &failed) {
			t.Errorf("after the retry: %v", err)
		}

		waits := submit(t, c, queue.Submission{Type: "waits"})
		if err := c.Reprioritise(ctx, waits.ID, queue.PriorityCritical); err != nil {
			t.Error(err)
		}
		queues, err := c.Queues(ctx)
		found := false
		for _, q := range queues {
			found = found || q.Name == "critical:waits" && q.Waiting > 0
		}
		if err != nil || !found {
			t.Errorf("queues %+v, %v", queues, err)
		}
		if s, err := c.Cancel(ctx, waits.ID); err != nil || s != queue.StatusCancelled {
			t.Errorf("cancel: %s, %v", s, err)
		}
		if err := c.Delete(ctx, waits.ID); err != nil {
			t.Error(err)
		}
		if err := errors.Join(c.PauseQueue(ctx, "normal:echo"), c.ResumeQueue(ctx, "normal:echo"), c.Drain(ctx, workerID), c.Resume(ctx, workerID)); err != nil {
			t.Error(err)
		}
		if note, err := c.QueueNote(ctx, "normal:ecko", true); err != nil || !strings.Contains(note, "no task has used this queue yet") || !strings.Contains(note, "nearest: normal:echo") {
			t.Errorf("note %q, %v", note, err)
		}
		if note, err := c.QueueNote(ctx, "normal:echo", true); err != nil || note != "" {
			t.Errorf("note %q, %v", note, err)
		}
		workers, err := c.Workers(ctx)
		if err != nil || len(workers) != 1 || workers[0].State != "alive" || !workers[0].Serves("echo") {
			t.Errorf("workers %+v, %v", workers, err)
		}
	})
}

// Every task ends once for its waiter, although connections break.
func TestWaitSurvivesARestart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		open    func(*testing.T, *fleet) *client.Client
		restart func(*fleet)
	}{
		{"of the control plane", func(t *testing.T, f *fleet) *client.Client { return f.dial(t) }, func(f *fleet) { f.plane.stop(); f.plane.start() }},
		{"of Redis, over HTTPS", func(t *testing.T, f *fleet) *client.Client { return f.dial(t) }, func(f *fleet) { f.redis.Restart() }},
		{"of Redis, on Redis", func(t *testing.T, f *fleet) *client.Client { return f.connect(t) }, func(f *fleet) { f.redis.Restart() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, redistest.WithAOF(), redistest.WithConfig("appendfsync", "always"))
			ctx := limited(t)
			c := tt.open(t, f)
			if err := c.PauseQueue(ctx, "normal:echo"); err != nil {
				t.Fatal(err)
			}
			r := submit(t, c, queue.Submission{Type: "echo", Payload: json.RawMessage(`{"n":1}`)})
			seen := make(chan struct{})
			var once sync.Once
			ended := make(chan error, 1)
			go func() {
				doc, err := c.Wait(ctx, r.ID, func(client.Event) { once.Do(func() { close(seen) }) })
				if err == nil && string(doc) != `{"n":1}` {
					err = errors.New("the result is " + string(doc))
				}
				ended <- err
			}()
			<-seen
			tt.restart(f)
			other := f.connect(t)
			for other.ResumeQueue(ctx, "normal:echo") != nil && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond) // Redis may be starting
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWatchEndsWithTheTask(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	ways(t, f, func(t *testing.T, c *client.Client) {
		r := submit(t, c, queue.Submission{Type: "echo"})
		events, err := c.Watch(limited(t), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		var last client.Event
		for e := range events {
			last = e
		}
		if last.State.Status != queue.StatusCompleted {
			t.Errorf("the last event is %+v", last)
		}
		// A reader that goes away is not waited for.
		ctx, cancel := context.WithCancel(context.Background())
		events, err = c.Watch(ctx, submit(t, c, queue.Submission{Type: "waits"}).ID)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		for range events {
		}
	})
}

func TestDialRefuses(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	other := startPlane(t, f.redis.URL(), t.TempDir(), "127.0.0.1:0")
	for _, tt := range []struct {
		name   string
		mutate func(*client.Options)
		want   string // part of the error of Dial or of the first call
		kind   error
	}{
		{"plain HTTP", func(o *client.Options) { o.URL = strings.Replace(o.URL, "https", "http", 1) }, "no insecure mode", nil},
		{"a path", func(o *client.Options) { o.URL += "/api" }, "must look like", nil},
		{"no address", func(o *client.Options) { o.URL = "" }, "must look like", nil},
		{"a CA file that is not there", func(o *client.Options) { o.CAFile = filepath.Join(dir, "no") }, "no such file", nil},
		{"a CA file without certificate", func(o *client.Options) { o.CAFile = write("ca", "hello") }, "no PEM certificate", nil},
		{"an empty key", func(o *client.Options) { o.KeyFile = write("key", " \n") }, "holds no key", nil},
		{"key and token", func(o *client.Options) { o.Token = "x" }, "one of", nil},
		{"the CA of another control plane", func(o *client.Options) { o.CAFile = other.caFile }, "has to be the ca.crt", client.ErrUnreachable},
		{"the system's certificates only", func(o *client.Options) { o.CAFile = "" }, "name the ca.crt", client.ErrUnreachable},
		{"nobody there", func(o *client.Options) { o.URL = "https://127.0.0.1:1" }, "refused", client.ErrUnreachable},
		{"no HTTPS there", func(o *client.Options) { o.URL = "https://" + f.redis.Addr() }, "unreachable", client.ErrUnreachable},
		{"a wrong key", func(o *client.Options) { o.KeyFile = write("wrong", strings.Repeat("k", 40)) }, "", client.ErrDenied},
		{"no key", func(o *client.Options) { o.KeyFile = "" }, "Authentication required", client.ErrDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := f.plane.options()
			tt.mutate(&o)
			c, err := client.Dial(o)
			if err == nil {
				defer func() { _ = c.Close() }()
				_, err = c.Queues(limited(t))
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || tt.kind != nil && !errors.Is(err, tt.kind) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestWhatOneWayCannotDo(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	ctx := limited(t)
	redis, https := f.connect(t), f.dial(t)
	for _, tt := range []struct {
		name string
		do   func() error
	}{
		{"artifact on Redis", func() error { _, err := redis.Artifact(ctx, strings.Repeat("0", 64)); return err }},
		{"scan without a monitor", func() error { _, err := redis.FailoverScan(ctx); return err }},
		{"JSON on Redis", func() error { _, err := redis.SubmitJSON(ctx, nil); return err }},
		{"monitor over HTTPS", func() error { _, err := https.StartMonitor(ctx, client.MonitorOptions{}); return err }},
	} {
		if err := tt.do(); !errors.Is(err, client.ErrUnsupported) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, err := redis.StartMonitor(ctx, client.MonitorOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := redis.StartMonitor(ctx, client.MonitorOptions{}); err == nil {
		t.Error("a second monitor was started")
	}
	if _, err := client.Connect(ctx, client.RedisOptions{URL: "redis://127.0.0.1:1"}); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("connect to nobody: %v", err)
	}
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	c := f.dial(t)
	ctx := limited(t)
	content := []byte("this is no speech")
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	inline := base64.StdEncoding.EncodeToString(content)
	document := func(name, digest, inline string) json.RawMessage {
		b, err := json.Marshal(map[string]any{"artifacts": []client.Artifact{{Name: name, SHA256: digest, InlineBase64: inline}}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if _, err := c.Artifact(ctx, digest); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("an artifact that is not there: %v", err)
	}
	if _, err := c.Artifact(ctx, "../../etc/passwd"); err == nil {
		t.Error("a path is taken for a digest")
	}

	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "there.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, want string }{
		{"plain.txt", "plain.txt"},
		{"plain.txt", "plain.txt"}, // the same content: the same file
		{"there.txt", "there-2.txt"},
		{"link.txt", "link-2.txt"},
		{"../escape.txt", "artifact-" + digest[:12]},
		{".bashrc", "artifact-" + digest[:12]},
		{"a/b", "artifact-" + digest[:12]},
	} {
		saved, err := c.SaveArtifacts(ctx, document(tt.name, digest, inline), dir, false)
		if err != nil || len(saved) != 1 || saved[0].Path != filepath.Join(dir, tt.want) {
			t.Errorf("%s: saved as %+v, %v", tt.name, saved, err)
			continue
		}
		if got, err := os.ReadFile(saved[0].Path); err != nil || string(got) != string(content) {
			t.Errorf("%s: content %q, %v", tt.name, got, err)
		}
	}
	if _, err := c.SaveArtifacts(ctx, document("bad.txt", strings.Repeat("0", 64), inline), dir, false); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged content: %v", err)
	}
	for path, want := range map[string]string{outside: "mine", filepath.Join(dir, "there.txt"): "mine"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s was changed: %q, %v", path, got, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".part") || e.Name() == "bad.txt" {
			t.Errorf("left behind: %s", e.Name())
		}
	}
	if _, err := c.SaveArtifacts(ctx, document("gone.txt", digest, ""), dir, false); !errors.Is(err, queue.ErrNotFound) || !strings.Contains(err.Error(), "set control.url") {
		t.Errorf("an artifact that has gone: %v", err)
	}
	if saved, err := c.SaveArtifacts(ctx, json.RawMessage(`"a foreign worker's word"`), dir, false); err != nil || saved != nil {
		t.Errorf("a document without artifacts: %v, %v", saved, err)
	}
}
