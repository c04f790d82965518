package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
)

// hold is a toxic that passes nothing on until it is removed, and then
// everything: a network that stalls.
type hold struct{}

// Pipe waits for its removal.
func (*hold) Pipe(stub *toxics.ToxicStub) { <-stub.Interrupt }

// register makes our toxics known to the library, which has one list of them.
var register = sync.OnceFunc(func() {
	toxics.Register("hold", new(hold))
	toxics.Register("rewrite", new(rewrite))
})

// The directions, seen from the program that connects.
const (
	requests = "upstream"
	replies  = "downstream"
)

// wire is the connection of one program to Redis.
type wire struct {
	mu    sync.Mutex // held by the fault that it has
	name  string
	proxy *toxiproxy.Proxy
}

// startWires starts a proxy in front of a server for each name.
func startWires(t testing.TB, server, breaks string, names ...string) []*wire {
	t.Helper()
	register()
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	var out []*wire
	for _, name := range names {
		w := &wire{name: name, proxy: toxiproxy.NewProxy(api, name, "127.0.0.1:0", server)}
		if breaks != "" {
			if err := w.add("rewrite", requests, map[string]any{"break": breaks}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.proxy.Start(); err != nil {
			t.Fatalf("start the proxy of %s: %v", name, err)
		}
		t.Cleanup(func() {
			w.clear()
			w.proxy.Stop()
		})
		out = append(out, w)
	}
	return out
}

// URL is the address for the program.
func (w *wire) URL() string { return "redis://" + w.proxy.Listen }

// add makes connections misbehave in one direction.
func (w *wire) add(toxic, direction string, attributes map[string]any) error {
	if attributes == nil {
		attributes = map[string]any{}
	}
	text, err := json.Marshal(map[string]any{
		"name": toxic + "-" + direction, "type": toxic, "stream": direction, "attributes": attributes,
	})
	if err != nil {
		return err
	}
	if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(string(text))); err != nil {
		return fmt.Errorf("add %s to the %s of %s: %w", toxic, direction, w.name, err)
	}
	return nil
}

// remove ends what add began.
func (w *wire) remove(toxic, direction string) error {
	return w.proxy.Toxics.RemoveToxic(context.Background(), toxic+"-"+direction)
}

// clear removes what is wrong with the connections. A broken move stays.
func (w *wire) clear() {
	for _, toxic := range []string{"hold", "timeout", "limit_data", "reset_peer"} {
		for _, direction := range []string{requests, replies} {
			_ = w.remove(toxic, direction) // most are not there
		}
	}
}

// away closes all connections and refuses new ones; back takes them again.
func (w *wire) away() { w.proxy.Stop() }

func (w *wire) back() error { return w.proxy.Start() }
