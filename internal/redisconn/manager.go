package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/configfile"
)

// Manager hands out clients for the named databases. It is safe for concurrent
// use. Close it after use.
type Manager struct {
	cfg     Config
	address *address
	route   *route // in a cluster, else nil
	conns   connections
	tls     *tls.Config
	log     *zap.Logger
	metrics *metrics
	reg     prometheus.Registerer
	pools   *poolCollector

	life context.Context // ends with Close
	end  context.CancelFunc

	mu        sync.Mutex
	closed    bool
	databases map[string]*database
	own       map[redis.UniversalClient]bool // to be closed with the Manager
}

// ErrClosed is returned by a Manager after Close.
var ErrClosed = errors.New("the Redis connections are closed")

// New checks cfg, reads the files it names and returns a Manager that has
// connected to nothing yet. reg gets the metrics; a nil reg or log means that
// nobody reads them. The error is a *configfile.Error if cfg is to blame.
func New(cfg Config, log *zap.Logger, reg prometheus.Registerer) (*Manager, error) {
	if problems := cfg.Validate(); len(problems) > 0 {
		for i := range problems {
			problems[i].Key = "redis." + problems[i].Key
		}
		return nil, &configfile.Error{Problems: problems}
	}
	if cfg.URL == "" && len(cfg.Addrs) == 0 {
		return nil, &configfile.Error{Problems: []configfile.Problem{{
			Key: "redis.url", Message: "is not set: where is Redis? (for example redis://127.0.0.1:6379/0)",
		}}}
	}
	addr, bad := cfg.address()
	if bad != nil {
		return nil, fmt.Errorf("redis.%w", bad)
	}
	if log == nil {
		log = zap.NewNop()
	}
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &Manager{
		cfg: cfg.withDefaults(), address: addr, log: log, reg: reg,
		databases: map[string]*database{}, own: map[redis.UniversalClient]bool{},
	}
	m.life, m.end = context.WithCancel(context.Background())
	if err := m.useSecretFiles(); err != nil {
		return nil, err
	}
	var err error
	if addr.tls {
		if m.tls, err = m.cfg.TLS.build(); err != nil {
			return nil, err
		}
	}
	if addr.mode == clusterMode {
		m.route = &route{slot: slotOf(cfg.Prefix), seeds: addr.hosts}
	}
	if m.metrics, err = newMetrics(reg); err != nil {
		return nil, fmt.Errorf("register the metrics of Redis: %w", err)
	}
	m.pools = newPoolCollector(m)
	if err := reg.Register(m.pools); err != nil && !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
		return nil, fmt.Errorf("register the metrics of Redis: %w", err)
	}
	library.add(m)
	return m, nil
}

// Client returns a client of a database for loops that must never be blocked by
// the circuit breaker. All calls for a database share one pool, which is opened
// when it is first used. Closing the client does nothing.
func (m *Manager) Client(name string) (redis.UniversalClient, error) {
	db, err := m.openPool(name)
	if err != nil {
		return nil, err
	}
	return db.client, nil
}

// Guarded returns a client on the same pool as Client that fails at once, with
// ErrCircuitOpen, while the breaker of the database is open.
func (m *Manager) Guarded(name string) (redis.UniversalClient, error) {
	db, err := m.openPool(name)
	if err != nil {
		return nil, err
	}
	db.callers.Store(true)
	return db.guard, nil
}

// Refuses returns how long the breaker of a database still refuses the calls of
// guarded clients, 0 while they are served. It asks nobody.
func (m *Manager) Refuses(name string) (time.Duration, error) {
	m.mu.Lock()
	db, err := m.database(name)
	m.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return db.breaker.refuses(), nil
}

// DedicatedOptions shape a client outside the pools.
type DedicatedOptions struct {
	// Name is shown by CLIENT LIST after "autobot:". Default: the database.
	Name string

	// ReadTimeout bounds waiting for a reply; commands that block get the time
	// they ask for on top. Default: Config.Timeout. -1 means no limit.
	ReadTimeout time.Duration

	// MaxRetries is how often a command is sent again after a failure.
	// Default, and -1: never.
	MaxRetries int

	// PoolSize is how many connections it may have. Default 1.
	PoolSize int

	// OnConnect is called for each new connection before it is used, for
	// example to learn its CLIENT ID. An error closes the connection.
	OnConnect func(ctx context.Context, conn *redis.Conn) error
}

// Dedicated returns a client with connections of its own. It reports into the
// breaker of the database but is never blocked by it. The caller closes it; the
// Manager closes what is left.
func (m *Manager) Dedicated(name string, o DedicatedOptions) (redis.UniversalClient, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	db, err := m.database(name)
	if err != nil {
		return nil, err
	}
	s := settings{name: "autobot:" + db.name, poolSize: 1, readTimeout: m.cfg.Timeout, maxRetries: -1, onConnect: o.OnConnect}
	if o.Name != "" {
		s.name = "autobot:" + o.Name
	}
	if o.ReadTimeout != 0 {
		s.readTimeout = o.ReadTimeout
	}
	if o.MaxRetries > 0 {
		s.maxRetries = o.MaxRetries
	}
	if o.PoolSize > 0 {
		s.poolSize = o.PoolSize
	}
	life, end := context.WithCancel(m.life)
	c := m.open(life, db, s)
	c.AddHook(&hook{db: db})
	m.own[c] = true
	return &dedicated{UniversalClient: c, m: m, end: end}, nil
}

