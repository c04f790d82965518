package egress

import (
	"net/netip"
	"slices"
	"strings"
)

// judgeHost judges what can be judged before a name is resolved. A nil result
// means "look at the addresses".
func (p Policy) judgeHost(host string, port uint16) *Denial {
	for _, layer := range p.narrowed {
		if !slices.ContainsFunc(layer, func(e hostEntry) bool { return e.matches(host, port) }) {
			return deny(host, port, RuleNarrowed, "%s is outside the hosts that the task limits itself to", host)
		}
	}
	if slices.Contains(metadataHosts, host) && p.hostClass(host, port) != hostExact {
		d := deny(host, port, RuleMetadata, "%s is a metadata service", host)
		d.Allow = host
		return d
	}
	if !p.portPossible(host, port) {
		d := deny(host, port, RulePort, "port %d of %s is not one of %s", port, host, joinPorts(p.ports()))
		d.Allow = d.Target()
		return d
	}
	return nil
}

// judge judges one resolved address of host, which is plain.
func (p Policy) judge(host string, addr netip.Addr, port uint16) *Denial {
	target := netip.AddrPortFrom(addr, port)
	within := func(n netip.Prefix) bool { return plainPrefix(n).Contains(addr) }
	same := func(a netip.AddrPort) bool { return plain(a.Addr()) == addr && a.Port() == port }
	if slices.ContainsFunc(p.DeniedAddrs, same) || slices.ContainsFunc(p.DeniedNets, within) {
		return deny(host, port, RuleOwn, "%s belongs to the fleet and is never reached", place(host, addr))
	}
	if slices.ContainsFunc(p.Addrs, same) {
		return nil
	}
	named := p.hostClass(host, port)
	if isMetadata(addr) {
		one := netip.PrefixFrom(addr, addr.BitLen())
		if !slices.ContainsFunc(p.CIDRs, func(n netip.Prefix) bool { return plainPrefix(n) == one }) {
			d := deny(host, port, RuleMetadata, "%s is a metadata service", place(host, addr))
			d.Allow = target.String()
			return d
		}
	}
	listed := slices.ContainsFunc(p.CIDRs, within)
	if s := lookupSpecial(addr); s != nil && !listed && !named.lifts(s.class) {
		d := deny(host, port, RuleAddress, "%s is in the non-public network %s (%s)", place(host, addr), s.prefix, s.what)
		switch {
		case s.class == classReserved || host == addr.String():
			d.Allow = target.String()
		case slices.Contains(p.ports(), port):
			d.Allow = host
		default:
			d.Allow = d.Target()
		}
		return d
	}
	if p.OnlyListed && !listed && named == hostUnnamed {
		d := deny(host, port, RuleUnlisted, "%s is not on the list of permitted hosts", host)
		d.Allow = host
		return d
	}
	if !slices.Contains(p.ports(), port) && !p.hostPort(host, port) {
		d := deny(host, port, RulePort, "port %d of %s is not one of %s", port, host, joinPorts(p.ports()))
		d.Allow = d.Target()
		return d
	}
	return nil
}

// lists reports whether an entry names this very host or address, so that
// even an address of this machine is meant.
func (p Policy) lists(host string, addr netip.Addr, port uint16) bool {
	return p.hostClass(host, port) == hostExact ||
		slices.ContainsFunc(p.CIDRs, func(n netip.Prefix) bool { return plainPrefix(n).Contains(addr) }) ||
		slices.ContainsFunc(p.Addrs, func(a netip.AddrPort) bool { return plain(a.Addr()) == addr && a.Port() == port })
}

// hostClass says how a policy names a host.
type hostClass int

const (
	hostUnnamed hostClass = iota
	hostWildcard
	hostExact
)

func (c hostClass) lifts(k class) bool {
	switch k {
	case classPrivate:
		return c != hostUnnamed
	case classLoopback:
		return c == hostExact
	}
	return false
}

// hostClass ignores entries that do not parse: ParsePolicy reports those.
func (p Policy) hostClass(host string, port uint16) hostClass {
	best := hostUnnamed
	for _, text := range p.Hosts {
		e, err := parseHostEntry(text)
		switch {
		case err != nil || !e.matches(host, port):
		case !e.wildcard:
			return hostExact
		default:
			best = hostWildcard
		}
	}
	return best
}

// hostPort reports whether an entry names host together with port.
func (p Policy) hostPort(host string, port uint16) bool {
	return slices.ContainsFunc(p.Hosts, func(text string) bool {
		e, err := parseHostEntry(text)
		return err == nil && e.port == port && e.matches(host, port)
	})
}

// portPossible reports whether any entry could permit port for host, so that
// a port that none permits is refused without asking DNS.
func (p Policy) portPossible(host string, port uint16) bool {
	return slices.Contains(p.ports(), port) || p.hostPort(host, port) ||
		slices.ContainsFunc(p.Addrs, func(a netip.AddrPort) bool { return a.Port() == port })
}

// place names a host together with the address that was judged.
func place(host string, addr netip.Addr) string {
	if host == addr.String() {
		return host
	}
	return host + " at " + addr.String()
}

func joinPorts(ports []uint16) string {
	texts := make([]string, len(ports))
	for i, p := range ports {
		texts[i] = itoa(p)
	}
	return strings.Join(texts, ", ")
}
