package egress

import (
	"net/netip"
	"strings"
	"testing"
)

func mustPolicy(t testing.TB, allow ...string) Policy {
	t.Helper()
	p, err := ParsePolicy(allow, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// verdict judges a host at an address, as a dial does.
func verdict(p Policy, host, addr string, port uint16) Rule {
	d := p.judgeHost(host, port)
	if d == nil {
		d = p.judge(host, plain(netip.MustParseAddr(addr)), port)
	}
	if d == nil {
		return ""
	}
	return d.Rule
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		allow, host, addr string
		port              uint16
		want              Rule
	}{
		{"", "a.test", "8.8.8.8", 443, ""},
		{"", "a.test", "8.8.8.8", 8443, ""},
		{"", "a.test", "8.8.8.8", 22, RulePort},
		{"", "a.test", "8.8.8.8", 6379, RulePort},
		{"", "a.test", "10.0.0.1", 80, RuleAddress},
		{"", "a.test", "::ffff:10.0.0.1", 80, RuleAddress},
		{"", "metadata.google.internal", "8.8.8.8", 80, RuleMetadata},
		{"", "a.test", "168.63.129.16", 80, RuleMetadata},
		{"inner.test", "inner.test", "10.0.0.5", 80, ""},
		{"inner.test", "inner.test", "fd12::5", 80, ""},
		{"inner.test", "inner.test", "127.0.0.1", 80, ""},
		{"inner.test", "inner.test", "10.0.0.5", 9999, RulePort},
		{"inner.test", "inner.test", "169.254.1.1", 80, RuleAddress},
		{"inner.test", "inner.test", "169.254.169.254", 80, RuleMetadata},
		{"inner.test", "inner.test", "100.100.100.200", 80, RuleMetadata},
		{"inner.test", "inner.test", "0.0.0.0", 80, RuleAddress},
		{"inner.test", "xinner.test", "10.0.0.5", 80, RuleAddress},
		{"inner.test", "a.inner.test", "10.0.0.5", 80, RuleAddress},
		{"inner.test", "inner.test.evil.test", "10.0.0.5", 80, RuleAddress},
		{"Inner.TEST.", "inner.test", "10.0.0.5", 80, ""},
		{"*.inner.test", "a.inner.test", "10.0.0.5", 80, ""},
		{"*.inner.test", "a.b.inner.test", "10.0.0.5", 80, ""},
		{"*.inner.test", "inner.test", "10.0.0.5", 80, RuleAddress},
		{"*.inner.test", "xinner.test", "10.0.0.5", 80, RuleAddress},
		{"*.inner.test", "a.inner.test", "127.0.0.1", 80, RuleAddress},
		{"*.inner.test:81", "a.inner.test", "10.0.0.5", 81, ""},
		{"inner.test:81", "inner.test", "10.0.0.5", 81, ""},
		{"inner.test:81", "inner.test", "10.0.0.5", 80, RuleAddress},
		{"inner.test:81", "inner.test", "8.8.8.8", 80, ""},
		{"inner.test:22", "inner.test", "8.8.8.8", 22, ""},
		{"inner.test:22", "other.test", "8.8.8.8", 22, RulePort},
		{"10.0.0.0/24", "a.test", "10.0.0.6", 80, ""},
		{"10.0.0.0/24", "a.test", "10.0.1.6", 80, RuleAddress},
		{"10.0.0.0/24", "a.test", "10.0.0.6", 6379, RulePort},
		{"::ffff:10.0.0.0/120", "a.test", "10.0.0.6", 80, ""},
		{"0.0.0.0/0", "a.test", "169.254.169.254", 80, RuleMetadata},
		{"169.254.169.254", "a.test", "169.254.169.254", 80, ""},
		{"10.0.0.5", "a.test", "10.0.0.5", 80, ""},
		{"[::1]", "::1", "::1", 80, ""},
		{"::1", "::1", "::1", 80, ""},
		{"127.0.0.1:8123", "127.0.0.1", "127.0.0.1", 8123, ""},
		{"127.0.0.1:8123", "a.test", "127.0.0.1", 8123, ""},
		{"127.0.0.1:8123", "127.0.0.1", "127.0.0.1", 80, RuleAddress},
		{"127.0.0.1:8123", "a.test", "8.8.8.8", 8123, RulePort},
		{"[::ffff:127.0.0.1]:8123", "127.0.0.1", "127.0.0.1", 8123, ""},
		{"metadata.google.internal", "metadata.google.internal", "10.0.0.1", 80, ""},
	} {
		var p Policy
		if tt.allow != "" {
			p = mustPolicy(t, tt.allow)
		}
		if got := verdict(p, tt.host, tt.addr, tt.port); got != tt.want {
			t.Errorf("allow %q: %s:%d at %s: rule %q, want %q", tt.allow, tt.host, tt.port, tt.addr, got, tt.want)
		}
	}
}

func TestPolicyNeverLiftsTheFleetsOwnAddresses(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, "redis.test:6379", "10.0.0.5:6379", "10.0.0.0/8")
	p.DeniedAddrs = []netip.AddrPort{netip.MustParseAddrPort("[::ffff:10.0.0.5]:6379")}
	p.DeniedNets = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}
	if got := verdict(p, "redis.test", "10.0.0.5", 6379); got != RuleOwn {
		t.Errorf("own address: %q", got)
	}
	if got := verdict(p, "a.test", "10.9.1.1", 80); got != RuleOwn {
		t.Errorf("own network: %q", got)
	}
	if got := verdict(p, "a.test", "10.0.0.5", 80); got != "" {
		t.Errorf("another port of the machine: %q", got)
	}
}

