package artifacts

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autobot-fleet/autobot/internal/apiwire"
)

func TestUploadAndDownload(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{}, nil)
	base := serve(t, s)
	content := bytes.Repeat([]byte("wave "), 40_000)
	sha := sum(content)

	for range 2 { // the second time changes nothing
		res, body := do(t, "PUT", base+sha+"?name=speech.wav&kind=audio&media_type=audio%2Fwav&ttl_s=7200", bytes.NewReader(content), map[string]string{"Content-Type": "application/octet-stream"})
		var reply apiwire.ArtifactReply
		if err := json.Unmarshal([]byte(body), &reply); err != nil || res.StatusCode != 200 {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
		want := apiwire.ArtifactReply{SHA256: sha, Bytes: int64(len(content)), Name: "speech.wav", Kind: "audio", MediaType: "audio/wav", URL: "/api/artifacts/" + sha, ExpiresAt: reply.ExpiresAt}
		if d := cmp.Diff(want, reply); d != "" {
			t.Error(d)
		}
		if left := time.Until(reply.ExpiresAt); left > 2*time.Hour || left < time.Hour {
			t.Errorf("expires in %v, want two hours", left)
		}
	}
	if n, used := s.Usage(); n != 1 || used != int64(len(content)) {
		t.Errorf("the store counts %d files, %d bytes", n, used)
	}

	res, body := do(t, "GET", base+sha, nil, nil)
	if res.StatusCode != 200 || body != string(content) {
		t.Fatalf("%d, %d bytes", res.StatusCode, len(body))
	}
	for name, want := range map[string]string{
		"Content-Type": "audio/wav", "Content-Disposition": "attachment; filename=speech.wav",
		"X-Content-Type-Options": "nosniff", "ETag": `"` + sha + `"`,
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if e, err := http.ParseTime(res.Header.Get("Expires")); err != nil || time.Until(e) < time.Hour {
		t.Errorf("Expires: %v, %v", e, err)
	}
	if cc := res.Header.Get("Cache-Control"); !strings.HasPrefix(cc, "private, max-age=") || !strings.HasSuffix(cc, "immutable") {
		t.Errorf("Cache-Control: %q", cc)
	}
	if res, body := do(t, "GET", base+sha, nil, map[string]string{"Range": "bytes=5-8"}); res.StatusCode != 206 || body != "wave" {
		t.Errorf("range: %d %q", res.StatusCode, body)
	}
	if res, _ := do(t, "GET", base+sha, nil, map[string]string{"Range": "bytes=9999999-"}); res.StatusCode != 416 {
		t.Errorf("range beyond the end: %d", res.StatusCode)
	}
	if res, _ := do(t, "GET", base+sha, nil, map[string]string{"If-None-Match": `"` + sha + `"`}); res.StatusCode != 304 {
		t.Errorf("condition: %d", res.StatusCode)
	}
	if res, body := do(t, "HEAD", base+sha, nil, nil); res.StatusCode != 200 || body != "" || res.ContentLength != int64(len(content)) {
		t.Errorf("HEAD: %d %q %d", res.StatusCode, body, res.ContentLength)
	}
	if res, _ := do(t, "GET", base+sha+"?name=other.wav", nil, nil); res.Header.Get("Content-Disposition") != "attachment; filename=other.wav" {
		t.Errorf("another name: %q", res.Header.Get("Content-Disposition"))
	}
}

func TestUploadsThatAreRefused(t *testing.T) {
	t.Parallel()
	content := []byte("content")
	sha := sum(content)
	for _, tt := range []struct {
		name, path string
		body       io.Reader
		status     int
		want       string
	}{
		{"another digest", sum([]byte("x")), bytes.NewReader(content), 400, "the SHA-256 of the body is " + sha},
		{"a digest in capitals", strings.ToUpper(sha), bytes.NewReader(content), 400, "64 lower-case hex"},
		{"a short digest", sha[1:], bytes.NewReader(content), 400, "64 lower-case hex"},
		{"a path", "..%2f..%2fetc%2fpasswd", bytes.NewReader(content), 400, "64 lower-case hex"},
		{"a path as name", sha + "?name=..%2fx", bytes.NewReader(content), 400, "name:"},
		{"dots as name", sha + "?name=..", bytes.NewReader(content), 400, "name:"},
		{"a header in the name", sha + "?name=a%0d%0aX:1", bytes.NewReader(content), 400, "name:"},
		{"a lifetime in words", sha + "?ttl_s=1h", bytes.NewReader(content), 400, "ttl_s"},
		{"an unknown kind", sha + "?kind=film", bytes.NewReader(content), 400, "kind:"},
		{"no length", sha, struct{ io.Reader }{bytes.NewReader(content)}, 411, "Content-Length"},
		{"a large file", sum(make([]byte, 2000)), bytes.NewReader(make([]byte, 2000)), 413, "limit is 1000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t, Config{MaxBytes: 1000}, nil)
			res, body := do(t, "PUT", serve(t, s)+tt.path, tt.body, nil)
			if res.StatusCode != tt.status || !strings.Contains(body, tt.want) {
				t.Errorf("%d %s", res.StatusCode, body)
			}
			assertEmpty(t, s)
		})
	}
}

