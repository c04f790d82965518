package probes

import (
	"context"
	"crypto/tls"
	"fmt"
	"html"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// secret is what no page may learn.
const secret = "SECRET-OF-THE-INNER-NETWORK"

// names answers for the test's zone, as its name server and as the resolver
// of the guard.
type names struct {
	mu     sync.Mutex
	rebind map[string]int // lookups of names that change their address
}

// lookup knows
//
//	site.test                 the public site
//	priv, meta, six, mapped   an address of that kind
//	p17.loop.test             127.1.0.17
//	p17.rebind.test           first the site, then 127.1.0.17
func (n *names) lookup(host string) []netip.Addr {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	fixed := map[string]string{
		"site.test": siteAddr, "priv.test": privAddr, "meta.test": metaAddr, "loop.test": "127.0.0.1",
		"six.test": "::1", "mapped.test": "::ffff:127.0.0.1",
	}
	if addr, ok := fixed[host]; ok {
		return []netip.Addr{netip.MustParseAddr(addr)}
	}
	var id byte
	var kind string
	if _, err := fmt.Sscanf(strings.ReplaceAll(host, ".", " "), "p%d %s test", &id, &kind); err != nil {
		return nil
	}
	switch kind {
	case "loop":
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 1, 0, id})}
	case "rebind":
		n.mu.Lock()
		defer n.mu.Unlock()
		n.rebind[host]++
		if n.rebind[host] == 1 {
			return []netip.Addr{netip.MustParseAddr(siteAddr)}
		}
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 1, 0, id})}
	}
	return nil
}

// LookupNetIP makes names the guard's resolver, which sends no packets.
func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	addrs := n.lookup(host)
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return addrs, nil
}

// forget makes rebinding names begin anew.
func (n *names) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rebind = make(map[string]int)
}

// serveNames is a small name server.
func serveNames(t *testing.T, n *names) {
	t.Helper()
	conn, err := net.ListenPacket("udp", net.JoinHostPort(dnsAddr, "53"))
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	t.Cleanup(func() { conn.Close(); work.Wait() })
	work.Go(func() {
		buffer := make([]byte, 4096)
		for {
			size, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if reply, err := answer(n, buffer[:size]); err == nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	})
}

func answer(n *names, query []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil {
		return nil, err
	}
	q, err := parser.Question()
	if err != nil {
		return nil, err
	}
	header.Response, header.Authoritative = true, true
	builder := dnsmessage.NewBuilder(nil, header)
	if err := builder.StartQuestions(); err != nil {
		return nil, err
	}
	if err := builder.Question(q); err != nil {
		return nil, err
	}
	if err := builder.StartAnswers(); err != nil {
		return nil, err
	}
	rebinds := strings.Contains(q.Name.String(), "rebind") // only one type counts as a lookup
	if q.Type == dnsmessage.TypeA || q.Type == dnsmessage.TypeAAAA && !rebinds {
		for _, addr := range n.lookup(q.Name.String()) {
			rh := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 0}
			switch {
			case addr.Is4() && q.Type == dnsmessage.TypeA:
				err = builder.AResource(rh, dnsmessage.AResource{A: addr.As4()})
			case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
				err = builder.AAAAResource(rh, dnsmessage.AAAAResource{AAAA: addr.As16()})
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return builder.Finish()
}

// serveWeb answers on ports 80 and 443 of every address: the site on its own
// address, the secret on all others.
func serveWeb(t *testing.T) {
	t.Helper()
	silent := log.New(io.Discard, "", 0)
	for port, secure := range map[string]bool{"80": false, "443": true} {
		listener, err := net.Listen("tcp", ":"+port)
		if err != nil {
			t.Fatal(err)
		}
		server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(web), ErrorLog: silent}}
		if secure {
			server.TLS = &tls.Config{}
			server.StartTLS()
		} else {
			server.Start()
		}
		t.Cleanup(server.Close)
	}
}

func web(w http.ResponseWriter, r *http.Request) {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Cache-Control", "no-store")
	if host, _, _ := net.SplitHostPort(local.String()); host != siteAddr {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, secret)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	to := r.URL.Query().Get("to")
	switch r.URL.Path {
	case "/redirect":
		http.Redirect(w, r, to, http.StatusFound)
	case "/js":
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = io.WriteString(w, to)
	case "/close": // so that the next request needs a new connection and lookup
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, "SITE")
	case "/csp":
		w.Header().Set("Content-Security-Policy", "img-src 'none'; report-uri "+to)
		_, _ = io.WriteString(w, `<img src="/x.png">`)
	case "/meta":
		_, _ = io.WriteString(w, `<meta http-equiv="refresh" content="0;url=`+html.EscapeString(to)+`">`)
	case "/location":
		_, _ = io.WriteString(w, `<script>location = "`+to+`"</script>`)
	default:
		_, _ = io.WriteString(w, "<!doctype html><title>site</title><body>SITE")
	}
}
