package probes

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	pw "github.com/mxschmitt/playwright-go"

	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// permitted tries what must work behind the guard, and what the guard can
// only refuse before the browser is asked.
func (r *runner) permitted(t *testing.T) {
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "INNER") }))
	defer inner.Close()
	target := netip.MustParseAddrPort(inner.Listener.Addr().String())
	policy := r.guard.Policy()
	policy.Addrs = append(policy.Addrs, target)
	v, err := r.visit(context.Background(), egress.Limits{Policy: &policy})
	if err != nil {
		t.Fatal(err)
	}
	defer v.close()
	r.lanes[netip.MustParseAddrPort(strings.TrimPrefix(v.lane.URL(), "http://")).Port()] = true
	for address, want := range map[string]string{
		inner.URL + "/":       "INNER",
		"data:text/html,DATA": "DATA",
		"about:blank":         "",
		"http://site.test/":   "SITE",
		"https://site.test/":  "SITE",
		"http://site.test/redirect?to=" + inner.URL + "/": "INNER",
	} {
		if _, err := v.page.Goto(address, pw.PageGotoOptions{WaitUntil: pw.WaitUntilStateDomcontentloaded}); err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if text, err := v.page.Content(); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: %q, %v; want %s", address, text, err, want)
		}
	}
	if d := v.lane.Denials(); len(d) > 0 {
		t.Errorf("denied what is permitted: %v", d)
	}
	for _, address := range []string{"file:///etc/passwd", "view-source:file:///etc/passwd", "chrome://version/", "chrome://gpu/", "devtools://devtools/bundled/inspector.html", "ftp://127.0.0.1/", "javascript:1", "ws://127.0.0.1/"} {
		if _, err := r.guard.CheckURL(address, egress.URLOptions{AllowData: true}); err == nil {
			t.Errorf("%s passes the check before a navigation", address)
		}
	}
	for _, address := range []string{"http://site.test/redirect?to=file:///etc/passwd", "http://site.test/location?to=file:///etc/passwd"} {
		_, _ = v.page.Goto(address)
		if text, err := v.page.Content(); err == nil && strings.Contains(text, "root:") {
			t.Errorf("%s shows the file", address)
		}
	}
}
