package agent

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/redisconn"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/backends"
)

const (
	redisPatience = 10 * time.Second
	slowRedis     = 50 * time.Millisecond
	skewNoted     = time.Second // beyond it people are confused by times
	maxWaiters    = 64          // connections that an agent blocks on, at most
)

// redis checks the way to the queue and what is in it.
func (d *Doctor) redis(ctx context.Context, running *Status) {
	const name = "redis"
	cfg := d.Config
	if cfg.Redis.URL == "" && len(cfg.Redis.Addrs) == 0 {
		d.found.Fault(name, "redis.url is not set", "set redis.url in "+ConfigFile+" or AUTOBOT_REDIS_URL, for example redis://main.lan:6379")
		return
	}
	manager, err := redisconn.New(cfg.Redis, zap.NewNop(), nil)
	if err != nil {
		d.found.Fault(name, oneLine(err), "correct the section redis of the configuration")
		return
	}
	defer func() { _ = manager.Close() }()
	ctx, cancel := context.WithTimeout(ctx, redisPatience)
	defer cancel()
	facts, err := manager.Facts(ctx)
	if err != nil {
		d.unreachable = redisconn.IsWait(err)
		d.found.Fault(name, oneLine(redisconn.Told(err)), redisconn.Repair(err, manager.Address()))
		return
	}
	if err := manager.Writable(ctx); err != nil && redisconn.Reason(err) != redisconn.ReasonPermission {
		d.found.Fault(name, oneLine(redisconn.Told(err)), redisconn.Repair(err, manager.Address()))
	}
	d.permissions(ctx, manager)
	pool, err := manager.Client(database)
	if err != nil {
		d.found.Fault(name, oneLine(err), "correct the section redis of the configuration")
		return
	}
	backend, err := backends.Open(backends.List, pool, queueOptions(*cfg, manager.Prefix()))
	if err != nil {
		d.found.Fault(name, oneLine(err), "install a version of the agent that knows this layout")
		return
	}
	d.latency(ctx, backend, manager.Address(), facts)
	for _, w := range redisconn.Warnings(facts) {
		text, repair, _ := strings.Cut(w, ": ")
		d.found.Warn(name, text, strings.TrimSuffix(repair, "."))
	}
	if manager.Cluster() {
		d.found.Warn(name, "Redis Cluster: clients that write names without the prefix "+manager.Prefix()+" cannot take part", "use a single server or Sentinel if such clients exist")
	}
	d.clock(facts)
	d.workers(ctx, backend, running, facts)
	// Queues that only other programs push to become known by this walk. A
	// user who may not SCAN sees the known ones.
	_ = backend.Discover(ctx)
	d.queues(ctx, backend)
}

// permissions names what our Redis user lacks.
func (d *Doctor) permissions(ctx context.Context, manager *redisconn.Manager) {
	if text := manager.Lacking(ctx, redisconn.Agent); text != "" {
		what, repair, _ := strings.Cut(text, "): ")
		d.found.Fault("redis", what+")", strings.TrimSuffix(repair, "."))
	}
	if l, err := manager.Lack(ctx, redisconn.Agent); err == nil && len(l.Optional) > 0 {
		d.found.Note("redis", "this Redis user may not run %s: facts about the server stay unknown, or a wait cannot be ended early", strings.Join(l.Optional, ", "))
	}
}

// latency measures what a claim would wait for.
func (d *Doctor) latency(ctx context.Context, b queue.WorkerSide, address string, facts redisconn.Facts) {
	trips := make([]time.Duration, 0, 5)
	for range cap(trips) {
		began := time.Now()
		if _, err := b.Ping(ctx); err != nil {
			d.found.Fault("redis", oneLine(err), redisconn.Repair(err, address))
			return
		}
		trips = append(trips, time.Since(began))
	}
	slices.Sort(trips)
	median := trips[len(trips)/2]
	text := fmt.Sprintf("%s answers in %s (version %s, maxmemory-policy %s, appendonly %s)",
		address, median.Round(10*time.Microsecond), facts.Version, facts.MaxmemoryPolicy, facts.Appendonly)
	if median > slowRedis {
		d.found.Warn("redis", text+": slow", "look for load on the Redis host (redis-cli --latency, SLOWLOG GET) and at the network between")
		return
	}
	d.found.OK("redis", "%s", text)
}

func (d *Doctor) clock(facts redisconn.Facts) {
	const name = "clock"
	if !facts.ClockKnown {
		d.found.Note(name, "unknown: this Redis user may not run TIME")
		return
	}
	off := -facts.ClockDifference
	direction := "ahead of"
	if off < 0 {
		direction, off = "behind", -off
	}
	if off > skewNoted {
		d.found.Warn(name, fmt.Sprintf("this machine's clock is %s %s that of Redis; leases are not affected, times shown are", off.Round(10*time.Millisecond), direction),
			"set the clocks by NTP on both machines (timedatectl set-ntp true)")
		return
	}
	d.found.OK(name, "differs from that of Redis by %s", off.Round(time.Millisecond))
}

// workers looks for another machine under our name, and counts connections.
func (d *Doctor) workers(ctx context.Context, b queue.Producer, running *Status, facts redisconn.Facts) {
	const name = "fleet"
	list, err := b.Workers(ctx)
	if err != nil {
		d.found.Fault(name, "the registered workers cannot be read: "+oneLine(err), "give this Redis user the permissions of an agent")
		return
	}
	alive, waiters := 0, 0
	for _, w := range list {
		if !w.Alive {
			continue
		}
		alive++
		waiters += min(len(w.Queues), maxWaiters)
		if running != nil && w.ID == running.WorkerID && w.NodeID != "" && w.NodeID != running.NodeID {
			d.found.Fault(name, fmt.Sprintf("the worker id %s is in use on another machine (node %.8s, this is %.8s): a copied disk or state folder", w.ID, w.NodeID, running.NodeID),
				"stop this agent, remove "+workerIDFile+" from "+d.Config.StateDir+" (or set worker.id), start it again")
		}
		if running != nil && w.ID == running.WorkerID && w.Cordoned {
			d.found.Note(name, "an operator drained this worker (resume with: autobot-agent resume)")
		}
	}
	d.found.OK(name, "%d workers, %d of them alive", len(list), alive)
	limit, err := strconv.Atoi(facts.MaxClients)
	if err == nil && waiters > limit*8/10 {
		d.found.Warn(name, fmt.Sprintf("agents may hold %d waiting connections, Redis takes %d in all (maxclients)", waiters, limit), "raise maxclients in redis.conf")
	}
}

// queues names those with waiting tasks that nobody watches.
func (d *Doctor) queues(ctx context.Context, b queue.Producer) {
	const name = "queues"
	list, err := b.Queues(ctx)
	if err != nil {
		d.found.Fault(name, "the queues cannot be read: "+oneLine(err), "give this Redis user the permissions of an agent")
		return
	}
	var waiting int64
	for _, q := range list {
		waiting += q.Waiting
		if q.Waiting > 0 && q.Watchers == 0 {
			d.found.Warn(name, fmt.Sprintf("queue %s has %d waiting tasks and no living worker watches it", q.Name, q.Waiting),
				"start a worker with an executor for its type, or add the name to worker.queues of one")
		}
	}
	d.found.OK(name, "%d queues, %d tasks waiting", len(list), waiting)
}
