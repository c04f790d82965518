package playwright

import (
	"net/http"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// A surface that was opened ahead serves one task, and only one that asks for
// nothing else than it has.
func TestSpareServesOneTaskThatFitsIt(t *testing.T) {
	t.Parallel()
	web := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if c, err := r.Cookie("seen"); err == nil {
			t.Errorf("%s was asked for with the cookie %v of another task", r.URL, c)
		}
		if want := r.URL.Query().Get("header"); r.Header.Get("X-Test") != want {
			t.Errorf("%s was asked for with X-Test %q, want %q", r.URL, r.Header.Get("X-Test"), want)
		}
		w.Header().Set("Set-Cookie", "seen=1")
	})
	e := newExecutor(t, testSettings(t, at(web)), egress.Options{})
	e.do(t, `{"url":"`+web.URL+`/"}`, nil).good(t)
	for _, tt := range []struct {
		name, payload string
		fits          bool
	}{
		{name: "plain", payload: `{"url":"URL/"}`, fits: true},
		{name: "with a header", payload: `{"url":"URL/?header=one","headers":{"X-Test":"one"}}`, fits: true},
		{name: "the header is gone", payload: `{"url":"URL/"}`, fits: true},
		{name: "another viewport", payload: `{"url":"URL/","viewport":{"width":800,"height":600,"scale":1}}`},
		{name: "another language", payload: `{"url":"URL/","locale":"de-DE"}`},
		{name: "another clock", payload: `{"url":"URL/","timezone":"Europe/Berlin"}`},
		{name: "another browser's name", payload: `{"url":"URL/","user_agent":"test"}`},
		{name: "without scripts", payload: `{"url":"URL/","javascript":false}`},
		{name: "a narrowed policy", payload: `{"url":"URL/","egress":{"hosts":["HOST"]}}`},
		{name: "after its page has died", payload: `{"url":"URL/"}`, fits: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spare := e.readySpare()
			if spare == nil {
				t.Fatal("there is no spare")
			}
			if tt.name == "after its page has died" {
				spare.crashed.Store(true)
			}
			e.do(t, strings.NewReplacer("URL", web.URL, "HOST", at(web)).Replace(tt.payload), nil).good(t)
			if used := e.readySpare() != spare; used != tt.fits {
				t.Errorf("the spare was taken: %v, want %v", used, tt.fits)
			}
			if tt.fits && !spare.closing.Load() {
				t.Error("the spare is still open")
			}
		})
	}
}
