package playwright

import (
	"fmt"

	pw "github.com/mxschmitt/playwright-go"

	"github.com/autobot-fleet/autobot/executors"
)

// setCookiesStep sets cookies for the host of the current page, or of url.
type setCookiesStep struct {
	stepCommon
	URL     string   `json:"url"`
	Cookies []cookie `json:"cookies"`
}

func (s *setCookiesStep) check(c *stepCheck) error {
	if len(s.Cookies) == 0 || len(s.Cookies) > maxCookies {
		return executors.Invalid(c.at("cookies"), "must have 1 to %d entries, got %d", maxCookies, len(s.Cookies))
	}
	if s.URL == "" {
		return nil // run checks them against the page that is open then
	}
	if err := c.url(c.at("url"), s.URL); err != nil {
		return err
	}
	return s.belong(c.at("cookies"), s.URL)
}

func (s *setCookiesStep) belong(path, address string) error {
	for i := range s.Cookies {
		if err := s.Cookies[i].check(fmt.Sprintf("%s[%d]", path, i), address); err != nil {
			return err
		}
	}
	return nil
}

func (s *setCookiesStep) run(r *run) (any, error) {
	address := orElse(s.URL, r.page().URL())
	if err := s.belong(r.where()+".cookies", address); err != nil {
		return nil, err
	}
	return nil, r.addCookies(s.Cookies, address)
}

func (r *run) addCookies(cookies []cookie, address string) error {
	if len(cookies) == 0 {
		return nil
	}
	options := make([]pw.OptionalCookie, len(cookies))
	for i, k := range cookies {
		options[i] = k.option(address)
	}
	return r.surface.ctx.AddCookies(options)
}

// getCookiesStep lists the cookies of the current page, or of urls.
type getCookiesStep struct {
	stepCommon
	URLs []string `json:"urls"`
}

func (s *getCookiesStep) check(c *stepCheck) error {
	return when(len(s.URLs) > 20, c.at("urls"), "must have at most 20 entries, got %d", len(s.URLs))
}

// A shownCookie is a cookie in a result. The value is there only if the
// administrator permits it.
type shownCookie struct {
	Name     string  `json:"name"`
	Value    *string `json:"value,omitempty"`
	Domain   string  `json:"domain"`
	Path     string  `json:"path"`
	Expires  float64 `json:"expires"` // seconds since 1970, -1: with the session
	HTTPOnly bool    `json:"http_only"`
	Secure   bool    `json:"secure"`
	SameSite string  `json:"same_site,omitempty"`
}

func (s *getCookiesStep) run(r *run) (any, error) {
	urls := s.URLs
	if len(urls) == 0 {
		urls = []string{r.page().URL()}
	}
	cookies, err := r.surface.ctx.Cookies(urls...)
	if err != nil {
		return nil, err
	}
	shown := make([]shownCookie, 0, len(cookies))
	for _, k := range cookies {
		c := shownCookie{
			Name: r.secrets.message(k.Name), Domain: k.Domain, Path: k.Path,
			Expires: k.Expires, HTTPOnly: k.HttpOnly, Secure: k.Secure,
		}
		if k.SameSite != nil {
			c.SameSite = string(*k.SameSite)
		}
		if r.ex.settings.CookieValues {
			value := r.secrets.value(k.Value)
			c.Value = &value
		}
		shown = append(shown, c)
	}
	return shown, nil
}
