package redisconn

import (
	"context"
	"encoding/json"
)

// Metrics are the statistics of one database. Times are Unix seconds, null if
// it never happened.
type Metrics struct {
	CreatedConnections  int64    `json:"created_connections"`
	ActiveConnections   int64    `json:"active_connections"`
	FailedConnections   int64    `json:"failed_connections"`
	Reconnections       int64    `json:"reconnections"`
	TotalRequests       int64    `json:"total_requests"` // successes and failures
	FailedRequests      int64    `json:"failed_requests"`
	AvgResponseTimeMS   float64  `json:"avg_response_time_ms"` // of the last 100
	LastError           *string  `json:"last_error"`
	LastErrorTime       *float64 `json:"last_error_time"`
	LastSuccessTime     *float64 `json:"last_success_time"`
	CircuitBreakerState string   `json:"circuit_breaker_state"` // closed, open or half_open
}

// DatabaseMetrics are Metrics with the share of successes in percent, 100 if
// there were no operations.
type DatabaseMetrics struct {
	Metrics
	SuccessRate float64 `json:"success_rate"`
}

// The states of a database.
const (
	StateHealthy  = "healthy"
	StateDegraded = "degraded" // works, but needs a look: half open, or keys may be evicted
	StateFailed   = "failed"
)

// Health is the state of all databases used so far.
type Health struct {
	OverallHealthy   bool                      `json:"overall_healthy"`
	TotalDatabases   int                       `json:"total_databases"`
	HealthyDatabases int                       `json:"healthy_databases"`
	TotalRequests    int64                     `json:"total_requests"`
	TotalFailures    int64                     `json:"total_failures"`
	SuccessRate      float64                   `json:"success_rate"` // percent
	Databases        map[string]DatabaseHealth `json:"databases"`
}

// DatabaseHealth is the state of one database: healthy, degraded or failed.
type DatabaseHealth struct {
	State   string  `json:"state"`
	Metrics Metrics `json:"metrics"`
}

// Health returns the state of the databases used so far, without asking them.
// It is healthy overall if there is one, and all of them are healthy.
func (m *Manager) Health() Health {
	out := Health{Databases: map[string]DatabaseHealth{}}
	for _, db := range m.used() {
		h := DatabaseHealth{State: db.state(), Metrics: db.snapshot()}
		out.Databases[db.name] = h
		out.TotalDatabases++
		if h.State == StateHealthy {
			out.HealthyDatabases++
		}
		out.TotalRequests += h.Metrics.TotalRequests
		out.TotalFailures += h.Metrics.FailedRequests
	}
	out.OverallHealthy = out.TotalDatabases > 0 && out.HealthyDatabases == out.TotalDatabases
	out.SuccessRate = successRate(out.TotalRequests, out.TotalFailures)
	return out
}

// Metrics returns the statistics of the named databases, or without names of
// all used so far. Names that were not used are left out.
func (m *Manager) Metrics(names ...string) (map[string]DatabaseMetrics, error) {
	wanted := map[string]bool{}
	for _, name := range names {
		name, err := canonical(name)
		if err != nil {
			return nil, err
		}
		wanted[name] = true
	}
	out := map[string]DatabaseMetrics{}
	for _, db := range m.used() {
		if len(names) == 0 || wanted[db.name] {
			s := db.snapshot()
			out[db.name] = DatabaseMetrics{Metrics: s, SuccessRate: successRate(s.TotalRequests, s.FailedRequests)}
		}
	}
	return out, nil
}

// Info is what Manager.Info found about one database.
type Info struct {
	Database     string
	Connected    bool
	Health       string // healthy, degraded or failed; only if connected
	Metrics      Metrics
	ClientExists bool   // its pool was open before it was asked
	Error        string // only if not connected
}

// MarshalJSON writes {database, connected, health, metrics, client_exists} or
// {database, connected, error}.
func (i Info) MarshalJSON() ([]byte, error) {
	if !i.Connected {
		return json.Marshal(struct {
			Database  string `json:"database"`
			Connected bool   `json:"connected"`
			Error     string `json:"error"`
		}{i.Database, false, i.Error})
	}
	return json.Marshal(struct {
		Database     string  `json:"database"`
		Connected    bool    `json:"connected"`
		Health       string  `json:"health"`
		Metrics      Metrics `json:"metrics"`
		ClientExists bool    `json:"client_exists"`
	}{i.Database, true, i.Health, i.Metrics, i.ClientExists})
}

// Info asks a database for a sign of life. It is not blocked by the breaker.
func (m *Manager) Info(ctx context.Context, name string) Info {
	out := Info{Database: name}
	known, err := canonical(name)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	out.Database = known
	m.mu.Lock()
	_, out.ClientExists = m.databases[known]
	m.mu.Unlock()
	db, err := m.openPool(known)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	if err := db.client.Ping(ctx).Err(); err != nil {
		out.Error = err.Error()
		return out
	}
	out.Connected, out.Health, out.Metrics = true, db.state(), db.snapshot()
	return out
}

// state judges a database by its breaker and its last operation.
func (d *database) state() string {
	breaker := d.breaker.state()
	d.stats.mu.Lock()
	defer d.stats.mu.Unlock()
	switch {
	case breaker == "open" || d.stats.lost:
		return StateFailed
	case breaker == "half_open" || d.stats.policyUnsafe:
		return StateDegraded
	default:
		return StateHealthy
	}
}

func successRate(total, failed int64) float64 {
	if total == 0 {
		return 100
	}
	return float64(total-failed) / float64(total) * 100
}

// PoolStatistics are the connections of one database.
type PoolStatistics struct {
	DatabaseName         string   `json:"database_name"`
	CreatedConnections   int64    `json:"created_connections"`
	AvailableConnections int64    `json:"available_connections"`
	InUseConnections     int64    `json:"in_use_connections"`
	MaxConnections       int64    `json:"max_connections"`
	IdleConnections      int64    `json:"idle_connections"`
	LastCleanup          *float64 `json:"last_cleanup"` // always null: idle connections are closed as they are met
}

// PoolStatistics returns the connections of a database. The error tells that
// its pool is not open, or that there is no such database.
func (m *Manager) PoolStatistics(name string) (PoolStatistics, error) {
	known, err := canonical(name)
	if err != nil {
		return PoolStatistics{}, err
	}
	for _, db := range m.used() {
		if db.name == known && db.opened() {
			return m.poolStatistics(db), nil
		}
	}
	return PoolStatistics{}, &noPoolError{known}
}

type noPoolError struct{ name string }

func (e *noPoolError) Error() string { return "the Redis database \"" + e.name + "\" was not used yet" }

func (d *database) opened() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pool != nil
}

func (m *Manager) poolStatistics(db *database) PoolStatistics {
	out := PoolStatistics{DatabaseName: db.name, MaxConnections: int64(m.cfg.PoolSize)}
	db.mu.Lock()
	if db.pool != nil {
		p := db.pool.PoolStats()
		out.IdleConnections = int64(p.IdleConns)
		out.InUseConnections = max(int64(p.TotalConns)-int64(p.IdleConns), 0)
	}
	db.mu.Unlock()
	out.AvailableConnections = max(out.MaxConnections-out.InUseConnections, 0)
	db.stats.mu.Lock()
	out.CreatedConnections = db.stats.created
	db.stats.mu.Unlock()
	return out
}