// dedicated forgets itself when it is closed.
type dedicated struct {
	redis.UniversalClient
	m   *Manager
	end context.CancelFunc
}

// Close ends the connections, and attempts to make one.
func (d *dedicated) Close() error {
	d.end()
	d.m.mu.Lock()
	delete(d.m.own, d.UniversalClient)
	d.m.mu.Unlock()
	return ignoreClosed(d.UniversalClient.Close())
}

// Prefix returns what the names of all keys in the database main start with.
func (m *Manager) Prefix() string { return m.cfg.Prefix }

// Cluster reports whether the server is a Redis Cluster.
func (m *Manager) Cluster() bool { return m.address.mode == clusterMode }

// Address returns where Redis is, for people: hosts without user and password.
func (m *Manager) Address() string { return redacted(m.address.hosts) }

// DatabasePrefix returns what the names of all keys in a database start with.
// In a cluster the databases other than main are told apart by it.
func (m *Manager) DatabasePrefix(name string) (string, error) {
	name, err := canonical(name)
	if err != nil {
		return "", err
	}
	if !m.Cluster() || name == Main {
		return m.cfg.Prefix, nil
	}
	return m.cfg.Prefix + name + ":", nil
}

// Close closes all clients. It may be called more than once.
func (m *Manager) Close() error {
	m.mu.Lock()
	closing := !m.closed
	m.closed = true
	var clients []redis.UniversalClient
	for c := range m.own {
		clients = append(clients, c)
	}
	clear(m.own)
	m.mu.Unlock()
	if !closing {
		return nil
	}
	m.end()
	var errs []error
	for _, c := range clients {
		errs = append(errs, ignoreClosed(c.Close()))
	}
	m.reg.Unregister(m.pools)
	library.remove(m)
	return errors.Join(errs...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, redis.ErrClosed) {
		return nil
	}
	return err
}

// openPool returns a database with its pool.
func (m *Manager) openPool(name string) (*database, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	db, err := m.database(name)
	if err != nil {
		return nil, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.pool != nil {
		return db, nil
	}
	db.pool = m.open(m.life, db, m.poolSettings(db))
	db.client = m.view(db, &hook{db: db})
	db.guard = m.view(db, &hook{db: db, guarded: true})
	m.own[db.pool] = true
	return db, nil
}

// database returns what is known about a database. m.mu is held.
func (m *Manager) database(name string) (*database, error) {
	if m.closed {
		return nil, ErrClosed
	}
	name, err := canonical(name)
	if err != nil {
		return nil, err
	}
	if db, ok := m.databases[name]; ok {
		return db, nil
	}
	db := &database{name: name, number: m.cfg.number(name, m.address.database), metrics: m.metrics, told: m.learn}
	db.breaker = newBreaker(name, m.cfg.Breaker, func(from, to gobreaker.State) { m.breakerChanged(db, from, to) })
	m.metrics.plainState.WithLabelValues(name).Set(0)
	m.metrics.state.WithLabelValues(name).Set(0)
	m.databases[name] = db
	return db, nil
}

// used returns the databases that were asked for, by name.
func (m *Manager) used() []*database {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*database, 0, len(m.databases))
	for _, db := range m.databases {
		out = append(out, db)
	}
	slices.SortFunc(out, func(a, b *database) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return out
}

// breakerChanged notes a change of state. It is called with the breaker locked.
func (m *Manager) breakerChanged(db *database, from, to gobreaker.State) {
	event := map[gobreaker.State]string{
		gobreaker.StateOpen: "opened", gobreaker.StateHalfOpen: "half_open", gobreaker.StateClosed: "closed",
	}[to]
	m.metrics.breakerEvent(db.name, event, "")
	m.metrics.plainState.WithLabelValues(db.name).Set(stateValue(to))
	m.metrics.state.WithLabelValues(db.name).Set(stateValue(to))
	fields := []zap.Field{zap.String("database", db.name)}
	switch {
	case !db.callers.Load(): // nobody is refused: the loops tell of the outage themselves
		m.log.Debug("circuit breaker of redis", append(fields, zap.String("state", stateName(to)))...)
	case to == gobreaker.StateOpen && from == gobreaker.StateClosed:
		m.log.Warn("redis fails repeatedly: requests are refused for a while",
			append(fields, zap.Duration("retry_after", db.breaker.openFor.Round(time.Second)))...)
	case to == gobreaker.StateClosed:
		m.log.Info("redis answers again: requests are served", fields...)
	default:
		m.log.Debug("circuit breaker of redis", append(fields, zap.String("state", stateName(to)))...)
	}
}
