package general

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

const (
	maxURL       = 2048
	maxRedirects = 10
	dialTimeout  = 10 * time.Second
)

// publicPorts are the ports that may be reached without being allowed.
var publicPorts = []string{"80", "443", "8080", "8443"}

// notPublic are the networks that are refused unless they are allowed, from
// the special-purpose registries of IANA. Those that embed an IPv4 address in
// an IPv6 one are refused as a whole.
var notPublic = parseNetworks(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32",
	"2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
)

// metadataHosts answer with a machine's credentials.
var metadataHosts = []string{"metadata.google.internal", "metadata"}

// oddNumber matches spellings of addresses that some resolvers understand,
// such as 127.1 or 0x7f000001.
var oddNumber = regexp.MustCompile(`(?i)^(0x[0-9a-f]+|[0-9]+)(\.(0x[0-9a-f]+|[0-9]+))*\.?$`)

func parseNetworks(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		out[i] = netip.MustParsePrefix(t)
	}
	return out
}

// A guard decides which addresses may be reached. It looks at the address that
// is dialled, not at the name, so a name that resolves differently the second
// time changes nothing.
type guard struct {
	hosts    []string // host or host:port, lower case
	networks []netip.Prefix
	lookup   func(ctx context.Context, host string) ([]netip.Addr, error)
}

func newGuard(allow []string) (*guard, error) {
	g := &guard{lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}}
	var problems []error
	for i, entry := range allow {
		if err := g.allow(entry); err != nil {
			problems = append(problems, fmt.Errorf("allow[%d]: %w", i, err))
		}
	}
	return g, errors.Join(problems...)
}

func (g *guard) allow(entry string) error {
	if strings.Contains(entry, "/") {
		p, err := netip.ParsePrefix(entry)
		if err != nil {
			return fmt.Errorf("%q is not a network such as 10.0.0.0/8", entry)
		}
		g.networks = append(g.networks, p.Masked())
		return nil
	}
	if addr, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil {
		g.networks = append(g.networks, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
		return nil
	}
	host := entry
	if h, port, err := net.SplitHostPort(entry); err == nil {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("%q has a bad port", entry)
		}
		host = h
	}
	if host == "" || strings.ContainsAny(host, " @?#*") {
		return fmt.Errorf("%q is not a host name, host:port, address or network", entry)
	}
	g.hosts = append(g.hosts, canonical(entry))
	return nil
}

// canonical compares host names: lower case and without the final dot.
func canonical(host string) string {
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// client returns an HTTP client that reaches only what the guard permits,
// redirects included. It keeps no connection: every request is checked anew.
func (g *guard) client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil,
			DialContext:            g.dial,
			DisableKeepAlives:      true,
			TLSHandshakeTimeout:    dialTimeout,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return executors.Errorf(executors.CodeNavigationFailed, "more than %d redirects", maxRedirects)
			}
			if err := checkURL("url", req.URL.String()); err != nil {
				return denied(req.URL.Host, "a redirect leads to %q: %v", req.URL.Redacted(), err)
			}
			return nil
		},
	}
}

// checkURL refuses what is no plain web address.
func checkURL(field, raw string) error {
	u, err := url.Parse(raw)
	switch {
	case len(raw) > maxURL:
		return executors.Invalid(field, "must have at most %d characters, got %d", maxURL, len(raw))
	case err != nil:
		return executors.Invalid(field, "is not a URL: %q", raw)
	case u.Scheme != "http" && u.Scheme != "https":
		return executors.Invalid(field, "must begin with http:// or https://, got %q", u.Redacted())
	case u.Hostname() == "":
		return executors.Invalid(field, "has no host: %q", u.Redacted())
	case u.User != nil:
		return executors.Invalid(field, "must not hold a user name or password, got %q", u.Redacted())
	}
	return nil
}

// dial resolves a name once, checks every address and dials one of them.
func (g *guard) dial(ctx context.Context, network, target string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, fmt.Errorf("split %q: %w", target, err)
	}
	host = canonical(host)
	hostAllowed := g.named(host, port)
	if slices.Contains(metadataHosts, host) && !hostAllowed {
		return nil, denied(host, "%s is a metadata service", host)
	}
	addrs, err := g.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, addr := range addrs {
		if err := g.check(host, port, addr, hostAllowed); err != nil {
			return nil, err
		}
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	var last error
	for _, addr := range addrs {
		conn, err := dialer.DialContext(ctx, network, net.JoinHostPort(addr.String(), port))
		if err == nil {
			return conn, nil
		}
		last = err
	}
	return nil, last
}

// named reports whether a host is allowed by its name, on this port or on all.
func (g *guard) named(host, port string) bool {
	return slices.Contains(g.hosts, host) || slices.Contains(g.hosts, net.JoinHostPort(host, port))
}

func (g *guard) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr.WithZone("").Unmap()}, nil
	}
	if oddNumber.MatchString(host) {
		return nil, denied(host, "%s is an unusual spelling of an address", host)
	}
	addrs, err := g.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	}
	for i := range addrs {
		addrs[i] = addrs[i].WithZone("").Unmap()
	}
	return addrs, nil
}

func (g *guard) check(host, port string, addr netip.Addr, hostAllowed bool) error {
	within := func(p netip.Prefix) bool { return p.Contains(addr) }
	if hostAllowed || slices.ContainsFunc(g.networks, within) {
		return nil
	}
	if i := slices.IndexFunc(notPublic, within); i >= 0 {
		return denied(host, "%s is at %s, in the non-public network %s", host, addr, notPublic[i])
	}
	if !slices.Contains(publicPorts, port) {
		return denied(host, "port %s of %s is not one of %s", port, host, strings.Join(publicPorts, ", "))
	}
	return nil
}

func denied(host, format string, args ...any) *executors.Error {
	e := executors.Errorf(executors.CodeEgressDenied, format, args...)
	e.Field = "url"
	e.Hint = fmt.Sprintf("an administrator can permit it: executors.general.allow: [%q]", host)
	return e
}
