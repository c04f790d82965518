package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// api is the local HTTP API:
//
//	GET  /healthz                  200 while the agent's loops move
//	GET  /readyz                   200 while it can take part in the fleet, else 503
//	GET  /metrics                  Prometheus text
//	GET  /status                   Status as JSON
//	POST /drain, /resume           DrainReply; from this machine only
//	GET  /api/artifacts/{sha256}   artifacts kept on this machine
//
// Errors are {"detail": "..."}.
type api struct {
	log       *zap.Logger
	liveness  func() error
	readiness func() error
	status    func() Status
	drain     func(context.Context) (DrainReply, error)
	resume    func(context.Context) (DrainReply, error)
	metrics   prometheus.Gatherer
	artifacts http.Handler
	hostname  string
}

// DrainReply answers POST /drain and /resume.
type DrainReply struct {
	Draining bool   `json:"draining"`
	Running  int    `json:"running"`        // tasks that are still running
	Note     string `json:"note,omitempty"` // what the caller should know
}

// httpError is an error with the status that a client should see.
type httpError struct {
	status int
	detail string
}

func (e *httpError) Error() string { return e.detail }

// handler returns the API. Over the Unix socket every caller is this user;
// over TCP requests are guarded against web pages and other machines.
func (a *api) handler(overTCP bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", a.adapt(a.getHealth))
	mux.Handle("GET /readyz", a.adapt(a.getReady))
	mux.Handle("GET /status", a.adapt(a.getStatus))
	mux.Handle("POST /drain", a.adapt(a.postDrain))
	mux.Handle("POST /resume", a.adapt(a.postResume))
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics, promhttp.HandlerOpts{ErrorLog: zap.NewStdLog(a.log)}))
	mux.Handle("GET /api/artifacts/", a.artifacts)
	mux.Handle("/", a.adapt(func(_ http.ResponseWriter, r *http.Request) error {
		return &httpError{http.StatusNotFound, "no such address: " + r.Method + " " + r.URL.Path + " (the local API has GET /healthz /readyz /metrics /status /api/artifacts/{sha256} and POST /drain /resume)"}
	}))
	var h http.Handler = mux
	if overTCP {
		h = a.guard(h)
	}
	return h
}

// adapt turns a handler's error into a status and {"detail": ...}.
func (a *api) adapt(handle func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := handle(w, r)
		if err == nil {
			return
		}
		a.refuse(w, r, err)
	})
}

func (a *api) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	var he *httpError
	if errors.As(err, &he) {
		status = he.status
	} else {
		a.log.Error("a request of the local API failed", zap.String("path", r.URL.Path), zap.Error(err))
	}
	if err := reply(w, status, map[string]string{"detail": err.Error()}); err != nil {
		a.log.Debug("a client of the local API went away", zap.Error(err))
	}
}

func (a *api) getHealth(w http.ResponseWriter, _ *http.Request) error {
	if err := a.liveness(); err != nil {
		return &httpError{http.StatusServiceUnavailable, err.Error()}
	}
	return reply(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (a *api) getReady(w http.ResponseWriter, _ *http.Request) error {
	if err := a.readiness(); err != nil {
		return &httpError{http.StatusServiceUnavailable, err.Error()}
	}
	return reply(w, http.StatusOK, map[string]string{"status": "ready"})
}

func (a *api) getStatus(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, http.StatusOK, a.status())
}

func (a *api) postDrain(w http.ResponseWriter, r *http.Request) error {
	answer, err := a.drain(r.Context())
	if err != nil {
		return &httpError{http.StatusServiceUnavailable, err.Error()}
	}
	return reply(w, http.StatusOK, answer)
}

func (a *api) postResume(w http.ResponseWriter, r *http.Request) error {
	answer, err := a.resume(r.Context())
	if err != nil {
		return &httpError{http.StatusServiceUnavailable, err.Error()}
	}
	return reply(w, http.StatusOK, answer)
}

func reply(w http.ResponseWriter, status int, body any) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(body)
}
