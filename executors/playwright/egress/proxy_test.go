package egress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestLanePassesOnHeadersOfTheEndsOnly(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		w.Header().Set(HeaderMark, MarkDenied)
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		w.Header().Set("X-End", "1")
	}))
	r := newRig(t, server, newNames(map[string][]string{"site.test": {"8.8.8.8"}}), Limits{})
	req, err := http.NewRequest(http.MethodGet, "http://site.test/a%2Fb?q=%20", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Connection": "X-Mine, Upgrade", "X-Mine": "1", "Upgrade": "websocket", "Proxy-Authorization": "Basic eA==", "Proxy-Connection": "keep-alive",
		"Te": "trailers", "X-End": "1", "Cookie": "a=b",
	} {
		req.Header.Set(name, value)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	got := <-seen
	for _, name := range []string{"X-Mine", "Upgrade", "Proxy-Authorization", "Proxy-Connection", "Te", "X-Forwarded-For", "Via", "Forwarded"} {
		if value := got.Header.Get(name); value != "" {
			t.Errorf("the server got %s: %s", name, value)
		}
	}
	if got.Header.Get("X-End") != "1" || got.Header.Get("Cookie") != "a=b" || got.Host != "site.test" || got.RequestURI != "/a%2Fb?q=%20" {
		t.Errorf("the server got %s %s %v", got.Host, got.RequestURI, got.Header)
	}
	if resp.Header.Get(HeaderMark) != "" || resp.Header.Get("X-Hop") != "" || resp.Header.Get("X-End") != "1" {
		t.Errorf("the browser got %v", resp.Header)
	}
}

// What no browser sends is refused as a request, and the lane goes on.
func TestLaneRefusesWhatIsNoProxyRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t, hello("hi"), newNames(map[string][]string{"site.test": {"8.8.8.8"}}), Limits{})
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n":                                                "400",
		"GET https://site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n":                               "400",
		"GET ftp://site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n":                                 "400",
		"GET http://u:p@site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n":                            "400",
		"GET http://127.0.0.1/ HTTP/1.1\r\nHost: site.test\r\n\r\n":                                "403",
		"CONNECT site.test HTTP/1.1\r\nHost: site.test\r\n\r\n":                                    "400",
		"CONNECT /a HTTP/1.1\r\nHost: site.test:443\r\n\r\n":                                       "400",
		"CONNECT 0x7f.1:443 HTTP/1.1\r\nHost: site.test:443\r\n\r\n":                               "403",
		"CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: site.test:443\r\n\r\n":                            "403",
		"CONNECT a@site.test:443 HTTP/1.1\r\nHost: site.test:443\r\n\r\n":                          "403",
		"\x16\x03\x01 not HTTP\r\n\r\n":                                                            "400",
		"GET http://site.test/ HTTP/1.1\r\nHost: a\r\nX: " + pad(80<<10) + "\r\n\r\n":              "431",
		"GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: x\r\n\r\n":        "501",
		"GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n":           "200",
		"GET http://site.test:080/ HTTP/1.1\r\nHost: site.test\r\n\r\n":                            "403",
		"CONNECT site.test:443 HTTP/1.0\r\nContent-Length: 3\r\nConnection: close\r\n\r\nGET / \r": "200",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.lane.URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(conn, request)
		line, err := bufio.NewReader(conn).ReadString('\n')
		conn.Close()
		if _, rest, _ := strings.Cut(line, " "); !strings.HasPrefix(rest, want) {
			t.Errorf("%q: %q (%v), want %s", clip(request), line, err, want)
		}
	}
}

func TestTunnelKeepsTheAnswerAfterAHalfClose(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	defer work.Wait()
	defer listener.Close()
	work.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		got, _ := io.ReadAll(conn) // until the client has ended
		_, _ = fmt.Fprintf(conn, "%d bytes", len(got))
	})
	lane, err := New(Policy{}, Options{Dialer: &detour{to: listener.Addr().String()}}).Open(context.Background(), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer lane.Close()
	conn, err := net.Dial("tcp", strings.TrimPrefix(lane.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(conn, "CONNECT 8.8.8.8:443 HTTP/1.1\r\nHost: 8.8.8.8:443\r\n\r\nhello")
	reader := bufio.NewReader(conn)
	if line, err := reader.ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(reader)
	if err != nil || string(answer) != "\r\n5 bytes" {
		t.Errorf("%q, %v", answer, err)
	}
}
