package egress

import (
	"fmt"
	"net/netip"
)

// A special network is one that no public server lives in.
type special struct {
	prefix netip.Prefix
	what   string
	class  class
}

// class says which entry of a policy may lift a network.
type class int

const (
	classReserved class = iota // only an address or network entry
	classPrivate               // a host entry too, with or without wildcard
	classLoopback              // a host entry without wildcard too
)

// specialNetworks are refused unless a policy lifts them. Source: the IANA
// registries of IPv4 and IPv6 special-purpose addresses. Forms that embed an
// IPv4 address in an IPv6 one (mapped ones are unmapped first) are refused as
// a whole, because what they lead to is decided by routers, not by the table.
var specialNetworks = []special{
	{netip.MustParsePrefix("0.0.0.0/8"), "this host", classReserved},
	{netip.MustParsePrefix("10.0.0.0/8"), "private", classPrivate},
	{netip.MustParsePrefix("100.64.0.0/10"), "carrier-grade NAT", classPrivate},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback", classLoopback},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local", classReserved},
	{netip.MustParsePrefix("172.16.0.0/12"), "private", classPrivate},
	{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignments", classReserved},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation", classReserved},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relay", classReserved},
	{netip.MustParsePrefix("192.168.0.0/16"), "private", classPrivate},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking", classReserved},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation", classReserved},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation", classReserved},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast", classReserved},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved", classReserved},
	{netip.MustParsePrefix("::1/128"), "loopback", classLoopback},
	{netip.MustParsePrefix("::/96"), "IPv4-compatible", classReserved},
	{netip.MustParsePrefix("::ffff:0:0/96"), "IPv4-mapped", classReserved},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "IPv4-translated", classReserved},
	{netip.MustParsePrefix("64:ff9b::/96"), "NAT64", classReserved},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "local NAT64", classReserved},
	{netip.MustParsePrefix("100::/64"), "discard-only", classReserved},
	{netip.MustParsePrefix("2001::/23"), "protocol assignments and Teredo", classReserved},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation", classReserved},
	{netip.MustParsePrefix("2002::/16"), "6to4", classReserved},
	{netip.MustParsePrefix("3fff::/20"), "documentation", classReserved},
	{netip.MustParsePrefix("5f00::/16"), "segment routing", classReserved},
	{netip.MustParsePrefix("fc00::/7"), "private", classPrivate},
	{netip.MustParsePrefix("fe80::/10"), "link-local", classReserved},
	{netip.MustParsePrefix("fec0::/10"), "site-local", classReserved},
	{netip.MustParsePrefix("ff00::/8"), "multicast", classReserved},
}

// metadataAddrs hand out a machine's credentials. Only an entry for exactly
// that address lifts one.
var metadataAddrs = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"),
	netip.MustParseAddr("169.254.169.253"),
	netip.MustParseAddr("169.254.170.2"),
	netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("192.0.0.192"),
	netip.MustParseAddr("168.63.129.16"),
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd20:ce::254"),
}

var (
	loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopback6 = netip.IPv6Loopback()
)

// metadataHosts are the names of such services, without the final dot.
var metadataHosts = []string{"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}

// Permitted returns nil for a public unicast address and otherwise an error
// that names the network. It looks at the address without zone and unmapped,
// and it knows no policy.
func Permitted(addr netip.Addr) error {
	addr = plain(addr)
	if !addr.IsValid() {
		return fmt.Errorf("no address")
	}
	if isMetadata(addr) {
		return fmt.Errorf("%s is a metadata service", addr)
	}
	if s := lookupSpecial(addr); s != nil {
		return fmt.Errorf("%s is in the non-public network %s (%s)", addr, s.prefix, s.what)
	}
	return nil
}

// plain drops the zone and the mapping of an IPv4 address.
func plain(addr netip.Addr) netip.Addr { return addr.WithZone("").Unmap() }

func isMetadata(addr netip.Addr) bool {
	for _, m := range metadataAddrs {
		if m == addr {
			return true
		}
	}
	return false
}

// lookupSpecial returns the first special network that holds addr, or nil.
func lookupSpecial(addr netip.Addr) *special {
	for i := range specialNetworks {
		if specialNetworks[i].prefix.Contains(addr) {
			return &specialNetworks[i]
		}
	}
	return nil
}
