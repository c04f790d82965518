package egress

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestPermittedRefusesWhatIsNotPublic(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255",
		"127.0.0.1", "127.255.255.255", "169.254.0.1", "172.16.0.0", "172.31.255.255", "192.0.0.8", "192.0.2.1",
		"192.88.99.1", "192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.1", "203.0.113.1",
		"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"169.254.169.254", "169.254.169.253", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16",
		"::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:7f00:1", "64:ff9b::7f00:1", "64:ff9b:1::1",
		"100::1", "2001::1", "2001:1::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "5f00::1",
		"fc00::1", "fd12::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "fd00:ec2::254", "::1%lo",
	} {
		if err := Permitted(netip.MustParseAddr(text)); err == nil {
			t.Errorf("%s is permitted", text)
		}
	}
	if Permitted(netip.Addr{}) == nil {
		t.Error("the zero address is permitted")
	}
}

func TestPermittedAcceptsTheNeighboursOfSpecialNetworks(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
		"169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0",
		"192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "8.8.8.8", "::ffff:8.8.8.8",
		"2000::1", "2001:200::1", "2001:db9::1", "2003::1", "2606:4700::1111", "3ffe::1", "4000::1",
	} {
		if err := Permitted(netip.MustParseAddr(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The spellings that a browser turns into an address arrive in their plain
// form or not at all.
func TestParseHostHasOneSpellingForEachHost(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Example.COM": "example.com", "example.com.": "example.com", "a_b.test": "a_b.test", "xn--bcher-kva.test": "xn--bcher-kva.test",
		"127.0.0.1": "127.0.0.1", "127.0.0.1.": "127.0.0.1", "[::1]": "::1", "::1": "::1", "[::ffff:127.0.0.1]": "127.0.0.1",
		"[0:0:0:0:0:0:0:1]": "::1", "localhost.": "localhost", "1e100.net": "1e100.net", "4chan": "4chan", "0x7f.test": "0x7f.test",
	} {
		if got, _, err := parseHost(text); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", ".", "..", "a..b", ".a", "127.1", "0", "2130706433", "0x7f000001", "0X7F.1", "0x", "0177.0.0.1", "127.0.0.01", "1.2.3.4.5",
		"a.1", "a.0x1", "a.0x", "256.256.256.256", "127.0.0.1..", "[127.0.0.1]", "[::1%lo]", "fe80::1%lo", "[::1", "::1]", "[]", "[a]",
		"\uff11\uff12\uff17.0.0.1", "\u2460.test", "bücher.test", "a b", "a/b", "a@b", "a?b", "a#b", "a%2eb", "a\x00b", "a:b", "*.a", "a\u3002b",
		strings.Repeat("a", 64) + ".test", strings.Repeat("a.", 127) + "test",
	} {
		if got, _, err := parseHost(text); err == nil {
			t.Errorf("%q is accepted as %q", text, got)
		}
	}
}

func TestSplitTargetWantsHostAndPort(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", ":", "a", "a:", "a:0", "a:65536", "a:+1", "a:-1", "a:01", "a:http", "a:80:80", "::1:80", "a:\uff18\uff10", "a: 80",
	} {
		if _, port, err := splitTarget(text); err == nil {
			t.Errorf("%q is accepted with port %d", text, port)
		}
	}
	if host, port, err := splitTarget("[::1]:443"); host != "[::1]" || port != 443 || err != nil {
		t.Errorf("%q %d %v", host, port, err)
	}
}

// FuzzTarget: what CONNECT and dials are given either fails or has one plain
// spelling that does not change when it is read again.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{"a.test:443", "[::1]:80", "127.0.0.1.:80", "0x7f.1:80", "[::ffff:7f00:1]:8080", "\uff11:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		text, port, err := splitTarget(target)
		if err != nil {
			return
		}
		host, addr, err := parseHost(text)
		if err != nil {
			return
		}
		again, addr2, err := parseHost(host)
		if err != nil || again != host || addr2 != addr || port == 0 {
			t.Fatalf("%q: %q, then %q (%v)", target, host, again, err)
		}
		if !addr.IsValid() && isNumber(host[strings.LastIndexByte(host, '.')+1:]) {
			t.Fatalf("%q: name %q ends in a number", target, host)
		}
		if addr.IsValid() && (addr.Zone() != "" || addr.Is4In6()) {
			t.Fatalf("%q: address %s is not plain", target, addr)
		}
	})
}
