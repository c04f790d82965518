package playwright

import (
	"net"
	"net/url"
	"strings"

	pw "github.com/mxschmitt/playwright-go"

	"github.com/autobot-fleet/autobot/executors"
)

// check refuses a cookie that would not belong to the host of address.
func (k *cookie) check(path, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return executors.Invalid(path, "url: %v", err)
	}
	if k.Path == "" {
		k.Path = "/"
	}
	bad := func(s string) bool { return strings.ContainsAny(s, "\x00\r\n;") }
	return first(
		when(k.Name == "" || len(k.Name) > 256 || bad(k.Name) || strings.Contains(k.Name, "="), path+".name", "is not the name of a cookie"),
		when(len(k.Value) > 4096 || bad(k.Value), path+".value", "is not the value of a cookie"), // without the value: it may be secret
		when(!strings.HasPrefix(k.Path, "/") || bad(k.Path), path+".path", "must begin with /"),
		when(k.Domain != "" && !covers(k.Domain, u.Hostname()), path+".domain", "%.80q does not cover %s, the host of url", k.Domain, u.Hostname()),
		oneOf(path+".same_site", k.SameSite, "", "Strict", "Lax", "None"),
	)
}

// covers reports whether a cookie of domain is sent to host. A domain without
// a dot inside would be a whole top-level domain.
func covers(domain, host string) bool {
	domain = strings.ToLower(strings.TrimPrefix(domain, "."))
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if domain == host {
		return true
	}
	return net.ParseIP(host) == nil && strings.Contains(domain, ".") && strings.HasSuffix(host, "."+domain)
}

// option is the cookie as the library takes it, for the host of address.
func (k cookie) option(address string) pw.OptionalCookie {
	domain := k.Domain
	if domain == "" {
		if u, err := url.Parse(address); err == nil {
			domain = u.Hostname()
		}
	}
	c := pw.OptionalCookie{
		Name: k.Name, Value: k.Value, Domain: &domain, Path: &k.Path,
		Expires: k.Expires, HttpOnly: &k.HTTPOnly, Secure: &k.Secure,
	}
	if k.SameSite != "" {
		site := pw.SameSiteAttribute(k.SameSite)
		c.SameSite = &site
	}
	return c
}
