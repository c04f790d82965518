package egress

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/idna"
)

// MaxURL is how long an address may be, in bytes.
const MaxURL = 2048

// ErrURL is in the errors of CheckURL that are about the text: no web address
// at all, or one that no task may use. What a policy refuses is a *Denial.
var ErrURL = errors.New("not a web address that may be opened")

// URLOptions widen what CheckURL accepts.
type URLOptions struct {
	AllowData bool    // data: addresses
	Policy    *Policy // of the task; nil: the guard's own
}

// CheckURL judges an address before a navigation and returns it parsed, the
// host in its plain spelling. It accepts http, https, about:blank and, if
// asked, data. It asks no name server: addresses behind names are judged when
// they are dialled.
func (g *Guard) CheckURL(raw string, o URLOptions) (*url.URL, error) {
	p := g.policy
	if o.Policy != nil {
		p = *o.Policy
	}
	u, err := parseURL(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	switch u.Scheme {
	case "http", "https":
	case "about":
		if u.Opaque != "blank" || u.RawQuery != "" {
			return nil, fmt.Errorf("%w: of about: addresses only about:blank is served", ErrURL)
		}
		return u, nil
	case "data":
		if !o.AllowData {
			return nil, fmt.Errorf("%w: data: addresses are not permitted here", ErrURL)
		}
		return u, nil
	default:
		return nil, fmt.Errorf("%w: it must begin with http:// or https://, got %q", ErrURL, clip(u.Scheme)+":")
	}
	if err := plainHost(u); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	host, port, err := hostPort(u)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	if d := p.judgeURL(host, port); d != nil {
		d.URL = loggable(u)
		return nil, d
	}
	return u, nil
}

// parseURL refuses everything that a browser repairs and thereby reads
// differently from us: white space, control characters, backslashes.
func parseURL(raw string) (*url.URL, error) {
	if len(raw) > MaxURL {
		return nil, fmt.Errorf("it has %d bytes, at most %d are permitted", len(raw), MaxURL)
	}
	head, _, _ := strings.Cut(raw, "#")
	head, _, _ = strings.Cut(head, "?")
	for _, c := range raw {
		if c <= ' ' || c == 0x7f || c == 0xfeff {
			return nil, fmt.Errorf("it holds white space or a control character")
		}
	}
	if strings.Contains(head, `\`) {
		return nil, fmt.Errorf("it holds a backslash")
	}
	u, err := url.Parse(raw)
	if err != nil {
		var detail *url.Error
		if errors.As(err, &detail) {
			err = detail.Err // without the address, which may hold a password
		}
		return nil, err
	}
	if u.User != nil {
		return nil, fmt.Errorf("it holds a user name or password")
	}
	return u, nil
}

// plainHost writes the host as a browser would: names of other scripts in
// their ASCII form. A host that only becomes an address that way is refused.
func plainHost(u *url.URL) error {
	if u.Host == "" {
		return fmt.Errorf("it has no host")
	}
	name, port := u.Hostname(), u.Port()
	if isASCII(name) {
		return nil
	}
	ascii, err := idna.Lookup.ToASCII(name)
	if err != nil {
		return fmt.Errorf("host %q is no domain name", clip(name))
	}
	if _, addr, err := parseHost(ascii); err != nil || addr.IsValid() {
		return fmt.Errorf("host %q is an unusual spelling of an address", clip(name))
	}
	if u.Host = ascii; port != "" {
		u.Host += ":" + port
	}
	return nil
}

func isASCII(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r >= 0x80 }) < 0
}

// hostPort returns the host in plain spelling and the port, which the scheme
// decides if the address names none.
func hostPort(u *url.URL) (string, uint16, error) {
	text := u.Hostname()
	if strings.HasPrefix(u.Host, "[") {
		text = "[" + text + "]"
	}
	host, _, err := parseHost(text)
	if err != nil {
		return "", 0, err
	}
	port := uint16(80)
	if u.Scheme == "https" {
		port = 443
	}
	if strings.HasSuffix(u.Host, ":") { // "host:" means the default
		return host, port, nil
	}
	if p := u.Port(); p != "" {
		if port, err = parsePort(p); err != nil {
			return "", 0, err
		}
	}
	return host, port, nil
}

// judgeURL judges what can be told without a name server.
func (p Policy) judgeURL(host string, port uint16) *Denial {
	if d := p.judgeHost(host, port); d != nil {
		return d
	}
	_, addr, err := parseHost(host)
	switch {
	case err != nil:
		return deny(host, port, RuleHost, "%v", err)
	case addr.IsValid():
		return p.judge(host, addr, port)
	case isLocalName(host):
		// Either loopback address may be permitted; the dial takes that one.
		d := p.judge(host, loopback4, port)
		if d == nil || p.judge(host, loopback6, port) == nil {
			return nil
		}
		return d
	case p.OnlyListed && p.hostClass(host, port) == hostUnnamed && len(p.CIDRs)+len(p.Addrs) == 0:
		d := deny(host, port, RuleUnlisted, "%s is not on the list of permitted hosts", host)
		d.Allow = host
		return d
	}
	return nil
}

// loggable is an address without what may be secret: user, query, fragment.
func loggable(u *url.URL) string {
	clean := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	text := clean.String()
	const limit = 300
	if len(text) > limit {
		return text[:limit] + "..."
	}
	return text
}
