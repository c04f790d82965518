package dev

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestTheAgentGetsNothingOfTheRealFleet(t *testing.T) {
	t.Parallel()
	got := agentEnvironment([]string{
		"PATH=/bin", "HOME=/root", "AUTOBOT_REDIS_URL=redis://real", "AUTOBOT_CONTROL_URL=https://real", "REDIS_PASSWORD=x", "NOTIFY_SOCKET=/x",
		"AUTOBOT_ENGINES_DIR=/engines", "AUTOBOT_EXECUTORS_EXEC_DIR=/scripts", "AUTOBOT_EXECUTORS_DIRS=/x", "AUTOBOT_STATE_DIR=/x",
	})
	want := []string{"PATH=/bin", "HOME=/root", "AUTOBOT_ENGINES_DIR=/engines", "AUTOBOT_EXECUTORS_EXEC_DIR=/scripts"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestQuoting(t *testing.T) {
	t.Parallel()
	if got := redisConf(`/a "b"\c`, "/s"); !strings.Contains(got, `dir "/a \"b\"\\c"`) {
		t.Errorf("redis.conf:\n%s", got)
	}
	for text, want := range map[string]string{"/a/b.sock": "/a/b.sock", "/a b": "'/a b'", "it's": `'it'\''s'`} {
		if got := shellWord(text); got != want {
			t.Errorf("shellWord(%q) = %s, want %s", text, got, want)
		}
	}
	if got := escapePath("/a b/é%"); got != "/a%20b/%C3%A9%25" {
		t.Errorf("escapePath: %s", got)
	}
}

func TestEveryDemoTaskIsValid(t *testing.T) {
	t.Parallel()
	page, err := startSite()
	if err != nil {
		t.Fatal(err)
	}
	defer page.stop()
	f := &fleet{site: page}
	for name, tasks := range demoTasks {
		for _, task := range tasks {
			task.picture = "" // its upload needs a control plane
			s, err := f.submission(t.Context(), nil, task)
			if err == nil {
				err = s.Validate()
			}
			if err != nil || strings.Contains(string(s.Payload), "{site}") {
				t.Errorf("%s %s: %s, %v", name, task.name, s.Payload, err)
			}
			if task.name == "" || task.about == "" || task.tell(map[string]any{}) == "" {
				t.Errorf("%s %s says nothing about itself", name, task.name)
			}
		}
	}
}

func TestThePageShowsTheFleet(t *testing.T) {
	t.Parallel()
	page, err := startSite()
	if err != nil {
		t.Fatal(err)
	}
	defer page.stop()
	get := func() (int, string) {
		t.Helper()
		w := httptest.NewRecorder()
		page.server.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, page.url(), http.NoBody))
		return w.Code, w.Body.String()
	}
	if code, _ := get(); code != http.StatusServiceUnavailable {
		t.Errorf("before the fleet is up: %d", code)
	}
	if err := page.show(agentStatus{WorkerID: "<vm-1>", Executors: []executorStatus{{Name: "tts", State: "ready"}, {Name: "exec"}}}); err != nil {
		t.Fatal(err)
	}
	code, body := get()
	for _, want := range []string{"AutoBot Fleet", "&lt;vm-1&gt;", "tts", ">ready<", ">not ready<"} {
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%q is missing: %d\n%s", want, code, body)
		}
	}
}
