package redislist

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/queue"
)

// Options are the settings of the layout. The zero value of each field means
// the default in its comment.
type Options struct {
	Prefix             string        // key prefix; one hash tag such as "{autobot}:" in Redis Cluster
	MaxRetries         int           // for tasks that do not say; 3. Negative: none
	ResultTTL          time.Duration // of results and failures; 1 h
	ProgressTTL        time.Duration // 1 h
	RequeueDelay       time.Duration // after a worker's death, plus up to half of it; 0. Seed: 5 s
	RetryBackoff       time.Duration // first retry, doubled each time, +-20 %; 1 s. Negative: at once
	RetryBackoffMax    time.Duration // 60 s
	MaxWorkerDeaths    int           // a task that took down so many workers is quarantined; 4
	RetentionCompleted time.Duration // of completed tasks; 24 h
	RetentionFailed    time.Duration // of failed and cancelled ones; 7 d
	MaxPayload         int           // bytes of a payload that is handed out; queue.MaxPayload

	// WaitReplicas is how many replicas have to confirm what a submission and
	// a finish wrote before they return; 0: none. They wait for WaitTimeout (1 s)
	// at most. A submission then answers ErrUnreplicated; a finish stands, as
	// sending it again would change nothing, and Unreplicated is told. Not for
	// Redis Cluster.
	WaitReplicas int
	WaitTimeout  time.Duration
	Unreplicated func(error)

	// Dial opens a client with a single connection of its own for a blocking
	// waiter. onConnect has to run on each new connection; a read must not
	// time out before the block time has passed. nil: made from the options
	// of the backend's client.
	Dial func(onConnect func(context.Context, *redis.Conn) error) (redis.UniversalClient, error)
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
		if *d < 0 {
			*d = 0
		}
	}
	set(&o.ResultTTL, time.Hour)
	set(&o.ProgressTTL, time.Hour)
	set(&o.RetryBackoff, time.Second)
	set(&o.RetryBackoffMax, time.Minute)
	set(&o.RetentionCompleted, 24*time.Hour)
	set(&o.RetentionFailed, 7*24*time.Hour)
	set(&o.WaitTimeout, time.Second)
	if o.Unreplicated == nil {
		o.Unreplicated = func(error) {}
	}
	if o.MaxRetries == 0 {
		o.MaxRetries = 3
	}
	o.MaxRetries = max(o.MaxRetries, 0)
	if o.MaxWorkerDeaths <= 0 {
		o.MaxWorkerDeaths = 4
	}
	if o.MaxPayload <= 0 {
		o.MaxPayload = queue.MaxPayload
	}
	return o
}

// Backend is the layout on one Redis database. It implements queue.Backend;
// make as many as you like. All state is in Redis, but for what the heartbeats
// of a worker are to look at next (see look).
type Backend struct {
	rdb   redis.UniversalClient
	key   layout
	o     Options
	looks sync.Map // worker id -> *look
}

var _ queue.Backend = (*Backend)(nil)

// New returns the layout on rdb, which stays the caller's to close. It
// connects to nothing.
func New(rdb redis.UniversalClient, o Options) *Backend {
	return &Backend{rdb: rdb, key: layout(o.Prefix), o: o.withDefaults()}
}

// Ping makes one round trip and returns the server's clock.
func (b *Backend) Ping(ctx context.Context) (time.Time, error) {
	return b.rdb.Time(ctx).Result()
}
