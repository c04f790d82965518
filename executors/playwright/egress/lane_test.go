package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// names is a resolver: each lookup of a name takes its next answer, and the
// last one stays.
type names struct {
	mu      sync.Mutex
	answers map[string][]string // "8.8.8.8 127.0.0.1" is one answer
	lookups map[string]int
}

func newNames(answers map[string][]string) *names {
	return &names{answers: answers, lookups: make(map[string]int)}
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.answers[host]
	if len(list) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var addrs []netip.Addr
	for _, text := range strings.Fields(list[min(n.lookups[host], len(list)-1)]) {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	n.lookups[host]++
	return addrs, nil
}

// detour dials a test server in place of public addresses, and notes what it
// was asked for.
type detour struct {
	to string

	mu      sync.Mutex
	dialled []string
}

func (d *detour) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d.mu.Lock()
	d.dialled = append(d.dialled, address)
	d.mu.Unlock()
	if strings.HasPrefix(address, "9.9.9.9:") {
		return nil, errors.New("nobody is there")
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, d.to)
}

func (d *detour) all() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.dialled, " ")
}

type rig struct {
	lane   *Lane
	dialer *detour
	client *http.Client
}

func newRig(t *testing.T, server *httptest.Server, n *names, limits Limits) *rig {
	t.Helper()
	t.Cleanup(server.Close)
	d := &detour{to: server.Listener.Addr().String()}
	g := New(Policy{}, Options{Resolver: n, Dialer: d})
	lane, err := g.Open(context.Background(), limits)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := url.Parse(lane.URL())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{
		Proxy: http.ProxyURL(proxy), DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := lane.Close(); err != nil {
			t.Error(err)
		}
	})
	return &rig{lane: lane, dialer: d, client: &http.Client{Transport: transport, Timeout: time.Minute}}
}

// get returns status, mark and body.
func (r *rig) get(t *testing.T, address string) (int, string, string) {
	t.Helper()
	resp, err := r.client.Get(address)
	if err != nil {
		t.Fatalf("%s: %v", address, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", address, err)
	}
	return resp.StatusCode, resp.Header.Get(HeaderMark), string(body)
}

func hello(body string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
}

func TestLaneServesPublicAndDeniesTheRest(t *testing.T) {
	t.Parallel()
	r := newRig(t, hello("hi"), newNames(map[string][]string{
		"site.test": {"8.8.8.8"}, "private.test": {"10.0.0.1"}, "mapped.test": {"::ffff:127.0.0.1"},
		"mixed.test": {"127.0.0.1 8.8.8.8"}, "dead.test": {"9.9.9.9 8.8.4.4"}, "down.test": {"9.9.9.9"},
	}), Limits{})
	for _, tt := range []struct {
		address string
		status  int
		mark    string
	}{
		{"http://site.test/", 200, ""},
		{"http://SITE.test.:8080/", 200, ""},
		{"http://mixed.test/", 200, ""},
		{"http://dead.test/", 200, ""},
		{"http://down.test/", 502, MarkConnect},
		{"http://unknown.test/", 502, MarkDNS},
		{"http://private.test/?token=secret", 403, MarkDenied + "; address"},
		{"http://mapped.test/", 403, MarkDenied + "; address"},
		{"http://127.0.0.1/", 403, MarkDenied + "; address"},
		{"http://127.1/", 403, MarkDenied + "; host"},
		{"http://[::1]/", 403, MarkDenied + "; address"},
		{"http://localhost./", 403, MarkDenied + "; address"},
		{"http://site.test:22/", 403, MarkDenied + "; port"},
		{"http://169.254.169.254/", 403, MarkDenied + "; metadata"},
	} {
		status, mark, _ := r.get(t, tt.address)
		if status != tt.status || mark != tt.mark {
			t.Errorf("%s: %d %q, want %d %q", tt.address, status, mark, tt.status, tt.mark)
		}
	}
	if got, want := r.dialer.all(), "8.8.8.8:80 8.8.8.8:8080 8.8.8.8:80 9.9.9.9:80 8.8.4.4:80 9.9.9.9:80"; got != want {
		t.Errorf("dialled %s, want %s", got, want)
	}
	if n := r.lane.DenialCount(); n != 8 {
		t.Errorf("%d denials, want 8: an unknown name and a dead server are none", n)
	}
	d, ok := r.lane.DenialOf("http://private.test/?other")
	if !ok || d.Rule != RuleAddress || d.Method != "GET" || strings.Contains(fmt.Sprint(d), "secret") {
		t.Errorf("denial of private.test: %v %+v", ok, d)
	}
	if _, ok := r.lane.DenialOf("http://site.test/"); ok {
		t.Error("site.test:80 has a denial")
	}
}

func TestLaneChecksEachLookup(t *testing.T) {
	t.Parallel()
	n := newNames(map[string][]string{"rebind.test": {"8.8.8.8", "127.0.0.1"}})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }))
	r := newRig(t, server, n, Limits{})
	if status, _, _ := r.get(t, "http://rebind.test/"); status != 200 {
		t.Errorf("first: %d", status)
	}
	if status, mark, _ := r.get(t, "http://rebind.test/"); status != 403 {
		t.Errorf("second: %d %s", status, mark)
	}
	if n.lookups["rebind.test"] != 2 || r.dialer.all() != "8.8.8.8:80" {
		t.Errorf("%d lookups, dialled %s", n.lookups["rebind.test"], r.dialer.all())
	}
}

