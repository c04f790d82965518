package control

import (
	"net/http"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/internal/redistest"
)

func TestTheLogNamesAnAddressThatOpens(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cfg := testConfig(t, srv.URL())
	cfg.HTTP.Listen = ":0"
	p := startPlane(t, cfg)
	const started = "control plane started"
	eventually(t, "it has started", func() bool { return p.logs.FilterMessage(started).Len() == 1 })
	fields := p.logs.FilterMessage(started).All()[0].ContextMap()
	if url, _ := fields["url"].(string); !strings.HasPrefix(url, "https://localhost:") || url != p.c.URL() {
		t.Errorf("url %q", url)
	}
	listen, _ := fields["listen"].([]any)
	if len(listen) != 1 || listen[0] != p.c.on.https.Addr().String() {
		t.Errorf("listen %v", fields["listen"])
	}
	if code, body := p.call("GET", "/healthz", ""); code != http.StatusOK {
		t.Errorf("%s answers %d %s", p.c.URL(), code, body)
	}
}

func TestASpecificAddressIsToldAsItIs(t *testing.T) {
	t.Parallel()
	l, err := openListeners(HTTPConfig{Listen: "127.0.0.1:0", PlainListen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	if got := openable(l.https.Addr(), "localhost"); got != l.https.Addr().String() {
		t.Errorf("got %s", got)
	}
	if got := l.addresses(); len(got) != 2 || got[0] == got[1] {
		t.Errorf("addresses %v", got)
	}
}
