package redisconn

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/redistest"
)

func TestFactsOfAnOpenServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithAOF(), redistest.WithConfig("maxclients", "123"))
	m, reg := newManager(t, Config{URL: srv.URL()})
	f, err := m.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(f.Version, ".") || len(f.RunID) != 40 || f.MaxmemoryPolicy != "noeviction" || f.Appendonly != "yes" ||
		f.MaxClients != "123" || !f.ClockKnown || f.ClockDifference.Abs() > 30*time.Second {
		t.Errorf("facts: %v", f)
	}
	if w := Warnings(f); len(w) != 0 {
		t.Errorf("warnings %q", w)
	}
	if got := metric(t, reg, "autobot_redis_eviction_possible", "main"); got != 0 {
		t.Errorf("metric %v", got)
	}
}

func TestEvictionIsNoticed(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithConfig("maxmemory-policy", "allkeys-lru"))
	m, reg := newManager(t, Config{URL: srv.URL()})
	f, err := m.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if w := Warnings(f); len(w) != 1 || !strings.Contains(w[0], "maxmemory-policy allkeys-lru") {
		t.Errorf("warnings %q", w)
	}
	if got := metric(t, reg, "autobot_redis_eviction_possible", "main"); got != 1 {
		t.Errorf("metric %v", got)
	}
	if h := m.Health(); h.OverallHealthy || h.Databases[Main].State != StateDegraded {
		t.Errorf("health %+v", h)
	}
	if err := srv.Client(t).ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Facts(t.Context()); err != nil || !m.Health().OverallHealthy {
		t.Errorf("after the repair: %v, %+v", err, m.Health())
	}
}

func TestB46FactsThatMayNotBeAsked(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	admin := srv.Client(t)
	if err := admin.Do(t.Context(), "acl", "setuser", "worker", "on", ">geheim", "~*", "+ping", "+get", "+hello", "+select").Err(); err != nil {
		t.Fatal(err)
	}
	m, _ := newManager(t, Config{URL: "redis://worker:geheim@" + srv.Addr() + "/4"})
	f, err := m.Facts(t.Context())
	want := Facts{Version: Unknown, RunID: Unknown, MaxmemoryPolicy: Unknown, Appendonly: Unknown, MaxClients: Unknown}
	if err != nil || f != want {
		t.Errorf("facts: %v, %v", f, err)
	}
	if len(Warnings(f)) != 0 {
		t.Errorf("warnings %q", Warnings(f))
	}
	if err := client(t, m, Main).Set(t.Context(), "k", 1, 0).Err(); IsWait(err) || Reason(err) != ReasonPermission {
		t.Errorf("a command that is not allowed: %v (%s)", err, Reason(err))
	}
	if got := m.Health().Databases[Main].Metrics.CircuitBreakerState; got != "closed" {
		t.Errorf("the breaker is %s", got)
	}
	if err := client(t, m, Main).Get(t.Context(), "k").Err(); Reason(err) != ReasonOther {
		t.Errorf("a command that is allowed: %v", err)
	}
}

func TestMiniredisWorks(t *testing.T) {
	t.Parallel()
	m, _ := newManager(t, Config{URL: "redis://" + redistest.StartMini(t)})
	f, err := m.Facts(t.Context())
	if err != nil || f.MaxmemoryPolicy != Unknown || f.Version != Unknown && f.Version == "" {
		t.Errorf("facts: %v, %v", f, err)
	}
	for _, name := range []string{Main, "cache"} {
		if err := guarded(t, m, name).Set(t.Context(), "k", 1, time.Minute).Err(); err != nil {
			t.Error(err)
		}
	}
	own := must(m.Dedicated(Main, DedicatedOptions{Name: "x"}))(t)
	if err := own.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	if h := m.Health(); !h.OverallHealthy || h.TotalFailures != 0 {
		t.Errorf("health %+v", h)
	}
}

func TestFactsOfNoServer(t *testing.T) {
	t.Parallel()
	m, _ := newManager(t, Config{URL: "redis://:geheim@127.0.0.1:1"})
	_, err := m.Facts(t.Context())
	if !IsWait(err) || !strings.Contains(err.Error(), "ask Redis at 127.0.0.1:1 about itself") || strings.Contains(err.Error(), "geheim") {
		t.Errorf("got %v", err)
	}
}

func TestWarningsByVersion(t *testing.T) {
	t.Parallel()
	for version, old := range map[string]bool{
		"6.0.16": true, "5.0.7": true, "6.2.0": false, "7.0.15": false, "10.1": false, Unknown: false, "x.y": false,
	} {
		if got := len(Warnings(Facts{Version: version, MaxmemoryPolicy: Unknown})) == 1; got != old {
			t.Errorf("%s counts as old: %v", version, got)
		}
	}
}

func TestShapesOfHealthAndInfo(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	m, _ := newManager(t, Config{URL: srv.URL()})
	if got := toJSON(t, m.Health()); got != `{"overall_healthy":false,"total_databases":0,"healthy_databases":0,`+
		`"total_requests":0,"total_failures":0,"success_rate":100,"databases":{}}` {
		t.Errorf("health before use: %s", got)
	}
	info := m.Info(t.Context(), "locks")
	if !info.Connected || info.ClientExists || info.Database != "sessions" || info.Health != StateHealthy {
		t.Errorf("info %+v", info)
	}
	if !m.Info(t.Context(), "sessions").ClientExists {
		t.Error("the second time the client exists")
	}
	wantKeys(t, m.Info(t.Context(), "locks"), "client_exists connected database health metrics")
	wantKeys(t, m.Info(t.Context(), "nonsense"), "connected database error")
	wantKeys(t, m.Health(), "databases healthy_databases overall_healthy success_rate total_databases total_failures total_requests")
	wantKeys(t, m.Health().Databases["sessions"], "metrics state")
	const metricNames = "active_connections avg_response_time_ms circuit_breaker_state created_connections failed_connections failed_requests " +
		"last_error last_error_time last_success_time reconnections total_requests"
	h := m.Health().Databases["sessions"].Metrics
	wantKeys(t, h, metricNames)
	if h.TotalRequests != 3 || h.LastError != nil || h.LastErrorTime != nil || h.LastSuccessTime == nil || h.CreatedConnections != 1 || h.AvgResponseTimeMS <= 0 {
		t.Errorf("metrics %s", toJSON(t, h))
	}
	all, err := m.Metrics()
	if err != nil || all["sessions"].SuccessRate != 100 {
		t.Errorf("metrics %v, %v", all, err)
	}
	if one, err := m.Metrics("cache"); err != nil || len(one) != 0 {
		t.Errorf("metrics of an unused database: %v, %v", one, err)
	}
	if _, err := m.Metrics("nonsense"); err == nil {
		t.Error("metrics of an unknown database")
	}
	srv.Stop()
	if info := m.Info(t.Context(), "sessions"); info.Connected || info.Error == "" {
		t.Errorf("info %+v", info)
	}
	if h := m.Health(); h.OverallHealthy || h.TotalFailures != 1 || h.SuccessRate != 75 {
		t.Errorf("health %s", toJSON(t, h))
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func wantKeys(t *testing.T, v any, want string) {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(toJSON(t, v)), &m); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	if got := strings.Join(keys, " "); got != want {
		t.Errorf("keys %s, want %s", got, want)
	}
}
