package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"go.uber.org/zap"
)

const (
	dialTimeout    = 10 * time.Second
	maxDialedAddrs = 4 // of one answer, so that a long answer cannot hold a request
)

// A Resolver finds the addresses of a name. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// A Dialer opens connections to addresses that were checked. *net.Dialer is
// one.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Options of a Guard. The zero value is fit for production.
type Options struct {
	Resolver Resolver    // nil: the machine's own
	Dialer   Dialer      // nil: net.Dialer with 10 s
	Logger   *zap.Logger // nil: silent

	// ListenIn makes the listener of a lane, as Namespace.Listen does.
	// nil: net.Listen.
	ListenIn func(ctx context.Context, network, address string) (net.Listener, error)

	// LocalAddrs lists this machine's own addresses, which are judged like
	// loopback: services that listen on all of them are not meant for pages.
	// nil: net.InterfaceAddrs.
	LocalAddrs func() ([]net.Addr, error)
}

// A Guard enforces a policy. It is safe for concurrent use and holds nothing
// that must be closed; its lanes do.
type Guard struct {
	policy   Policy
	resolver Resolver
	dialer   Dialer
	log      *zap.Logger
	listen   func(ctx context.Context, network, address string) (net.Listener, error)
	local    func() ([]net.Addr, error)
}

// New returns a guard for a policy.
func New(p Policy, o Options) *Guard {
	g := &Guard{policy: p, resolver: o.Resolver, dialer: o.Dialer, log: o.Logger, listen: o.ListenIn, local: o.LocalAddrs}
	if g.resolver == nil {
		g.resolver = net.DefaultResolver
	}
	if g.dialer == nil {
		g.dialer = &net.Dialer{Timeout: dialTimeout}
	}
	if g.log == nil {
		g.log = zap.NewNop()
	}
	if g.listen == nil {
		g.listen = new(net.ListenConfig).Listen
	}
	if g.local == nil {
		g.local = net.InterfaceAddrs
	}
	return g
}

// Policy returns the guard's own policy, from which tasks narrow theirs.
func (g *Guard) Policy() Policy { return g.policy }

// DialContext connects to host:port if the policy permits it: the name is
// resolved once, every address is checked, and the very address that was
// checked is dialled. Of a mixed answer the permitted addresses are tried in
// order. The error is a *Denial, a *net.DNSError or a failed connection.
// http.Transport takes it as its DialContext.
func (g *Guard) DialContext(ctx context.Context, network, target string) (net.Conn, error) {
	return g.dial(ctx, g.policy, network, target)
}

func (g *Guard) dial(ctx context.Context, p Policy, network, target string) (net.Conn, error) {
	addrs, err := g.pick(ctx, p, target)
	if err != nil {
		return nil, err
	}
	var last error
	for _, addr := range addrs {
		conn, err := g.dialer.DialContext(ctx, network, addr.String())
		if err == nil {
			return conn, nil
		}
		if last = err; ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("connect to %s: %w", clip(target), last)
}

// pick returns the addresses of target that the policy permits, at least one.
func (g *Guard) pick(ctx context.Context, p Policy, target string) ([]netip.AddrPort, error) {
	text, port, err := splitTarget(target)
	if err != nil {
		return nil, deny(target, 0, RuleHost, "%v", err)
	}
	host, addr, err := parseHost(text)
	if err != nil {
		return nil, deny(text, port, RuleHost, "%v", err)
	}
	if d := p.judgeHost(host, port); d != nil {
		return nil, d
	}
	addrs := []netip.Addr{addr}
	if !addr.IsValid() {
		if addrs, err = g.resolve(ctx, host); err != nil {
			return nil, err
		}
	}
	var permitted []netip.AddrPort
	var first *Denial
	for _, a := range addrs {
		a = plain(a)
		d := p.judge(host, a, port)
		if d == nil && g.isLocal(a) && !p.lists(host, a, port) {
			d = deny(host, port, RuleAddress, "%s is an address of this machine", place(host, a))
			d.Allow = netip.AddrPortFrom(a, port).String()
		}
		if d == nil {
			permitted = append(permitted, netip.AddrPortFrom(a, port))
		} else if first == nil {
			first = d
		}
	}
	if len(permitted) == 0 {
		return nil, first
	}
	return permitted[:min(len(permitted), maxDialedAddrs)], nil
}

// isLocal reports whether addr is one of this machine's own. When
// they cannot be listed, every address counts as one: that is an error to
// repair, not a hole.
func (g *Guard) isLocal(addr netip.Addr) bool {
	addrs, err := g.local()
	if err != nil {
		g.log.Warn("cannot list the addresses of this machine", zap.Error(err))
		return true
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(n.IP); ok && plain(own) == addr {
				return true
			}
		}
	}
	return false
}

// resolve asks the resolver once. An answer without addresses is an error.
func (g *Guard) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if isLocalName(host) {
		return []netip.Addr{loopback4, loopback6}, nil
	}
	addrs, err := g.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		var dns *net.DNSError
		if ctx.Err() != nil || errors.As(err, &dns) {
			return nil, err
		}
		return nil, &net.DNSError{UnwrapErr: err, Err: err.Error(), Name: host}
	}
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	return addrs, nil
}
