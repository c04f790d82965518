package egress

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

const (
	maxHost  = 253 // characters of a name, RFC 1035 2.3.4
	maxLabel = 63
)

// parseHost returns the host of a request in the one spelling that policies
// compare: an address without brackets, zone and mapping, or a name in lower
// case without the final dot.
//
// It refuses every spelling that some resolver or browser takes for an
// address and another does not: 127.1, 0x7f000001, 2130706433, 0177.0.0.1,
// digits of other scripts. Browsers turn those into the plain form before
// they ask, so only a client that is up to something sends them.
func parseHost(host string) (name string, addr netip.Addr, err error) {
	host, bracketed := trimBrackets(host)
	if a, e := netip.ParseAddr(host); e == nil {
		switch {
		case a.Zone() != "":
			return "", netip.Addr{}, fmt.Errorf("host %q has a zone", clip(host))
		case bracketed && a.Is4():
			return "", netip.Addr{}, fmt.Errorf("host %q is an IPv4 address in brackets", clip(host))
		}
		a = plain(a)
		return a.String(), a, nil
	}
	if bracketed {
		return "", netip.Addr{}, fmt.Errorf("host %q is no IPv6 address", clip(host))
	}
	name = strings.ToLower(strings.TrimSuffix(host, "."))
	if a, e := netip.ParseAddr(name); e == nil && a.Is4() { // "127.0.0.1."
		return a.String(), a, nil
	}
	if err := checkName(name); err != nil {
		return "", netip.Addr{}, fmt.Errorf("host %q %w", clip(host), err)
	}
	return name, netip.Addr{}, nil
}

func trimBrackets(host string) (string, bool) {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if inner, ok := strings.CutSuffix(inner, "]"); ok {
			return inner, true
		}
	}
	return host, false
}

// checkName accepts letters, digits, hyphens, underscores and dots, within
// the lengths of DNS. A last label that is a number makes a name an address
// for browsers (WHATWG URL, "ends in a number").
func checkName(name string) error {
	if name == "" {
		return fmt.Errorf("is empty")
	}
	if len(name) > maxHost {
		return fmt.Errorf("is longer than %d characters", maxHost)
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > maxLabel {
			return fmt.Errorf("has a part that is empty or longer than %d characters", maxLabel)
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return fmt.Errorf("is no plain host name (names of other scripts are written xn--...)")
			}
		}
	}
	if isNumber(labels[len(labels)-1]) {
		return fmt.Errorf("is an unusual spelling of an address")
	}
	return nil
}

// isNumber reports decimal, octal and hexadecimal numbers; "0x" is zero.
func isNumber(label string) bool {
	digits := "0123456789"
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		label, digits = hex, "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}

// splitTarget splits the host:port of a CONNECT request or of a dial.
func splitTarget(target string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(target)
	if err != nil {
		return "", 0, fmt.Errorf("target %q is not host:port", clip(target))
	}
	if strings.HasPrefix(target, "[") {
		host = "[" + host + "]"
	}
	port, err = parsePort(text)
	return host, port, err
}

// parsePort accepts 1 to 65535 without sign and leading zero.
func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || text[0] == '0' || text[0] == '+' {
		return 0, fmt.Errorf("port %q is not a number from 1 to 65535", clip(text))
	}
	return uint16(n), nil
}

// isLocalName reports names that are loopback by definition (RFC 6761 6.3),
// whatever a resolver says.
func isLocalName(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// clip keeps a stranger's text in messages short.
func clip(text string) string {
	const limit = 80
	if len(text) > limit {
		return text[:limit] + "..."
	}
	return text
}
