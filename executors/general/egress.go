package general

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

const (
	maxRedirects     = 10
	handshakeTimeout = 10 * time.Second
)

// A guard keeps http_check to what may be reached: the rules of package
// egress, with the codes and the hints of this executor.
type guard struct{ egress *egress.Guard }

func newGuard(allow []string) (*guard, error) {
	policy, err := egress.ParsePolicy(allow, nil)
	if err != nil {
		return nil, err
	}
	policy.DeniedAddrs = egress.FleetAddrs()
	return &guard{egress: egress.New(policy, egress.Options{})}, nil
}

// client returns an HTTP client that reaches only what the guard permits,
// redirects included. It keeps no connection: every request is checked anew.
func (g *guard) client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil,
			DialContext:            g.dial,
			DisableKeepAlives:      true,
			TLSHandshakeTimeout:    handshakeTimeout,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return executors.Errorf(executors.CodeNavigationFailed, "more than %d redirects", maxRedirects)
			}
			if err := checkURL("url", req.URL.String()); err != nil {
				return denied(req.URL.Host, "a redirect leads to %q: %v", req.URL.Redacted(), err)
			}
			return nil
		},
	}
}

// dial is how the client reaches servers.
func (g *guard) dial(ctx context.Context, network, target string) (net.Conn, error) {
	conn, err := g.egress.DialContext(ctx, network, target)
	var d *egress.Denial
	if errors.As(err, &d) {
		return nil, denied(d.Allow, "%s", d.Reason)
	}
	return conn, err
}

// spelling judges addresses as text. What a policy has to say about them is
// said when they are dialled.
var spelling = egress.New(egress.Policy{}, egress.Options{})

// checkURL refuses what is no plain web address.
func checkURL(field, raw string) error {
	u, err := spelling.CheckURL(raw, egress.URLOptions{})
	switch {
	case errors.Is(err, egress.ErrURL):
		return executors.Invalid(field, "%v", err)
	case err == nil && u.Host == "": // about:blank
		return executors.Invalid(field, "must begin with http:// or https://")
	}
	return nil
}

// denied is a refusal. allow is the entry that would permit it, if any would.
func denied(allow, format string, args ...any) *executors.Error {
	e := executors.Errorf(executors.CodeEgressDenied, format, args...)
	e.Field = "url"
	if allow != "" {
		e.Hint = fmt.Sprintf("an administrator can permit it: executors.general.allow: [%q]", allow)
	}
	return e
}
