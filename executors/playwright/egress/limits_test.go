package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// A cut answer must be an error for the client, whichever way the server says
// how long it is. A proxy that just returns ends a chunked answer in order.
func TestLaneCutsAtTheByteBudget(t *testing.T) {
	t.Parallel()
	const size, budget = 1 << 20, 256 << 10
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", fmt.Sprint(size))
		}
		for range size / 1024 {
			_, _ = w.Write(make([]byte, 1024))
		}
	})
	for _, tls := range []bool{false, true} {
		for _, path := range []string{"/length", "/chunked"} {
			server, scheme := httptest.NewServer, "http"
			if tls {
				server, scheme = httptest.NewTLSServer, "https"
			}
			r := newRig(t, server(handler), newNames(map[string][]string{"site.test": {"8.8.8.8"}}), Limits{MaxBytes: budget})
			resp, err := r.client.Get(scheme + "://site.test" + path)
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if err == nil {
				t.Errorf("%s %s: %d bytes look like the whole answer", scheme, path, n)
			}
			if n > budget || !r.lane.Exceeded() || r.lane.Bytes() <= budget {
				t.Errorf("%s %s: %d bytes passed, %d counted, exceeded %v", scheme, path, n, r.lane.Bytes(), r.lane.Exceeded())
			}
			if status, mark, _ := r.get(t, "http://site.test/again"); status != 429 || mark != MarkDenied+"; bytes" {
				t.Errorf("afterwards: %d %s", status, mark)
			}
		}
	}
}

func TestLaneCountsWhatIsSent(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	r := newRig(t, server, newNames(map[string][]string{"site.test": {"8.8.8.8"}}), Limits{MaxBytes: 64 << 10})
	resp, err := r.client.Post("http://site.test/", "text/plain", strings.NewReader(strings.Repeat("a", 1<<20)))
	if err == nil {
		resp.Body.Close()
	}
	if !r.lane.Exceeded() || err == nil && resp.StatusCode == 200 {
		t.Errorf("exceeded %v, %v, %v", r.lane.Exceeded(), resp, err)
	}
}

func TestLaneLimitsRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, hello("hi"), newNames(map[string][]string{"site.test": {"8.8.8.8"}}), Limits{MaxRequests: 2})
	for i, want := range []int{200, 200, 429, 429} {
		if status, _, _ := r.get(t, "http://site.test/"); status != want {
			t.Errorf("request %d: %d, want %d", i, status, want)
		}
	}
	if !r.lane.Exceeded() || r.lane.Requests() != 4 {
		t.Errorf("exceeded %v, %d requests", r.lane.Exceeded(), r.lane.Requests())
	}
}

// A page cannot hold more connections to its lane than that.
func TestLaneLimitsConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t, hello("hi"), newNames(nil), Limits{})
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for range maxConns + 1 {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.lane.URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	last := conns[maxConns]
	_ = last.SetReadDeadline(time.Now().Add(10 * time.Second)) // shorter than the limit on headers
	if _, err := last.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one connection too many: %v", err)
	}
}

func TestLaneKeepsOnlySoManyDenials(t *testing.T) {
	t.Parallel()
	r := newRig(t, hello("hi"), newNames(nil), Limits{})
	for range maxDenials + 5 {
		r.lane.refuse(deny("a.test", 80, RuleAddress, "no"), "GET", "")
	}
	if len(r.lane.Denials()) != maxDenials || r.lane.DenialCount() != maxDenials+5 {
		t.Errorf("%d kept, %d counted", len(r.lane.Denials()), r.lane.DenialCount())
	}
}
