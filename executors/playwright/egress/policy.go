package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// DefaultPorts are the ports that may be reached on public addresses and on
// entries that name no port.
var DefaultPorts = []uint16{80, 443, 8080, 8443}

// A Policy says what may be reached. The zero value permits public addresses
// on DefaultPorts. Policies are values; methods do not change them.
type Policy struct {
	// Hosts are names that may be reached although they are not public:
	// "host" and "*.host" (names below it, not itself) on Ports, "host:port"
	// on that port. A host entry lifts private networks, one without wildcard
	// loopback too. It never lifts link-local and metadata addresses.
	Hosts []string

	// CIDRs are networks that may be reached on Ports. A metadata service is
	// lifted only by a network of that one address.
	CIDRs []netip.Prefix

	// Addrs may be reached exactly, whatever Ports says.
	Addrs []netip.AddrPort

	// Ports that may be reached. Empty: DefaultPorts.
	Ports []uint16

	// DeniedAddrs and DeniedNets are never reached, whatever else is listed:
	// the control plane, Redis, the agent itself.
	DeniedAddrs []netip.AddrPort
	DeniedNets  []netip.Prefix

	// OnlyListed refuses public addresses too, unless Hosts, CIDRs or Addrs
	// list them.
	OnlyListed bool

	narrowed [][]hostEntry // every layer must match
}

// ParsePolicy reads an administrator's entries: host, *.host, host:port,
// address, address:port or network. IPv6 addresses with a port stand in
// brackets. Every mistake is reported, with its index.
func ParsePolicy(allow []string, ports []int) (Policy, error) {
	var p Policy
	var problems []error
	for i, entry := range allow {
		if err := p.allow(entry); err != nil {
			problems = append(problems, fmt.Errorf("allow[%d]: %w", i, err))
		}
	}
	for i, n := range ports {
		if n < 1 || n > 65535 {
			problems = append(problems, fmt.Errorf("ports[%d]: %d is not a number from 1 to 65535", i, n))
			continue
		}
		p.Ports = append(p.Ports, uint16(n))
	}
	return p, errors.Join(problems...)
}

func (p *Policy) allow(entry string) error {
	if strings.Contains(entry, "/") {
		prefix, err := netip.ParsePrefix(entry)
		if err != nil {
			return fmt.Errorf("%q is not a network such as 10.0.0.0/8", clip(entry))
		}
		p.CIDRs = append(p.CIDRs, plainPrefix(prefix))
		return nil
	}
	if ap, err := netip.ParseAddrPort(entry); err == nil {
		if ap.Port() == 0 || ap.Addr().Zone() != "" {
			return fmt.Errorf("%q has a bad port or a zone", clip(entry))
		}
		p.Addrs = append(p.Addrs, netip.AddrPortFrom(plain(ap.Addr()), ap.Port()))
		return nil
	}
	bare, _ := trimBrackets(entry)
	if addr, err := netip.ParseAddr(bare); err == nil {
		if addr.Zone() != "" {
			return fmt.Errorf("%q has a zone", clip(entry))
		}
		addr = plain(addr)
		p.CIDRs = append(p.CIDRs, netip.PrefixFrom(addr, addr.BitLen()))
		return nil
	}
	h, err := parseHostEntry(entry)
	if err != nil {
		return err
	}
	if _, err := netip.ParseAddr(h.name); err == nil {
		return fmt.Errorf("%q is an address with a final dot", clip(entry))
	}
	p.Hosts = append(p.Hosts, h.String())
	return nil
}

// plainPrefix turns a network of mapped addresses into one of IPv4.
func plainPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

// Narrow returns a policy that permits nothing outside hosts, and nothing that
// p does not permit. Entries are as in Policy.Hosts, or addresses. Narrowing
// twice permits what both layers name. No hosts change nothing.
func (p Policy) Narrow(hosts []string) (Policy, error) {
	if len(hosts) == 0 {
		return p, nil
	}
	layer := make([]hostEntry, 0, len(hosts))
	var problems []error
	for i, text := range hosts {
		h, err := parseHostEntry(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("hosts[%d]: %w", i, err))
			continue
		}
		layer = append(layer, h)
	}
	if err := errors.Join(problems...); err != nil {
		return Policy{}, err
	}
	p.narrowed = append(slices.Clip(slices.Clone(p.narrowed)), layer)
	return p, nil
}

func (p Policy) ports() []uint16 {
	if len(p.Ports) == 0 {
		return DefaultPorts
	}
	return p.Ports
}
