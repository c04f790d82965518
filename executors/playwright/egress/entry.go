package egress

import (
	"fmt"
	"net"
	"strings"
)

// A hostEntry is one host of a policy.
type hostEntry struct {
	name     string
	wildcard bool   // names below name
	port     uint16 // 0: the ports of the policy
}

// parseHostEntry reads host, *.host, host:port or *.host:port. The host may
// be an address, in brackets when it is IPv6 with a port.
func parseHostEntry(text string) (hostEntry, error) {
	var e hostEntry
	host := text
	if h, port, err := net.SplitHostPort(text); err == nil {
		if e.port, err = parsePort(port); err != nil {
			return hostEntry{}, fmt.Errorf("%q: %w", clip(text), err)
		}
		host = h
	}
	host, e.wildcard = strings.CutPrefix(host, "*.")
	name, addr, err := parseHost(host)
	if err != nil || e.wildcard && addr.IsValid() {
		return hostEntry{}, fmt.Errorf("%q is not a host name, *.name, host:port, address or network", clip(text))
	}
	e.name = name
	return e, nil
}

// String is the entry's one spelling.
func (e hostEntry) String() string {
	host := e.name
	if e.wildcard {
		host = "*." + host
	}
	if e.port != 0 {
		return net.JoinHostPort(host, itoa(e.port))
	}
	return host
}

// matches reports whether the entry names host. Its port, if any, must be
// port; an entry without one leaves the port to the policy.
func (e hostEntry) matches(host string, port uint16) bool {
	if e.port != 0 && e.port != port {
		return false
	}
	if e.wildcard {
		return strings.HasSuffix(host, "."+e.name)
	}
	return host == e.name
}
