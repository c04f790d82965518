package redisconn

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// idleTime is how long an unused connection of a pool is kept.
const idleTime = 5 * time.Minute

// settings are what differs between pools and dedicated connections.
type settings struct {
	name        string
	poolSize    int
	readTimeout time.Duration
	maxRetries  int // -1 for none
	onConnect   func(context.Context, *redis.Conn) error
}

// open returns a client without hooks. It connects when it is used, and when
// closed ends it gives up connecting.
func (m *Manager) open(closed context.Context, db *database, s settings) *redis.Client {
	o := &redis.UniversalOptions{
		Addrs:                      m.address.hosts,
		DB:                         db.number,
		Dialer:                     m.dialer(closed, db),
		OnConnect:                  m.onConnect(s.name, s.onConnect),
		CredentialsProviderContext: m.credentials(),
		SentinelUsername:           m.cfg.SentinelUsername,
		SentinelPassword:           m.cfg.SentinelPassword,
		MasterName:                 m.address.master,

		MaxRetries:            s.maxRetries,
		MinRetryBackoff:       8 * time.Millisecond,
		MaxRetryBackoff:       time.Second,
		DialTimeout:           m.cfg.DialTimeout,
		DialerRetries:         1, // callers have their own back-off
		ReadTimeout:           s.readTimeout,
		WriteTimeout:          m.cfg.Timeout,
		ContextTimeoutEnabled: true,

		PoolSize:         s.poolSize,
		PoolTimeout:      m.cfg.Timeout,
		ConnMaxIdleTime:  idleTime,
		PipelinePoolSize: -1, // pipelines use the same pool

		// Neither tells Redis 6.2 or miniredis anything it knows.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	switch m.address.mode {
	case clusterMode:
		// The dialer chooses the node. See route.
		o.DB = 0
		return redis.NewClient(o.Simple())
	case sentinelMode:
		return redis.NewFailoverClient(o.Failover())
	default:
		opt := o.Simple()
		opt.Network = m.address.network
		return redis.NewClient(opt)
	}
}

// view returns a client on the pool of db that has hooks of its own.
func (m *Manager) view(db *database, h *hook) redis.UniversalClient {
	v := db.pool.WithTimeout(m.cfg.Timeout) // a copy that shares the pool
	v.AddHook(h)
	return &shared{v}
}

func (m *Manager) poolSettings(db *database) settings {
	retries := -1
	if m.cfg.MaxRetries > 0 {
		retries = m.cfg.MaxRetries
	}
	return settings{
		name: "autobot:" + db.name, poolSize: m.cfg.PoolSize, readTimeout: m.cfg.Timeout, maxRetries: retries,
	}
}

// shared is a client on a pool that only the Manager may close.
type shared struct{ redis.UniversalClient }

// Close does nothing: the pool is closed with the Manager.
func (*shared) Close() error { return nil }