func assertEmpty(t *testing.T, s *Store) {
	t.Helper()
	if n, used := s.Usage(); n != 0 || used != 0 || s.reserved != 0 {
		t.Errorf("the store counts %d files, %d bytes, %d reserved", n, used, s.reserved)
	}
	err := filepath.WalkDir(s.cfg.Dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

type brokenReader struct{ io.Reader }

func (b brokenReader) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	return 0, io.ErrUnexpectedEOF
}

func TestBrokenUploadsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{}, nil)
	sha := sum([]byte("content"))
	for name, body := range map[string]io.Reader{
		"a connection that breaks": brokenReader{strings.NewReader("cont")},
		"a body that is short":     strings.NewReader("cont"),
		"a body that is long":      strings.NewReader("content and more"),
	} {
		_, _, err := s.Store(Upload{SHA256: sha, Bytes: 7, Body: body})
		if status(err) != 400 {
			t.Errorf("%s: %v", name, err)
		}
		assertEmpty(t, s)
	}
}

func TestReadsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{}, nil)
	base := serve(t, s)
	for path, want := range map[string]int{
		sum([]byte("nothing")):          404,
		"..%2f..%2f..%2fetc%2fpasswd":   400,
		"%2e%2e":                        400,
		strings.Repeat("A", 64):         400,
		sum(nil) + ".json":              400,
		sum(nil)[:2] + "%2f" + sum(nil): 400,
	} {
		if res, body := do(t, "GET", base+path, nil, nil); res.StatusCode != want {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
}

func TestSameFileFromManySides(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{}, nil)
	content := strings.Repeat("x", 100_000)
	sha := sum([]byte(content))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, _, err := s.Store(Upload{SHA256: sha, Bytes: int64(len(content)), Body: strings.NewReader(content)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n, used := s.Usage(); n != 1 || used != int64(len(content)) || s.reserved != 0 {
		t.Errorf("%d files, %d bytes, %d reserved", n, used, s.reserved)
	}
}

func TestMediaTypesAndNames(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": defaultMediaType, "nonsense": defaultMediaType, "text/html; charset=UTF-8": "text/html; charset=UTF-8",
		"a/b\r\nX: y": defaultMediaType, strings.Repeat("a", 300) + "/b": defaultMediaType,
	} {
		if got := cleanMediaType(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	if got := defaultName(strings.Repeat("ab", 32), "audio/wav"); got != "artifact-abababababab.wav" {
		t.Errorf("got %q", got)
	}
}

// lateReader gives its bytes only when the gate opens.
type lateReader struct {
	io.Reader
	gate <-chan time.Time
}

func (l lateReader) Read(p []byte) (int, error) {
	<-l.gate
	return l.Reader.Read(p)
}

func TestLongUploadsOutliveTheServersTimeouts(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{}, nil)
	base := serve(t, s, func(srv *http.Server) { srv.ReadTimeout, srv.WriteTimeout = time.Second, time.Second })
	content := "long in coming"
	gate := make(chan time.Time)
	time.AfterFunc(2*time.Second, func() { close(gate) })
	req, err := http.NewRequestWithContext(t.Context(), "PUT", base+sum([]byte(content)), lateReader{strings.NewReader(content), gate})
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = int64(len(content))
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("answered %d", res.StatusCode)
	}
}
