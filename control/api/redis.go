package api

import (
	"context"
	"net/http"

	"github.com/autobot-fleet/autobot/internal/redisconn"
)

// Redis is what the API needs of the connection manager.
type Redis interface {
	Health() redisconn.Health
	Info(ctx context.Context, database string) redisconn.Info
}

// redisHealth serves GET /api/redis/health.
func (a *API) redisHealth(w http.ResponseWriter, _ *http.Request) error {
	if a.Redis == nil {
		return missing("the state of the Redis connections")
	}
	return ok(w, a.Redis.Health())
}

// redisInfo serves GET /api/redis/info?database=.
func (a *API) redisInfo(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "database")
	if err != nil {
		return err
	}
	if a.Redis == nil {
		return missing("the state of the Redis connections")
	}
	name := q.Get("database")
	if name == "" {
		name = "main"
	}
	return ok(w, a.Redis.Info(r.Context(), name))
}
