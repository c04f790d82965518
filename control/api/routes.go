package api

import (
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/autobot-fleet/autobot/control/auth"
)

// access says who may use a route.
type access int

const (
	open   access = iota // anybody
	reader               // any role
	admin                // role admin
)

// route is one line of the API.
type route struct {
	pattern string // method and path, as http.ServeMux reads them
	who     access
	serve   handler
}

// handler answers a request, or returns an error before it has written.
type handler func(w http.ResponseWriter, r *http.Request) error

// table lists every route. HEAD is served wherever GET is.
func (a *API) table() []route {
	return []route{
		{"POST /api/tasks", admin, a.submit},
		{"GET /api/tasks", reader, a.listTasks},
		{"POST /api/tasks/retry", admin, a.retryMany},
		{"GET /api/tasks/{id}", reader, a.getTask},
		{"DELETE /api/tasks/{id}", admin, a.deleteTask},
		{"GET /api/tasks/{id}/result", reader, a.getResult},
		{"GET /api/tasks/{id}/events", reader, a.taskEvents},
		{"POST /api/tasks/{id}/cancel", admin, a.cancelTask},
		{"POST /api/tasks/{id}/retry", admin, a.retryTask},
		{"POST /api/tasks/{id}/priority", admin, a.reprioritise},

		{"GET /api/queues", reader, a.listQueues},
		{"POST /api/queues/{name}/pause", admin, a.pauseQueue},
		{"POST /api/queues/{name}/resume", admin, a.resumeQueue},

		{"GET /api/workers", reader, a.listWorkers},
		{"GET /api/workers/{id}", reader, a.getWorker},
		{"POST /api/workers/{id}/drain", admin, a.drainWorker},
		{"POST /api/workers/{id}/resume", admin, a.resumeWorker},

		{"GET /api/failover/log", reader, a.failoverLog},
		{"POST /api/failover/scan", admin, a.failoverScan},

		{"GET /api/artifacts/{sha256}", reader, a.getArtifact},
		{"PUT /api/artifacts/{sha256}", admin, a.putArtifact},

		{"POST /v1/audio/speech", admin, a.speech},

		{"GET /api/redis/health", reader, a.redisHealth},
		{"GET /api/redis/info", reader, a.redisInfo},

		{"GET /healthz", open, a.healthz},
		{"GET /readyz", open, a.readyz},
		{"GET /metrics", open, a.metrics()},
		{"GET /api/metrics/prometheus", open, a.metrics()},
		{"GET /api/openapi.json", open, a.openapi},
	}
}

func (a *API) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, rt := range a.table() {
		mux.Handle(rt.pattern, a.adapt(rt.who, rt.serve))
	}
	return mux
}

// adapt turns a handler into an http.Handler: authentication before it, one
// place for errors after it.
func (a *API) adapt(who access, serve handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who != open {
			need := auth.RoleUser
			if who == admin {
				need = auth.RoleAdmin
			}
			if strings.HasPrefix(r.URL.Path, v1) {
				r = keyAsBearer(r)
			}
			id, err := a.Auth.Authenticate(r, need)
			if err != nil {
				a.fail(w, r, nameHeader(r, err))
				return
			}
			r = r.WithContext(auth.WithIdentity(r.Context(), id))
		}
		if err := serve(w, r); err != nil {
			a.fail(w, r, err)
		}
	})
}

// metrics serves what the process has measured. A collector that fails costs
// its own lines only.
func (a *API) metrics() handler {
	gatherer := a.Metrics
	if gatherer == nil {
		gatherer = prometheus.NewRegistry()
	}
	h := promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	return func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)
		return nil
	}
}
