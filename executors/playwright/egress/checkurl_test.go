package egress

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

func TestCheckURL(t *testing.T) {
	t.Parallel()
	g := New(mustPolicy(t, "127.0.0.1:8123", "localhost:8124", "inner.test"), Options{})
	const ok, text = Rule("ok"), Rule("text") // accepted; refused as a text
	for raw, want := range map[string]Rule{
		"http://example.com":                      ok,
		"https://example.com:8443/a?b=c#d":        ok,
		"HTTPS://EXAMPLE.com./":                   ok,
		"https://bücher.example/":                 ok,
		"https://github.com.evil.test/":           ok, // a host like any other: it gets no rights of github.com
		"http://inner.test/":                      ok,
		"http://127.0.0.1:8123/":                  ok,
		"http://localhost:8124/":                  ok,
		"http://8.8.8.8:/":                        ok,
		"about:blank":                             ok,
		"http://example.com/" + pad(2048-19):      ok,
		"http://example.com/" + pad(2048-18):      text,
		"":                                        text,
		"example.com":                             text,
		"//example.com/":                          text,
		"http://localhost@evil.test":              text,
		"http://user:pass@example.com/":           text,
		"http://@example.com/":                    text,
		"file:///etc/passwd":                      text,
		"FILE:///etc/passwd":                      text,
		"view-source:http://example.com":          text,
		"view-source:file:///etc/passwd":          text,
		"javascript:alert(1)":                     text,
		"data:text/html,hi":                       text,
		"blob:http://example.com/1":               text,
		"filesystem:http://example.com/a":         text,
		"ftp://example.com/":                      text,
		"ws://example.com/":                       text,
		"chrome://version":                        text,
		"devtools://devtools/":                    text,
		"chrome-extension://a/":                   text,
		"about:srcdoc":                            text,
		"about:blank?x":                           text,
		"http://":                                 text,
		"http:///path":                            text,
		"http:/127.0.0.1/":                        text,
		"http:127.0.0.1":                          text,
		`http:\\127.0.0.1\`:                       text,
		`http://evil.test\@127.0.0.1/`:            text,
		" http://example.com":                     text,
		"http://example.com ":                     text,
		"java\nscript:alert(1)":                   text,
		"ht\ttp://example.com":                    text,
		"http://exa\x00mple.com":                  text,
		"http://127.1/":                           text,
		"http://0/":                               text,
		"http://2130706433/":                      text,
		"http://0x7f000001/":                      text,
		"http://0x7f.1/":                          text,
		"http://0177.0.0.1/":                      text,
		"http://\uff11\uff12\uff17.0.0.1/":        text,
		"http://\u2460\u2461\u2466.0.0.1/":        text,
		"http://127\u30020.0.1/":                  text,
		"http://%31%32%37.0.0.1/":                 text,
		"http://[::1%25lo]/":                      text,
		"http://example.com:0/":                   text,
		"http://example.com:99999/":               text,
		"http://127.0.0.1/":                       RuleAddress,
		"http://127.0.0.1./":                      RuleAddress,
		"http://localhost/":                       RuleAddress,
		"http://LOCALHOST./":                      RuleAddress,
		"http://a.localhost/":                     RuleAddress,
		"http://[::1]/":                           RuleAddress,
		"http://[::]/":                            RuleAddress,
		"http://[::ffff:127.0.0.1]/":              RuleAddress,
		"http://[::ffff:7f00:1]/":                 RuleAddress,
		"http://0.0.0.0/":                         RuleAddress,
		"http://10.1.2.3/":                        RuleAddress,
		"https://169.254.169.254/latest/":         RuleMetadata,
		"http://metadata.google.internal/":        RuleMetadata,
		"http://example.com:1/":                   RulePort,
		"http://example.com:6379/":                RulePort,
		"http://inner.test:6379/":                 RulePort,
		"http://127.0.0.1:8124/":                  RulePort,
		"http://[64:ff9b::7f00:1]/?token=secret#": RuleAddress,
	} {
		_, err := g.CheckURL(raw, URLOptions{})
		got := ok
		var d *Denial
		switch {
		case errors.Is(err, ErrURL):
			got = text
		case errors.As(err, &d):
			got = d.Rule
			if strings.Contains(d.URL, "secret") {
				t.Errorf("%q: the denial holds the query: %s", clip(raw), d.URL)
			}
		case err != nil:
			got = "?"
		}
		if got != want {
			t.Errorf("%q: %q (%v), want %q", clip(raw), got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "pass@") {
			t.Errorf("%q: the error holds the password", raw)
		}
	}
	if _, err := g.CheckURL("data:text/html,hi", URLOptions{AllowData: true}); err != nil {
		t.Errorf("data, permitted: %v", err)
	}
	u, err := g.CheckURL("https://Bücher.example:8443/", URLOptions{})
	if err != nil || u.Host != "xn--bcher-kva.example:8443" {
		t.Errorf("%v, %v", u, err)
	}
	narrow, err := g.Policy().Narrow([]string{"a.test"})
	if err != nil {
		t.Fatal(err)
	}
	var d *Denial
	if _, err := g.CheckURL("http://b.test/", URLOptions{Policy: &narrow}); !errors.As(err, &d) || d.Rule != RuleNarrowed {
		t.Errorf("outside of the task's hosts: %v", err)
	}
}

func pad(n int) string { return strings.Repeat("a", n) }

// FuzzCheckURL: whatever is accepted is an address of a scheme that is served,
// without user, and with a host that the policy would not refuse as text.
func FuzzCheckURL(f *testing.F) {
	for _, s := range []string{"http://a.test/", "https://a:b@c/", "about:blank", "http://[::1]:80/", "http:\\\\a", "http://%30/", "http://\uff11/"} {
		f.Add(s)
	}
	g := New(Policy{}, Options{})
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := g.CheckURL(raw, URLOptions{})
		if err != nil {
			return
		}
		if u.User != nil || len(raw) > MaxURL {
			t.Fatalf("%q is accepted", raw)
		}
		if u.Scheme == "about" {
			return
		}
		if u.Scheme != "http" && u.Scheme != "https" {
			t.Fatalf("%q is accepted as %s", raw, u.Scheme)
		}
		host, _, err := hostPort(u)
		if err != nil || !isASCII(u.Host) {
			t.Fatalf("%q: host %q, %v", raw, u.Host, err)
		}
		if _, addr, err := parseHost(host); err != nil || addr.IsValid() && Permitted(addr) != nil {
			t.Fatalf("%q leads to %s", raw, host)
		}
		again, err := url.Parse(u.String())
		if err != nil || again.Host != u.Host {
			t.Fatalf("%q is written as %q, which is read as %v", raw, u, again)
		}
	})
}
