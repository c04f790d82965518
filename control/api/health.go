package api

import (
	_ "embed"
	"net/http"

	"github.com/autobot-fleet/autobot/internal/apiwire"
)

// healthz serves GET /healthz: the process answers.
func (a *API) healthz(w http.ResponseWriter, _ *http.Request) error {
	return ok(w, apiwire.ReadyReply{Status: "ok", Version: a.Version})
}

// readyz serves GET /readyz: 503 and the reason while the control plane
// cannot do its work.
func (a *API) readyz(w http.ResponseWriter, _ *http.Request) error {
	out := apiwire.ReadyReply{Status: "ready", Version: a.Version}
	if a.Ready != nil {
		if ready, reason := a.Ready(); !ready {
			out.Status, out.Detail = "not_ready", reason
			w.Header().Set("Retry-After", "2")
			reply(w, http.StatusServiceUnavailable, out)
			return nil
		}
	}
	return ok(w, out)
}

//go:embed openapi.json
var openapiDocument []byte

// openapi serves GET /api/openapi.json.
func (a *API) openapi(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(openapiDocument) // a caller who has gone does not need it
	return nil
}
