package forward

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

var typePattern = regexp.MustCompile(`^[a-z0-9_.-]{1,64}$`)

// Settings are the keys of executors.forward.
type Settings struct {
	// URL is what tasks are posted to, http or https. It is the
	// administrator's choice, so it may be a private address. Without it the
	// executor is not ready.
	URL string `json:"url"`

	// Types are the task types served. Default: ai_processing.
	Types []string `json:"types"`

	// TokenFile, absolute, holds a bearer token; it is read for every task, so
	// it may be replaced. With a token the URL must be https, or loopback.
	TokenFile string `json:"token_file"`

	// Timeout is for tasks that set none. Default: 60s.
	Timeout time.Duration `json:"timeout"`

	// MaxTimeout is what a task can get at most. Default: 1h.
	MaxTimeout time.Duration `json:"max_timeout"`

	// Concurrency is how many requests run at once, 1 to 1000. Default: 16.
	Concurrency int `json:"concurrency"`
}

// Defaults are the settings of an agent that sets none.
func Defaults() Settings {
	return Settings{Types: []string{"ai_processing"}, Timeout: time.Minute, MaxTimeout: time.Hour, Concurrency: 16}
}

// Validate reports every mistake in the settings.
func (s Settings) Validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if s.URL != "" {
		if err := s.checkURL(); err != nil {
			problems = append(problems, err)
		}
	}
	if len(s.Types) == 0 {
		bad("types: must name at least one task type")
	}
	for i, t := range s.Types {
		if !typePattern.MatchString(t) || t == "processing" {
			bad("types[%d]: %q must be 1-64 of [a-z0-9_.-]", i, t)
		}
		if slices.Contains(s.Types[:i], t) {
			bad("types[%d]: %q is there twice", i, t)
		}
	}
	if s.TokenFile != "" && !filepath.IsAbs(s.TokenFile) {
		bad("token_file: %q must be an absolute path", s.TokenFile)
	}
	if s.Timeout < 100*time.Millisecond || s.MaxTimeout < s.Timeout {
		bad("timeout: must be at least 100ms and at most max_timeout, got %s and %s", s.Timeout, s.MaxTimeout)
	}
	if s.Concurrency < 1 || s.Concurrency > 1000 {
		bad("concurrency: must be 1 to 1000, got %d", s.Concurrency)
	}
	return errors.Join(problems...)
}

func (s Settings) checkURL() error {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return errors.New("url: is not a URL") // the text may hold a password
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return fmt.Errorf("url: must begin with http:// or https:// and a host, got %q", u.Redacted())
	case u.User != nil:
		return errors.New("url: must not hold a user name or password (put a bearer token into token_file)")
	case s.TokenFile != "" && u.Scheme == "http" && !loopback(u.Hostname()):
		return fmt.Errorf("url: %s would carry the token of token_file in clear text (use https://)", u)
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
