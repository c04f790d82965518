package agent

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard keeps web pages and other machines away from the TCP listener.
//
// A page in a browser on this machine can send requests to 127.0.0.1: by a
// name of its own that it points there (DNS rebinding; such a request names
// the page's host), or blindly (a cross-origin POST). Both are refused. POST
// changes what this machine does, so it is for callers on this machine, also
// when http.allow_remote opens the rest.
func (a *api) guard(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ownName(r.Host, a.hostname) {
			a.refuse(w, r, &httpError{http.StatusMisdirectedRequest, "this API answers to localhost, IP addresses and the name of this machine only"})
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			if !fromHere(r.RemoteAddr) {
				a.refuse(w, r, &httpError{http.StatusForbidden, "drain and resume are for callers on this machine: run autobot-agent there, or use autobot-control workers drain"})
				return
			}
			if err := crossOrigin.Check(r); err != nil {
				a.refuse(w, r, &httpError{http.StatusForbidden, err.Error()})
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// ownName reports whether a Host header names this machine in a way that a
// stranger's DNS cannot: an IP address, localhost, or the machine's own name.
func ownName(hostHeader, hostname string) bool {
	host := hostHeader
	if h, _, err := net.SplitHostPort(hostHeader); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	short, _, _ := strings.Cut(hostname, ".")
	return strings.EqualFold(host, "localhost") ||
		hostname != "" && (strings.EqualFold(host, hostname) || strings.EqualFold(host, short))
}

// fromHere reports whether a connection's far end is on this machine.
func fromHere(remoteAddr string) bool {
	host, _, err := net.SplitHostPort(remoteAddr)
	return err == nil && isLoopback(host)
}
