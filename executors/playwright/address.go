package playwright

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// url refuses an address that may not be opened, before anything starts. What
// a name resolves to is looked at when it is dialled.
func (c *checking) url(path, raw string) error {
	if len(raw) > maxURL {
		return executors.Invalid(path, "must have at most %d characters, got %d", maxURL, len(raw))
	}
	if raw == "about:blank" {
		return nil
	}
	_, err := c.guard.CheckURL(raw, egress.URLOptions{AllowData: c.settings.AllowData, Policy: c.policy})
	if err == nil {
		return nil
	}
	var d *egress.Denial
	if errors.As(err, &d) {
		e := deniedError(d)
		e.Field = path
		return e
	}
	return executors.Invalid(path, "%v", err)
}

// narrow returns the policy of a task that limits itself to hosts.
func (c *checking) narrow(hosts []string) (*egress.Policy, error) {
	if len(hosts) == 0 || len(hosts) > 100 {
		return nil, executors.Invalid("egress.hosts", "must list 1 to 100 hosts, got %d", len(hosts))
	}
	narrowed, err := c.guard.Policy().Narrow(hosts)
	if err != nil {
		return nil, executors.Invalid("egress.hosts", "%v", err)
	}
	return &narrowed, nil
}

// policy is what the settings permit.
func (s Settings) policy() (egress.Policy, error) {
	p, err := egress.ParsePolicy(s.Allow, s.Ports)
	p.OnlyListed = s.OnlyListed
	p.DeniedAddrs = egress.FleetAddrs()
	return p, err
}

// deniedError is what a user sees of a denial.
func deniedError(d *egress.Denial) *executors.Error {
	e := executors.Errorf(executors.CodeEgressDenied, "%s", d.Reason)
	e.Field = "url"
	switch {
	case d.Rule == egress.RuleNarrowed:
		e.Hint = "add the host to egress.hosts of the payload"
	case d.Allow != "":
		e.Hint = fmt.Sprintf("an administrator can permit it: executors.playwright.allow: [%q]", d.Allow)
	}
	return e
}

// searchURL puts the words of a search into the address of a result page.
func searchURL(template, query string) string {
	return strings.ReplaceAll(template, "{query}", url.QueryEscape(query))
}

// headerName reports whether s is a token, the grammar of header names
// (RFC 9110, section 5.1).
func headerName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// headerValue reports whether s may be the value of a header: no control
// characters but the tab.
func headerValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
