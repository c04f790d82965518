package redisconn

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	tcp := func(a address) *address { a.network = "tcp"; return &a }
	for _, tt := range []struct {
		name string
		cfg  Config
		want *address
	}{
		{"plain", Config{URL: "redis://h"}, tcp(address{hosts: []string{"h:6379"}})},
		{"no host", Config{URL: "redis://"}, tcp(address{hosts: []string{"localhost:6379"}})},
		{"port and number", Config{URL: "redis://h:1/3"}, tcp(address{hosts: []string{"h:1"}, database: 3})},
		{"number as option", Config{URL: "redis://h:1?db=3"}, tcp(address{hosts: []string{"h:1"}, database: 3})},
		{"TLS and user", Config{URL: "rediss://u:p%40w@h"}, tcp(address{hosts: []string{"h:6379"}, tls: true, username: "u", password: "p@w"})},
		{"password only", Config{URL: "redis://:pw@h"}, tcp(address{hosts: []string{"h:6379"}, password: "pw"})},
		{"an @ in the password", Config{URL: "redis://:p@w@h"}, tcp(address{hosts: []string{"h:6379"}, password: "p@w"})},
		{"IPv6", Config{URL: "redis://[::1]:7"}, tcp(address{hosts: []string{"[::1]:7"}})},
		{"IPv6 without port", Config{URL: "redis://[::1]"}, tcp(address{hosts: []string{"[::1]:6379"}})},
		{"socket", Config{URL: "unix:///run/r.sock?db=2"}, &address{network: "unix", hosts: []string{"/run/r.sock"}, database: 2}},
		{"socket with password", Config{URL: "unix://:pw@/run/r.sock"}, &address{network: "unix", hosts: []string{"/run/r.sock"}, password: "pw"}},
		{"fields win", Config{URL: "redis://a:b@h", Username: "u", Password: "p"}, tcp(address{hosts: []string{"h:6379"}, username: "u", password: "p"})},
		{"sentinel", Config{URL: "redis+sentinel://:pw@a,b:1/m/2"}, tcp(address{mode: sentinelMode, hosts: []string{"a:26379", "b:1"}, master: "m", database: 2, password: "pw"})},
		{"sentinel, name apart", Config{URL: "rediss+sentinel://a", MasterName: "m"}, tcp(address{mode: sentinelMode, hosts: []string{"a:26379"}, master: "m", tls: true})},
		{"sentinel, list", Config{Addrs: []string{"a", "b:1"}, MasterName: "m"}, tcp(address{mode: sentinelMode, hosts: []string{"a:26379", "b:1"}, master: "m"})},
		{"cluster", Config{URL: "redis+cluster://a,b:1", Prefix: "x{y}"}, tcp(address{mode: clusterMode, hosts: []string{"a:6379", "b:1"}})},
		{"cluster, list", Config{Addrs: []string{"a:1", "b:1"}, Cluster: true, Prefix: "{y}:"}, tcp(address{mode: clusterMode, hosts: []string{"a:1", "b:1"}})},
		{"list of one", Config{Addrs: []string{"a:1"}}, tcp(address{hosts: []string{"a:1"}})},
		{"TLS by field", Config{Addrs: []string{"a:1"}, TLS: TLSConfig{Enabled: true}}, tcp(address{hosts: []string{"a:1"}, tls: true})},
	} {
		got, err := tt.cfg.address()
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(address{})); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"no scheme", Config{URL: "localhost:6379"}, "url: must start with redis://"},
		{"other scheme", Config{URL: "http://h"}, "url: must start with redis://"},
		{"bad port", Config{URL: "redis://h:x"}, "url: has a host or port that cannot be read"},
		{"port too large", Config{URL: "redis://h:70000"}, "url: has a host or port"},
		{"bad number", Config{URL: "redis://h/x"}, "url: must end in a database number"},
		{"negative number", Config{URL: "redis://h/-1"}, "url: must end in a database number"},
		{"long path", Config{URL: "redis://h/0/1"}, "url: has more after the host than a database number"},
		{"unknown option", Config{URL: "redis://h?dial_timeout=3"}, "url: has an option after ? other than db"},
		{"relative socket", Config{URL: "unix://run/r.sock"}, "url: must name the socket's whole path"},
		{"no socket", Config{URL: "unix://"}, "url: must name the socket's whole path"},
		{"bad escape", Config{URL: "redis://:a%zz@h"}, "url: has a user or password that cannot be read"},
		{"a slash in the password", Config{URL: "redis://:a/b@h"}, "write them as %XX, or use password_file"},
		{"several servers", Config{URL: "redis://a,b"}, "url: names several servers; say whether they are Sentinels"},
		{"several addresses", Config{Addrs: []string{"a", "b"}}, "addrs: names several servers; set master_name"},
		{"a URL among addresses", Config{Addrs: []string{"redis://a"}}, "addrs: must be a list of host:port"},
		{"both", Config{URL: "redis://a", Addrs: []string{"b"}}, "addrs: is set beside url"},
		{"no master", Config{URL: "redis+sentinel://a"}, "master_name: is missing"},
		{"two masters", Config{URL: "redis+sentinel://a/m", MasterName: "n"}, "master_name: differs"},
		{"master without sentinel", Config{URL: "redis://a", MasterName: "n"}, "master_name: is for Sentinels"},
		{"cluster without prefix", Config{URL: "redis+cluster://a"}, "prefix: must have one hash tag"},
		{"cluster, two tags", Config{URL: "redis+cluster://a", Prefix: "{a}{b}"}, "prefix: must have one hash tag"},
		{"cluster, empty tag", Config{URL: "redis+cluster://a", Prefix: "{}a"}, "prefix: must have one hash tag"},
		{"cluster, number", Config{URL: "redis+cluster://a/1", Prefix: "{a}"}, "url: must not end in a database number"},
		{"cluster by socket", Config{URL: "unix:///s", Cluster: true, Prefix: "{a}"}, "cluster: needs the addresses of cluster nodes"},
	} {
		_, err := tt.cfg.address()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
		if _, err := New(tt.cfg, nil, nil); err == nil || !strings.HasPrefix(err.Error(), "configuration: redis.") {
			t.Errorf("%s: New returns %v", tt.name, err)
		}
	}
}

// FuzzAddress checks that no URL, however broken, puts its password into an
// error.
func FuzzAddress(f *testing.F) {
	const secret = "qzxGeheim"
	for _, seed := range [][2]string{
		{"redis://:", "@h"}, {"redis://u:", "@h:x/0"}, {"", "@h"}, {"rediss://:%", "@"}, {"unix://:", "@run"}, {"redis+sentinel://:", "@a,b"},
		{"redis://h?password=", ""}, {"redis://h/", ""}, {"http://u:", "@h"}, {"redis://:a/", "@h"}, {"redis://:", "?@h"}, {"redis://[", "]"}, {"redis://h:", ""},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		cfg := Config{URL: before + secret + after}
		for _, p := range cfg.Validate() {
			if strings.Contains(p.String(), secret) {
				t.Errorf("%q: %s", cfg.URL, p)
			}
		}
		if _, err := cfg.address(); err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", cfg.URL, err)
		}
	})
}
