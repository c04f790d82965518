package spool

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// commit keeps content as name and returns its record.
func commit(t *testing.T, s *Spool, name, content string, ttl time.Duration) Record {
	t.Helper()
	put(t, prepare(t, s, name), name, []byte(content))
	records, err := s.Commit(t.Context(), name, 1, []executors.Artifact{{Name: name, MediaType: "text/html"}}, CommitOptions{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return records[0]
}

func request(s *Spool, method, path string, header map[string]string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w.Result()
}

func TestHandler(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	rec := commit(t, s, "page.html", "0123456789", time.Hour)
	for _, tt := range []struct {
		name, method, path string
		header             map[string]string
		status             int
		body               string
	}{
		{"GET answers the content", "GET", rec.URL, nil, 200, "0123456789"},
		{"HEAD answers no content", "HEAD", rec.URL, nil, 200, ""},
		{"a range is honoured", "GET", rec.URL, map[string]string{"Range": "bytes=2-4"}, 206, "234"},
		{"a suffix range is honoured", "GET", rec.URL, map[string]string{"Range": "bytes=-3"}, 206, "789"},
		{"a range beyond the end is refused", "GET", rec.URL, map[string]string{"Range": "bytes=100-"}, 416, "invalid range"},
		{"what the caller has is not sent again", "GET", rec.URL, map[string]string{"If-None-Match": `"` + rec.SHA256 + `"`}, 304, ""},
		{"PUT is refused", "PUT", rec.URL, nil, 405, "GET or HEAD"},
		{"an unknown digest is not found", "GET", "/api/artifacts/" + strings.Repeat("0", 64), nil, 404, "no artifact"},
		{"what is no digest is refused", "GET", "/api/artifacts/..%2f..%2fetc", nil, 400, "SHA-256"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp := request(s, tt.method, tt.path, tt.header)
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != tt.status || !strings.Contains(string(body), tt.body) || (tt.body == "" && len(body) > 0) {
				t.Fatalf("got %d %q, want %d %q", resp.StatusCode, body, tt.status, tt.body)
			}
			if tt.status/100 == 2 {
				h := resp.Header
				if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("ETag") != `"`+rec.SHA256+`"` ||
					h.Get("Content-Disposition") != `attachment; filename=page.html` || h.Get("Content-Type") != "text/html" {
					t.Errorf("headers = %v", h)
				}
			}
		})
	}
}

func TestSweepRemovesExpiredThenLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	old := commit(t, s, "old", strings.Repeat("a", 10), time.Minute)
	idle := commit(t, s, "idle", strings.Repeat("b", 10), time.Hour)
	used := commit(t, s, "used", strings.Repeat("c", 10), time.Hour)
	fresh := commit(t, s, "fresh", strings.Repeat("d", 10), time.Hour)
	past := time.Now().Add(-time.Hour)
	for _, r := range []Record{idle, used} {
		if err := os.Chtimes(s.store.path(r.SHA256)+".json", past, past); err != nil {
			t.Fatal(err)
		}
	}
	if resp := request(s, "GET", used.URL, nil); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	s.store.quota = 25
	removed, err := s.store.sweep(time.Now().Add(2 * time.Minute))
	if err != nil || removed != 2 {
		t.Fatalf("removed %d, %v; want 2", removed, err)
	}
	for r, want := range map[*Record]int{&old: 404, &idle: 404, &used: 200, &fresh: 200} {
		if resp := request(s, "GET", r.URL, nil); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", r.Name, resp.Status, want)
		}
	}
}

func TestTheSameContentIsKeptOnceAndForTheLongerTime(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	long := commit(t, s, "a", "same", 2*time.Hour)
	short := commit(t, s, "b", "same", time.Hour)
	if short.SHA256 != long.SHA256 || short.ExpiresAt.Before(long.ExpiresAt) {
		t.Errorf("first %+v, then %+v", long, short)
	}
	if items, _ := s.store.list(); len(items) != 1 {
		t.Errorf("kept %d times", len(items))
	}
}

func TestExpiredContentIsGone(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	rec := commit(t, s, "a", "x", time.Hour)
	meta, err := s.store.read(rec.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	meta.Expires = time.Now().Add(-time.Second)
	if err := s.store.write(rec.SHA256, meta); err != nil {
		t.Fatal(err)
	}
	if resp := request(s, "GET", rec.URL, nil); resp.StatusCode != 410 {
		t.Errorf("got %s, want 410", resp.Status)
	}
}

func TestSweepRemovesHalvesThatACrashLeft(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	content := commit(t, s, "a", "x", 48*time.Hour)
	meta := commit(t, s, "b", "y", 48*time.Hour)
	if err := os.Remove(s.store.path(content.SHA256) + ".json"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.store.path(meta.SHA256)); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Sweep(); n != 0 || err != nil {
		t.Errorf("removed %d at once (%v): a commit may be under way", n, err)
	}
	if n, err := s.store.sweep(time.Now().Add(2 * time.Hour)); n != 2 || err != nil {
		t.Errorf("removed %d after two hours, %v; want 2", n, err)
	}
}