func TestLaneChecksRedirects(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.RedirectHandler("http://127.0.0.1/secret", http.StatusFound))
	r := newRig(t, server, newNames(map[string][]string{"site.test": {"8.8.8.8"}}), Limits{})
	if status, mark, _ := r.get(t, "http://site.test/"); status != 403 || mark != MarkDenied+"; address" {
		t.Errorf("%d %s", status, mark)
	}
}

func TestLaneTunnels(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "over TLS") }))
	r := newRig(t, server, newNames(map[string][]string{"site.test": {"8.8.8.8"}, "private.test": {"10.0.0.1"}}), Limits{})
	if status, _, body := r.get(t, "https://site.test/"); status != 200 || body != "over TLS" {
		t.Errorf("%d %s", status, body)
	}
	for _, address := range []string{"https://private.test/", "https://127.0.0.1/", "https://site.test:22/", "https://[::1]/"} {
		if _, err := r.client.Get(address); err == nil || !strings.Contains(err.Error(), "Forbidden") {
			t.Errorf("%s: %v", address, err)
		}
		if d, ok := r.lane.DenialOf(address); !ok || d.Method != http.MethodConnect {
			t.Errorf("%s: no denial (%+v)", address, d)
		}
	}
	if got := r.dialer.all(); got != "8.8.8.8:443" {
		t.Errorf("dialled %s", got)
	}
}

func TestLaneObeysANarrowedPolicy(t *testing.T) {
	t.Parallel()
	p, err := Policy{}.Narrow([]string{"site.test"})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, hello("hi"), newNames(map[string][]string{"site.test": {"8.8.8.8"}, "other.test": {"8.8.8.8"}}), Limits{Policy: &p})
	if status, _, _ := r.get(t, "http://site.test/"); status != 200 {
		t.Errorf("site.test: %d", status)
	}
	if status, mark, _ := r.get(t, "http://other.test/"); status != 403 || mark != MarkDenied+"; narrowed" {
		t.Errorf("other.test: %d %s", status, mark)
	}
}

// Close cuts tunnels and waiting requests, and so does the end of the task.
func TestLaneEndsWithEverythingInIt(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"close", "context"} {
		arrived, release := make(chan struct{}, 2), make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			select {
			case <-r.Context().Done():
			case <-release:
			}
		}))
		d := &detour{to: server.Listener.Addr().String()}
		ctx, cancel := context.WithCancel(context.Background())
		lane, err := New(Policy{}, Options{Dialer: d, Resolver: newNames(nil)}).Open(ctx, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var failed atomic.Int32
		var work sync.WaitGroup
		for _, request := range []string{
			"GET http://8.8.8.8/ HTTP/1.1\r\nHost: 8.8.8.8\r\n\r\n",
			"CONNECT 8.8.8.8:80 HTTP/1.1\r\nHost: 8.8.8.8:80\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		} {
			conn, err := net.Dial("tcp", strings.TrimPrefix(lane.URL(), "http://"))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, request)
			work.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(io.Discard, conn) // until it is cut
				failed.Add(1)
			})
		}
		<-arrived
		<-arrived
		if end == "context" {
			cancel()
			work.Wait()
		}
		if err := lane.Close(); err != nil {
			t.Error(err)
		}
		work.Wait()
		cancel()
		if _, err := net.Dial("tcp", strings.TrimPrefix(lane.URL(), "http://")); err == nil {
			t.Errorf("%s: the port still answers", end)
		}
		if err := lane.Close(); err != nil {
			t.Error(err)
		}
		close(release)
		server.Close()
	}
}

func BenchmarkLane(b *testing.B) {
	server := hello("hi")
	defer server.Close()
	g := New(Policy{}, Options{Dialer: &detour{to: server.Listener.Addr().String()}})
	for b.Loop() {
		lane, err := g.Open(context.Background(), Limits{})
		if err != nil {
			b.Fatal(err)
		}
		proxy, _ := url.Parse(lane.URL())
		transport := &http.Transport{Proxy: http.ProxyURL(proxy)}
		resp, err := (&http.Client{Transport: transport}).Get("http://8.8.8.8/")
		if err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
		transport.CloseIdleConnections()
		_ = lane.Close()
	}
}
