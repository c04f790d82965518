package egress

import (
	"context"
	"errors"
	"net"
	"testing"
)

// A denial's entry permits what it was about, and nothing is noted without end.
func TestDenialsNameTheEntryThatPermits(t *testing.T) {
	t.Parallel()
	n := newNames(map[string][]string{"private.test": {"10.0.0.1"}, "reserved.test": {"192.0.0.9"}, "public.test": {"8.8.8.8"}, "self.test": {"8.8.4.4"}})
	self := func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.ParseIP("8.8.4.4"), Mask: net.CIDRMask(24, 32)}}, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, target := range []string{
		"private.test:80", "private.test:6379", "reserved.test:80", "public.test:22", "127.0.0.1:80", "127.0.0.1:9999", "[::1]:443",
		"localhost:80", "169.254.169.254:80", "self.test:80", "8.8.4.4:443", "8.8.4.4:22",
	} {
		dial := func(p Policy) error {
			g := New(p, Options{Resolver: n, Dialer: &detour{to: listener.Addr().String()}, LocalAddrs: self})
			conn, err := g.DialContext(context.Background(), "tcp", target)
			if err == nil {
				conn.Close()
			}
			return err
		}
		var entries []string
		for range 2 { // a port and an address may need one each
			p, err := ParsePolicy(entries, nil)
			if err != nil {
				t.Fatalf("%s: %v", target, err)
			}
			var d *Denial
			if errors.As(dial(p), &d) {
				entries = append(entries, d.Allow)
			}
		}
		p, err := ParsePolicy(entries, nil)
		if err != nil || len(entries) == 0 {
			t.Fatalf("%s: entries %q, %v", target, entries, err)
		}
		if err := dial(p); err != nil {
			t.Errorf("%s: with %q still %v", target, entries, err)
		}
	}
}
