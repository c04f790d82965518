package playwright

import (
	"errors"
	"strings"
	"time"

	pw "github.com/mxschmitt/playwright-go"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// quietLimit bounds the wait for a quiet network.
const quietLimit = 10 * time.Second

// How long after the end of a call the news of what ended it may come.
const (
	newsWait = 2 * time.Second
	fileNews = 30 * time.Second
)

// waitState is how far the library waits. A quiet network is waited for
// afterwards, because pages that never fall quiet are not a fault.
func (r *run) waitState(until string) *pw.WaitUntilState {
	if until == "load" {
		return pw.WaitUntilStateLoad
	}
	return pw.WaitUntilStateDomcontentloaded
}

// navigate opens an address in the current tab.
func (r *run) navigate(address, until string) error {
	page, limit := r.page(), r.navLimit()
	r.rec.forget(page)
	begin, files := time.Now(), len(r.rec.fileList())
	_, err := page.Goto(address, pw.PageGotoOptions{Timeout: &limit, WaitUntil: r.waitState(until)})
	if isDownload(err) {
		return r.fileArrives(files)
	}
	if err = r.navigationError(address, err); err != nil {
		return err
	}
	if err := r.denied(); err != nil {
		return err
	}
	if until != "networkidle" {
		return nil
	}
	left := min(float64(quietLimit.Milliseconds()), limit-float64(time.Since(begin).Milliseconds()))
	if left > 0 {
		err = page.WaitForLoadState(pw.PageWaitForLoadStateOptions{State: pw.LoadStateNetworkidle, Timeout: &left})
	}
	if left <= 0 || errors.Is(err, pw.ErrTimeout) {
		r.warn("NETWORK_NOT_IDLE", "the network of %s did not fall quiet", address)
		return nil
	}
	return err
}

// fileArrives waits for the news of the file that a navigation turned out to
// be; it comes after the end of the navigation.
func (r *run) fileArrives(before int) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(fileNews); len(r.rec.fileList()) == before && time.Now().Before(deadline); {
		select {
		case <-ticker.C:
		case <-r.over:
			return errSurfaceClosed
		}
	}
	return nil
}

// isDownload reports whether a navigation turned out to be a file.
func isDownload(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Download is starting")
}

// navigationError gives a failed navigation its code. One that turned into a
// download has not failed.
func (r *run) navigationError(address string, err error) error {
	switch {
	case err == nil || isDownload(err):
		return nil
	case errors.Is(err, pw.ErrTimeout):
		e := executors.Errorf(executors.CodeNavigationFailed, "%s was not there within %.0f ms", address, r.navLimit())
		e.Retryable = true
		e.Hint = "raise nav_timeout_ms, or wait for less with wait_until"
		return e
	}
	code := netCode(err.Error())
	if code == "" {
		return err
	}
	if code == "ERR_ABORTED" { // so ends a navigation whose process died; the news of that may be on its way
		if r.awaitNews(); r.reason() != nil {
			return errSurfaceClosed
		}
	}
	return r.netError(address, code)
}

// netCode finds net::ERR_... in a message.
func netCode(message string) string {
	_, rest, found := strings.Cut(message, "net::")
	if !found {
		return ""
	}
	end := strings.IndexFunc(rest, func(c rune) bool { return c != '_' && (c < 'A' || c > 'Z') && (c < '0' || c > '9') })
	if end >= 0 {
		rest = rest[:end]
	}
	return rest
}

// finalNetErrors will not go away by trying again soon.
var finalNetErrors = []string{"ERR_NAME_NOT_RESOLVED", "ERR_CERT_", "ERR_SSL_", "ERR_TOO_MANY_REDIRECTS", "ERR_INVALID_", "ERR_UNSAFE_REDIRECT", "ERR_DISALLOWED_URL_SCHEME", "ERR_UNKNOWN_URL_SCHEME", "ERR_FILE_", "ERR_ACCESS_DENIED"}

func (r *run) netError(address, code string) error {
	if d, ok := r.surface.lane.DenialOf(address); ok && (strings.Contains(code, "TUNNEL") || strings.Contains(code, "PROXY")) {
		return r.denial(d)
	}
	if code == "ERR_UNSAFE_PORT" {
		e := executors.Errorf(executors.CodeEgressDenied, "%s is on a port that browsers do not open (net::%s)", address, code)
		e.Field = "url"
		return e
	}
	e := executors.Errorf(executors.CodeNavigationFailed, "%s could not be opened: net::%s", address, code)
	e.Retryable = true
	for _, prefix := range finalNetErrors {
		if strings.HasPrefix(code, prefix) {
			e.Retryable = false
		}
	}
	if strings.Contains(code, "TUNNEL") {
		e.Hint = "the server does not answer, or its name does not resolve"
	}
	return e
}

// denial is the error for a page that the guard refused. A spent budget is no
// matter of what may be reached.
func (r *run) denial(d egress.Denial) error {
	switch d.Rule {
	case egress.RuleBytes:
		return executors.Errorf(executors.CodeTooLarge, "%s (an administrator can raise executors.playwright.max_page_bytes)", d.Reason)
	case egress.RuleRequests:
		return executors.Errorf(executors.CodeTooLarge, "%s (an administrator can raise executors.playwright.max_requests)", d.Reason)
	}
	return deniedError(&d)
}

// denied reports whether the current tab shows a refusal of the guard in place
// of a page, however it came to be there.
func (r *run) denied() error {
	v := r.rec.visit(r.page())
	if v == nil {
		return nil
	}
	mark, _, _ := strings.Cut(v.mark, ";")
	switch {
	case v.failure != "" && strings.Contains(v.failure, "TUNNEL"):
		if d, ok := r.surface.lane.DenialOf(v.url); ok {
			return r.denial(d)
		}
		return nil // a link that leads nowhere is for the steps to notice
	case mark == egress.MarkDenied:
		if d, ok := r.surface.lane.DenialOf(v.url); ok {
			return r.denial(d)
		}
		e := executors.Errorf(executors.CodeEgressDenied, "%s may not be reached", v.url)
		e.Field = "url"
		return e
	case mark == egress.MarkDNS:
		e := executors.Errorf(executors.CodeNavigationFailed, "the name in %s does not resolve: net::ERR_NAME_NOT_RESOLVED", v.url)
		e.Field = "url"
		return e
	case mark == egress.MarkConnect:
		e := executors.Errorf(executors.CodeNavigationFailed, "%s cannot be reached: net::ERR_CONNECTION_REFUSED or no answer", v.url)
		e.Retryable, e.Field = true, "url"
		return e
	}
	return nil
}
