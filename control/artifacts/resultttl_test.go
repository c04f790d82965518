package artifacts

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/apiwire"
)

// keep stores a file whose result lives for resultTTL.
func keep(t *testing.T, s *Store, content string, ttl, resultTTL time.Duration) string {
	t.Helper()
	sha := sum([]byte(content))
	u := Upload{SHA256: sha, Bytes: int64(len(content)), Body: strings.NewReader(content), TTL: ttl, ResultTTL: resultTTL}
	if _, _, err := s.Store(u); err != nil {
		t.Fatal(err)
	}
	return sha
}

func TestNoFileGoesBeforeItsResult(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tt := range []struct{ store, ttl, result, want time.Duration }{
		{time.Hour, 0, 2 * day, 2 * day},
		{day, time.Minute, 2 * day, 2 * day},
		{day, 0, 30 * day, 30 * day},
		{day, 0, time.Minute, day},
		{day, 0, 2 * MaxResultTTL, MaxResultTTL},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			t.Parallel()
			c := newClock()
			s := openStore(t, Config{TTL: tt.store}, c)
			sha := keep(t, s, "content", tt.ttl, tt.result)
			c.pass(tt.want - time.Second)
			s.Sweep()
			if !has(s, sha) {
				t.Error("gone too early")
			}
			c.pass(time.Second)
			if has(s, sha) {
				t.Error("kept for longer than asked")
			}
		})
	}
}

func TestAFullStoreKeepsWhatResultsName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newClock()
	s := openStore(t, Config{Dir: dir, QuotaBytes: 20}, c)
	long := keep(t, s, "aaaaaaaaaa", 0, 5*time.Hour)
	again := keep(t, s, "bbbbbbbbbb", 0, time.Minute)
	c.pass(2 * time.Hour)
	keep(t, s, "bbbbbbbbbb", 0, time.Hour) // a second result names it
	refused := func() bool {
		_, _, err := s.Store(Upload{SHA256: sum([]byte("cccccccccc")), Bytes: 10, Body: strings.NewReader("cccccccccc")})
		return status(err) == http.StatusInsufficientStorage
	}
	if !refused() {
		t.Error("a file that a result names had to go")
	}
	s = openStore(t, Config{Dir: dir, QuotaBytes: 20}, c) // promises outlive a restart
	if !refused() {
		t.Error("after a restart a file that a result names had to go")
	}
	c.pass(2 * time.Hour)
	if refused() || has(s, again) || !has(s, long) {
		t.Error("the file without a result had to make room, and only that")
	}
}

func TestTheResultTTLComesOverHTTP(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{TTL: time.Hour}, nil)
	base := serve(t, s)
	content := []byte("content")
	sha := sum(content)
	if res, body := do(t, "PUT", base+sha+"?ttl_s=60&result_ttl_s=1209600", bytes.NewReader(content), nil); res.StatusCode != 200 {
		t.Fatalf("%s %s", res.Status, body)
	}
	res, _ := do(t, "HEAD", base+sha, nil, nil)
	for _, header := range []string{"Expires", apiwire.HeaderPromised} {
		at, err := http.ParseTime(res.Header.Get(header))
		if left := time.Until(at); err != nil || left < 13*24*time.Hour || left > 15*24*time.Hour {
			t.Errorf("%s: %q, %v; want two weeks", header, res.Header.Get(header), err)
		}
	}
	if res, body := do(t, "PUT", base+sha+"?result_ttl_s=1h", bytes.NewReader(content), nil); res.StatusCode != 400 || !strings.Contains(body, "result_ttl_s") {
		t.Errorf("%s %s", res.Status, body)
	}
}
