package api

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/apiwire"
)

const headerRequestID = "X-Request-ID"

var requestIDPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

type requestIDKey struct{}

// requestID is the id of the request that ctx belongs to.
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// outer is what every request passes: an id, safe headers, a log line, JSON
// answers for unknown paths and methods, and a net for panics.
func (a *API) outer(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(headerRequestID)
		if !requestIDPattern.MatchString(id) {
			id = strings.ToLower(rand.Text()[:16])
		}
		r = r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id))
		rec := &recorder{ResponseWriter: w}
		secure(rec.Header())
		rec.Header().Set(headerRequestID, id)
		defer a.finish(rec, r, time.Now())
		if p := r.URL.Path; len(p) > 1 && strings.HasSuffix(p, "/") {
			r = withoutSlash(r)
		}
		h, pattern := mux.Handler(r)
		if pattern == "" {
			unknown(rec, r, h)
			return
		}
		mux.ServeHTTP(rec, r)
	})
}

// secure sets headers that are right for an API; the artifact store and the
// metrics have their own ideas about some of them.
func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
}

// withoutSlash serves /api/tasks/ as /api/tasks: a redirect would lose the
// body with many clients.
func withoutSlash(r *http.Request) *http.Request {
	u := *r.URL
	u.Path = strings.TrimSuffix(u.Path, "/")
	u.RawPath = strings.TrimSuffix(u.RawPath, "/")
	clone := new(http.Request)
	*clone = *r
	clone.URL = &u
	return clone
}

// unknown answers where no route matches. The mux knows whether the path
// exists with other methods.
func unknown(w http.ResponseWriter, r *http.Request, h http.Handler) {
	probe := &probeWriter{header: http.Header{}}
	h.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", probe.header.Get("Allow"))
		reply(w, http.StatusMethodNotAllowed, apiwire.Problem{Detail: "Method Not Allowed"})
		return
	}
	reply(w, http.StatusNotFound, apiwire.Problem{Detail: "Not Found"})
}

// finish logs the request and turns a panic into a 500.
func (a *API) finish(rec *recorder, r *http.Request, start time.Time) {
	if fault := recover(); fault != nil {
		if err, ok := fault.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(fault)
		}
		a.log.Error("a handler panicked", zap.String("request", requestID(r.Context())), zap.String("method", r.Method),
			zap.String("path", r.URL.Path), zap.Any("fault", fault), zap.ByteString("stack", debug.Stack()))
		if rec.status == 0 {
			reply(rec, http.StatusInternalServerError, apiwire.Problem{Detail: internalError(r.Context())})
		}
	}
	// The query is left out: it can carry a token.
	a.log.Debug("request", zap.String("request", requestID(r.Context())), zap.String("method", r.Method),
		zap.String("path", r.URL.Path), zap.Int("status", rec.status), zap.Duration("took", time.Since(start)))
}

// recorder notes the status. Unwrap keeps deadlines, flushing and hijacking
// reachable.
type recorder struct {
	http.ResponseWriter
	status int
}

func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 || w.status < 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// probeWriter catches what the mux would answer.
type probeWriter struct {
	header http.Header
	status int
}

func (p *probeWriter) Header() http.Header         { return p.header }
func (p *probeWriter) WriteHeader(status int)      { p.status = status }
func (p *probeWriter) Write(b []byte) (int, error) { return len(b), nil }

// query reads the query of a request and refuses names that the route does
// not know, so that a typo in a filter never selects everything.
func query(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the query cannot be read: %v", err)
	}
	for name, values := range q {
		if !slices.Contains(known, name) {
			return nil, invalid("query."+name, "is unknown%s", suggest(name, known))
		}
		if len(values) > 1 {
			return nil, invalid("query."+name, "is given %d times", len(values))
		}
	}
	return q, nil
}
