package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// HeaderMark is on every answer that the proxy itself gives. Its value says
// why, see the Mark constants. Servers cannot forge it on plain http: it is
// taken off their answers. Lane.Denials is the authority all the same.
const HeaderMark = "X-Autobot-Egress"

// Values of HeaderMark. That of a denial is MarkDenied, "; " and the rule.
const (
	MarkDenied  = "denied"  // 403, or 429 for a spent budget: see Lane.Denials
	MarkDNS     = "dns"     // 502: the name does not resolve
	MarkConnect = "connect" // 502: the server does not accept or answer
	MarkBad     = "bad"     // 400: not a request to a forward proxy
)

// hopByHop are the headers that concern one connection only (RFC 9110 7.6.1).
// Upgrade is among them: browsers open WebSockets through a tunnel.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// serve answers one request of the browser.
func (l *Lane) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		l.connect(w, r)
		return
	}
	l.forward(w, r)
}

// connect serves a tunnel: https, wss, and ws as well.
func (l *Lane) connect(w http.ResponseWriter, r *http.Request) {
	text, port, err := splitTarget(r.RequestURI)
	if err != nil {
		l.reject(w, r, deny(r.RequestURI, 0, RuleProtocol, "%v", err), r.RequestURI)
		return
	}
	host, _, err := parseHost(text)
	if err != nil {
		l.reject(w, r, deny(text, port, RuleHost, "%v", err), "")
		return
	}
	target := net.JoinHostPort(host, itoa(port))
	if d := l.admit(host, port); d != nil {
		l.reject(w, r, d, target)
		return
	}
	server, err := l.dial(r.Context(), "tcp", target)
	if err != nil {
		l.fail(w, r, err, target)
		return
	}
	defer func() { _ = server.Close() }()
	l.work.Add(1) // the server stops counting this goroutine when it is hijacked
	defer l.work.Done()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		answer(w, http.StatusInternalServerError, MarkBad, "the connection cannot become a tunnel")
		return
	}
	defer l.open.Add(-1)
	defer func() { _ = client.Close() }()
	if !l.hold(client) {
		return
	}
	defer l.release(client)
	_ = client.SetDeadline(time.Time{})
	if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	pipe(client, buffered.Reader, server)
}

// pipe copies both ways until one side fails or both have ended.
func pipe(client net.Conn, fromClient *bufio.Reader, server net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := io.Copy(server, fromClient) // what the server read ahead comes first
		finish(server, client, err)
	}()
	_, err := io.Copy(client, server)
	finish(client, server, err)
	<-done
}

// finish ends one direction: by a half-close after a clean end, so that the
// answer to the last word still arrives. After a failure, such as a spent
// budget, it resets both, so that half a file never looks like the whole.
func finish(to, from net.Conn, err error) {
	half, ok := to.(interface{ CloseWrite() error })
	if err == nil && ok && half.CloseWrite() == nil {
		return
	}
	reset(to)
	reset(from)
}

// reset closes a connection with RST where it can.
func reset(c net.Conn) {
	if l, ok := c.(interface{ SetLinger(int) error }); ok {
		_ = l.SetLinger(0)
	}
	_ = c.Close()
}

// forward serves a plain http request.
func (l *Lane) forward(w http.ResponseWriter, r *http.Request) {
	if r.URL.Scheme != "http" || r.URL.Host == "" {
		l.reject(w, r, deny(r.URL.Host, 0, RuleProtocol, "this is a forward proxy for http:// addresses and CONNECT"), loggable(r.URL))
		return
	}
	if len(r.RequestURI) > maxHeader || r.URL.User != nil {
		l.reject(w, r, deny(r.URL.Host, 0, RuleProtocol, "the address holds a user name or is too long"), loggable(r.URL))
		return
	}
	host, port, err := hostPort(r.URL)
	if err != nil {
		l.reject(w, r, deny(r.URL.Hostname(), 0, RuleHost, "%v", err), loggable(r.URL))
		return
	}
	if d := l.admit(host, port); d != nil {
		l.reject(w, r, d, loggable(r.URL))
		return
	}
	resp, err := l.upstream.RoundTrip(outgoing(r))
	if err != nil {
		l.fail(w, r, err, loggable(r.URL))
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		answer(w, http.StatusBadGateway, MarkConnect, "the server switched to another protocol without being asked")
		return
	}
	header := w.Header()
	for name, values := range resp.Header {
		header[name] = values
	}
	strip(header)
	header.Del(HeaderMark)
	w.WriteHeader(resp.StatusCode)
	if err := copyFlushing(w, resp.Body); err != nil {
		// Returning would end a chunked answer in good order, and the browser
		// would take half a file for the whole.
		panic(http.ErrAbortHandler)
	}
}

// outgoing is the request as the server gets it.
func outgoing(r *http.Request) *http.Request {
	out := r.Clone(r.Context())
	out.RequestURI = ""
	out.Close = false
	strip(out.Header)
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // send none rather than Go's
	}
	if r.ContentLength == 0 {
		out.Body = nil // else the transport sends an empty chunked body
	}
	return out
}

// strip drops the headers of one hop, also those that Connection names.
func strip(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
}

// copyFlushing passes on what arrives as it arrives: an event stream must not
// wait for a full buffer.
func copyFlushing(w http.ResponseWriter, body io.Reader) error {
	control := http.NewResponseController(w)
	buffer := make([]byte, 32<<10)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return err
			}
			if err := control.Flush(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// fail answers a request that found no server: refused, unknown or silent.
func (l *Lane) fail(w http.ResponseWriter, r *http.Request, err error, address string) {
	if d := asDenial(err); d != nil {
		l.reject(w, r, d, address)
		return
	}
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.Canceled):
		panic(http.ErrAbortHandler) // the browser or the lane has gone
	case errors.As(err, &dns):
		answer(w, http.StatusBadGateway, MarkDNS, fmt.Sprintf("the name %s cannot be resolved: %s", clip(dns.Name), dns.Err))
	default:
		answer(w, http.StatusBadGateway, MarkConnect, "the server cannot be reached: "+err.Error())
	}
}

// reject logs a denial and answers with it.
func (l *Lane) reject(w http.ResponseWriter, r *http.Request, d *Denial, address string) {
	l.refuse(d, r.Method, address)
	switch d.Rule {
	case RuleProtocol:
		answer(w, http.StatusBadRequest, MarkBad+"; "+string(d.Rule), d.Reason)
	case RuleBytes, RuleRequests:
		answer(w, http.StatusTooManyRequests, MarkDenied+"; "+string(d.Rule), d.Reason)
	default:
		answer(w, http.StatusForbidden, MarkDenied+"; "+string(d.Rule), d.Reason)
	}
}

// answer is the proxy's own reply. Nothing in it may run as a page of the
// origin that was asked for.
func answer(w http.ResponseWriter, status int, mark, text string) {
	h := w.Header()
	h.Set(HeaderMark, mark)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") //nolint:gosec // plain text that no browser sniffs, see the headers above
}
