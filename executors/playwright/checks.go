package playwright

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/autobot-fleet/autobot/executors"
)

var (
	sessionGrammar  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	localeGrammar   = regexp.MustCompile(`^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,4}$`)
	timezoneGrammar = regexp.MustCompile(`^[A-Za-z0-9_+-]{1,32}(/[A-Za-z0-9_+-]{1,32}){0,2}$`)
)

// base checks the fields of every operation.
func (c *checking) base(p *plan) error {
	if p.Egress != nil {
		narrowed, err := c.narrow(p.Egress.Hosts)
		if err != nil {
			return err
		}
		c.policy, p.policy = narrowed, narrowed
	}
	if p.URL != "" {
		if err := c.url("url", p.URL); err != nil {
			return err
		}
	}
	v := p.Viewport
	return first(
		oneOf("wait_until", p.WaitUntil, "load", "domcontentloaded", "networkidle"),
		between("nav_timeout_ms", p.NavTimeoutMS, 100, maxNav),
		between("step_timeout_ms", p.StepTimeoutMS, 100, maxStep),
		between("viewport.width", int64(v.Width), 320, 3840),
		between("viewport.height", int64(v.Height), 240, 2160),
		when(v.Scale < 1 || v.Scale > 3, "viewport.scale", "must be 1 to 3, got %g", v.Scale),
		when(len(p.UserAgent) > 512 || !headerValue(p.UserAgent), "user_agent", "must be at most 512 characters that a header may have"),
		when(p.Locale != "" && !localeGrammar.MatchString(p.Locale), "locale", "must be a language tag such as de-DE, got %.40q", p.Locale),
		when(p.Timezone != "" && !timezoneGrammar.MatchString(p.Timezone), "timezone", "must be a name such as Europe/Berlin, got %.40q", p.Timezone),
		c.session(p.Session),
		c.blocked(p.BlockResources),
		c.headers(p.Headers),
		c.cookies(p),
	)
}

func (c *checking) session(s *sessionRequest) error {
	if s == nil {
		return nil
	}
	if s.KeepS == nil {
		keep := int64(defaultKeep)
		s.KeepS = &keep
	}
	return first(
		when(!sessionGrammar.MatchString(s.ID), "session.id", "must match %s", sessionGrammar),
		between("session.keep_s", *s.KeepS, 0, maxKeep),
	)
}

func (c *checking) blocked(kinds []string) error {
	for i, kind := range kinds {
		if err := oneOf(fmt.Sprintf("block_resources[%d]", i), kind, "image", "media", "font"); err != nil {
			return err
		}
	}
	return nil
}

// ownHeaders are set by the browser or the guard and by nobody else.
var ownHeaders = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Keep-Alive", "Cookie"}

func (c *checking) headers(headers map[string]string) error {
	if len(headers) > maxHeaders {
		return executors.Invalid("headers", "must have at most %d entries, got %d", maxHeaders, len(headers))
	}
	for name, value := range headers {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !headerName(name) || len(name) > 100:
			return executors.Invalid("headers", "%.40q is not the name of a header", name)
		case slices.Contains(ownHeaders, canonical) || strings.HasPrefix(canonical, "Proxy-") || strings.HasPrefix(canonical, "Sec-"):
			e := executors.Invalid("headers."+name, "this header may not be set")
			if canonical == "Cookie" {
				e.Hint = "use cookies"
			}
			return e
		case len(value) > maxValue || !headerValue(value):
			return executors.Invalid("headers."+name, "is not the value of a header") // without the value: it may be secret
		}
	}
	return nil
}

// cookies checks that cookies belong to the host of url.
func (c *checking) cookies(p *plan) error {
	if len(p.Cookies) > maxCookies {
		return executors.Invalid("cookies", "must have at most %d entries, got %d", maxCookies, len(p.Cookies))
	}
	if len(p.Cookies) > 0 && p.URL == "" {
		return executors.Invalid("cookies", "need url, to whose host they belong")
	}
	for i := range p.Cookies {
		if err := p.Cookies[i].check(fmt.Sprintf("cookies[%d]", i), p.URL); err != nil {
			return err
		}
	}
	return nil
}

// search turns a search into the visit of a result page.
func (c *checking) search(p *plan, in searchPayload) error {
	if !c.settings.Search.configured() {
		e := executors.Errorf(executors.CodeUnsupported, "no search engine is configured on this worker")
		e.Field = "op"
		e.Hint = "an administrator sets executors.playwright.search.url and executors.playwright.search.result"
		return e
	}
	query := strings.TrimSpace(in.Query)
	if in.URL != "" {
		return executors.Invalid("url", "is not a field of search; the address comes from executors.playwright.search.url")
	}
	p.URL = searchURL(c.settings.Search.URL, query)
	return first(
		when(query == "", "query", "is required"),
		when(len(query) > 512, "query", "must have at most 512 bytes, got %d", len(query)),
		between("max_results", int64(in.MaxResults), 1, maxResults),
	)
}

// The helpers below return nil or an INVALID_INPUT error.

func when(bad bool, field, format string, args ...any) error {
	if bad {
		return executors.Invalid(field, format, args...)
	}
	return nil
}

func between(field string, n, low, high int64) error {
	return when(n < low || n > high, field, "must be %d to %d, got %d", low, high, n)
}

func oneOf(field, value string, known ...string) error {
	return when(!slices.Contains(known, value), field, "must be one of %s, got %.80q",
		strings.Join(slices.DeleteFunc(slices.Clone(known), func(s string) bool { return s == "" }), ", "), value)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
