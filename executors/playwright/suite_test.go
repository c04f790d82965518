package playwright

import (
	"bytes"
	"encoding/json"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/executorstest"
)

func binary(t testing.TB, s Settings) executorstest.Binary {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var settings map[string]any
	if err := json.Unmarshal(raw, &settings); err != nil {
		t.Fatal(err)
	}
	recycle := settings["recycle"].(map[string]any) // durations are written as texts
	recycle["age"], recycle["check_interval"] = s.Recycle.Age.String(), s.Recycle.CheckInterval.String()
	return executorstest.Binary{Path: executorstest.Build(t, mainPackage), Settings: settings}
}

func TestContract(t *testing.T) {
	t.Parallel()
	web := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/never":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_, _ = w.Write([]byte(`<title>Hello</title><h1>A heading</h1>`))
		}
	})
	b := binary(t, testSettings(t, at(web)))
	b.Tasks = []executorstest.Case{
		{Name: "screenshot", Type: "playwright", Payload: `{"op": "screenshot", "url": "` + web.URL + `/"}`, Check: func(t *testing.T, r executorstest.Report) {
			data, err := os.ReadFile(filepath.Join(r.Spool, r.Artifacts()[0].Name))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := png.Decode(bytes.NewReader(data)); err != nil {
				t.Error(err)
			}
		}},
		{Name: "fetch by the other name", Type: "browser", Payload: `{"op": "fetch", "url": "` + web.URL + `/"}`},
		{Name: "loopback is refused", Type: "browser", Payload: `{"op": "fetch", "url": "http://127.0.0.1:1/"}`, Code: executors.CodeEgressDenied},
	}
	b.Long = executorstest.Case{Type: "playwright", Payload: `{"op": "fetch", "url": "` + web.URL + `/never", "nav_timeout_ms": 120000, "timeout_ms": 300000}`}
	executorstest.Run(t, b)
}
