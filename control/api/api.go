package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/control/auth"
	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

// Monitor is what the API needs of the failover monitor.
type Monitor interface {
	// Scan looks for dead workers now. Where another control plane leads it
	// changes nothing and says so.
	Scan(ctx context.Context) (apiwire.ScanReply, error)
}

// Artifacts is what the API needs of the artifact store. Errors are returned
// before anything is written; an error with a method HTTPStatus says how to
// answer.
type Artifacts interface {
	Get(w http.ResponseWriter, r *http.Request, sha256 string) error
	Put(w http.ResponseWriter, r *http.Request, sha256 string) error
}

// Auth says who sent a request and whether the role suffices; its error is an
// *auth.Error.
type Auth interface {
	Authenticate(r *http.Request, need auth.Role) (auth.Identity, error)
}

// Deps is what the API is made of. Queue and Auth are required; a part that is
// nil answers 503 on its routes.
type Deps struct {
	Queue     queue.Producer
	Monitor   Monitor
	Redis     Redis
	Artifacts Artifacts
	Auth      Auth
	Metrics   prometheus.Gatherer
	Ready     func() (ok bool, reason string) // nil: always ready
	Log       *zap.Logger
	Version   string
}

// Settings of the server. Streams and artifacts move the read and write
// deadlines of their own connections.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 60 * time.Second
	idleTimeout       = 120 * time.Second
	maxHeaderBytes    = 64 << 10
)

// API serves HTTP. Drain ends what would outlive an http.Server.Shutdown.
type API struct {
	Deps
	log      *zap.Logger
	handler  http.Handler
	tune     tuning
	slots    chan struct{} // one per open event stream
	stopping chan struct{}
	stopOnce sync.Once

	mu      sync.Mutex
	stopped bool
	streams sync.WaitGroup
}

// New returns the API. It panics when Queue or Auth is missing: a control
// plane without them cannot be what anybody wants.
func New(d Deps) *API {
	if d.Queue == nil || d.Auth == nil {
		panic("api.New: Deps.Queue and Deps.Auth are required")
	}
	if d.Log == nil {
		d.Log = zap.NewNop()
	}
	a := &API{
		Deps:     d,
		log:      d.Log.Named("api"),
		tune:     defaultTuning(),
		slots:    make(chan struct{}, maxStreams),
		stopping: make(chan struct{}),
	}
	a.handler = a.outer(a.routes())
	return a
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// Server returns an http.Server for the API with all its limits set; address,
// TLS and listeners are the caller's.
func (a *API) Server() *http.Server {
	return &http.Server{
		Handler:           a,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          zap.NewStdLog(a.log.WithOptions(zap.IncreaseLevel(zap.WarnLevel))),
	}
}

// Drain ends all event streams and waits for them, at most until ctx is done.
// Call it before or while the http.Server shuts down; it is final.
func (a *API) Drain(ctx context.Context) error {
	a.stopOnce.Do(func() {
		a.mu.Lock()
		a.stopped = true
		a.mu.Unlock()
		close(a.stopping)
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.streams.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