func TestPolicyOnlyListed(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, "*.example.com", "8.8.4.0/24")
	p.OnlyListed = true
	for _, tt := range []struct {
		host, addr string
		want       Rule
	}{
		{"www.example.com", "8.8.8.8", ""},
		{"other.test", "8.8.4.4", ""},
		{"other.test", "8.8.8.8", RuleUnlisted},
		{"example.com.evil.test", "8.8.8.8", RuleUnlisted},
		{"other.test", "10.0.0.1", RuleAddress},
	} {
		if got := verdict(p, tt.host, tt.addr, 443); got != tt.want {
			t.Errorf("%s at %s: %q, want %q", tt.host, tt.addr, got, tt.want)
		}
	}
}

func TestNarrowNeverWidens(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, "inner.test")
	narrow := func(p Policy, hosts ...string) Policy {
		t.Helper()
		n, err := p.Narrow(hosts)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	one := narrow(p, "*.site.test", "127.0.0.1:6379", "10.0.0.9")
	two := narrow(one, "a.site.test", "inner.test")
	sibling := narrow(one, "b.site.test") // must not share memory with two
	for _, tt := range []struct {
		p          Policy
		host, addr string
		port       uint16
		want       Rule
	}{
		{one, "a.site.test", "8.8.8.8", 443, ""},
		{one, "site.test", "8.8.8.8", 443, RuleNarrowed},
		{one, "inner.test", "10.0.0.5", 80, RuleNarrowed},
		{one, "127.0.0.1", "127.0.0.1", 6379, RulePort},
		{one, "10.0.0.9", "10.0.0.9", 80, RuleAddress},
		{one, "a.site.test", "127.0.0.1", 80, RuleAddress},
		{one, "a.site.test", "8.8.8.8", 22, RulePort},
		{two, "a.site.test", "8.8.8.8", 443, ""},
		{two, "b.site.test", "8.8.8.8", 443, RuleNarrowed},
		{two, "inner.test", "10.0.0.5", 80, RuleNarrowed},
		{sibling, "b.site.test", "8.8.8.8", 443, ""},
		{sibling, "a.site.test", "8.8.8.8", 443, RuleNarrowed},
		{p, "inner.test", "10.0.0.5", 80, ""},
	} {
		if got := verdict(tt.p, tt.host, tt.addr, tt.port); got != tt.want {
			t.Errorf("%s:%d at %s: %q, want %q", tt.host, tt.port, tt.addr, got, tt.want)
		}
	}
	if _, err := p.Narrow([]string{"ok.test", "10.0.0.0/8", ""}); err == nil || !strings.Contains(err.Error(), "hosts[1]") || !strings.Contains(err.Error(), "hosts[2]") {
		t.Errorf("bad hosts: %v, want both", err)
	}
}

func TestParsePolicyReportsEveryMistake(t *testing.T) {
	t.Parallel()
	bad := []string{
		"", "a b", "10.0.0.0/99", "host:0", "host:http", "http://a/", "*", "*.", "*.10.0.0.1", "a.*.b", "127.1", "0x7f.1", "fe80::1%lo",
		"[fe80::1%lo]:80", "1.2.3.4:0", "u@h", "*.*.test", "/8", "127.0.0.1.", "127.0.0.1.:80", "::1.",
	}
	_, err := ParsePolicy(append(bad, "good.test"), []int{0, 80, 65536})
	if err == nil {
		t.Fatal("accepted")
	}
	for i, entry := range bad {
		if !strings.Contains(err.Error(), "allow["+itoa(uint16(i))+"]:") {
			t.Errorf("allow %q is not reported", entry)
		}
	}
	for _, want := range []string{"ports[0]", "ports[2]"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not reported", want)
		}
	}
}

// FuzzParsePolicy: an entry that is accepted permits at most what it names,
// and reading its plain spelling again gives the same.
func FuzzParsePolicy(f *testing.F) {
	for _, s := range []string{"a.test", "*.a.test:81", "10.0.0.0/8", "[::1]:80", "::ffff:10.0.0.0/104", "10.0.0.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		p, err := ParsePolicy([]string{entry}, nil)
		if err != nil {
			return
		}
		if len(p.Hosts)+len(p.CIDRs)+len(p.Addrs) != 1 {
			t.Fatalf("%q became %+v", entry, p)
		}
		for _, h := range p.Hosts {
			again, err := ParsePolicy([]string{h}, nil)
			if err != nil || len(again.Hosts) != 1 || again.Hosts[0] != h {
				t.Fatalf("%q became %q, which becomes %+v (%v)", entry, h, again, err)
			}
		}
		if verdict(p, "metadata.unnamed-host.test", "169.254.169.254", 80) == "" && len(p.Hosts) > 0 {
			t.Fatalf("%q lifts a metadata address", entry)
		}
		if n, err := p.Narrow([]string{entry}); err == nil && verdict(n, "host-that-is-not-named.test", "8.8.8.8", 80) != RuleNarrowed && !strings.Contains(entry, "test") {
			t.Fatalf("narrowing to %q permits another host", entry)
		}
	})
}
