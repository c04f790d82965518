package control

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/control/store"
	"github.com/autobot-fleet/autobot/internal/check"
	"github.com/autobot-fleet/autobot/internal/configfile"
	"github.com/autobot-fleet/autobot/internal/redisconn"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/backends"
)

// Doctor checks what a control plane and its fleet need. It changes nothing.
type Doctor struct {
	Config *Config
	Files  []string // that the configuration came from

	found       check.List
	address     string // of Redis
	unreachable bool
}

const (
	maxSkew       = 2 * time.Second // between the server's clock and ours
	agentWaiters  = 64              // blocking connections of one agent, at most
	agentOthers   = 6               // its further connections
	clientsShare  = 0.8             // of maxclients that agents may use
	lostFor       = 24 * time.Hour  // how long a dead worker is named
	lostEvents    = 100             // of the failover log
	shownPerCheck = 5               // names listed in one line
)

// Examine looks at everything and returns what it found.
func (d *Doctor) Examine(ctx context.Context) check.List {
	d.found, d.unreachable = nil, false
	d.config()
	d.stateDir()
	d.secrets()
	d.certificate()
	d.api(ctx)
	d.redis(ctx)
	return d.found
}

// Unreachable reports whether Redis could not be reached, or did not answer, in
// the last Examine.
func (d *Doctor) Unreachable() bool { return d.unreachable }

func (d *Doctor) config() {
	if len(d.Files) == 0 {
		d.found.Note("config", "no configuration file: defaults, variables and flags only (a file would be %s)", ConfigFile)
		return
	}
	d.found.OK("config", "%v", d.Files)
}

// redis examines the server and, through it, the fleet.
func (d *Doctor) redis(ctx context.Context) {
	m, err := redisconn.New(d.Config.Redis, zap.NewNop(), nil)
	if err != nil {
		d.found.Fault("redis", err.Error(), "correct the section redis of the configuration")
		return
	}
	defer func() { _ = m.Close() }()
	d.address = m.Address()
	facts, err := m.Facts(ctx)
	if err != nil {
		d.unreachable = redisconn.IsWait(err)
		d.found.Fault("redis", redisconn.Told(err).Error(), redisconn.Repair(err, m.Address()))
		return
	}
	d.found.OK("redis", "%s: %s", m.Address(), facts)
	for _, w := range redisconn.Warnings(facts) {
		text, repair, _ := strings.Cut(w, ": ")
		d.found.Warn("redis", text, strings.TrimSuffix(repair, "."))
	}
	if facts.Appendonly == "no" {
		d.found.Warn("redis", "the append-only file is off: a restart of Redis loses the tasks since the last snapshot",
			"CONFIG SET appendonly yes, and write the same into redis.conf")
	}
	if d.Config.Redis.Cluster || m.Prefix() != "" {
		d.found.Note("redis", "all names start with %q: programs that use the names without it cannot take part", m.Prefix())
	}
	if err := m.Writable(ctx); err != nil && redisconn.Reason(err) != redisconn.ReasonPermission {
		d.found.Fault("redis", redisconn.Told(err).Error(), redisconn.Repair(err, m.Address()))
	}
	d.permissions(ctx, m)
	d.clock(facts)
	rdb, err := m.Client(database)
	if err != nil {
		d.found.Fault("redis", err.Error(), "correct the section redis of the configuration")
		return
	}
	d.leader(ctx, store.New(rdb, m.Prefix()))
	q, err := backends.Open(backends.List, rdb, layoutOptions(d.Config.Failover, m.Prefix()))
	if err != nil {
		d.found.Fault("queues", err.Error(), "correct the configuration")
		return
	}
	d.fleet(ctx, q, facts)
}

// permissions names what our Redis user lacks.
func (d *Doctor) permissions(ctx context.Context, m *redisconn.Manager) {
	if text := m.Lacking(ctx, redisconn.Control); text != "" {
		what, repair, _ := strings.Cut(text, "): ")
		d.found.Fault("redis", what+")", strings.TrimSuffix(repair, "."))
	}
	if l, err := m.Lack(ctx, redisconn.Control); err == nil && len(l.Optional) > 0 {
		d.found.Note("redis", "this Redis user may not run %s: facts about the server stay unknown", strings.Join(l.Optional, ", "))
	}
}

func (d *Doctor) clock(f redisconn.Facts) {
	switch diff := f.ClockDifference; {
	case !f.ClockKnown:
		d.found.Note("clock", "the clock of Redis is unknown")
	case diff.Abs() > maxSkew:
		d.found.Warn("clock", fmt.Sprintf("the clock of Redis differs from this machine's by %v: times in logs and tokens will not match", diff.Round(time.Millisecond)),
			"let both machines keep time by NTP (timedatectl set-ntp true)")
	default:
		d.found.OK("clock", "differs from that of Redis by %v", diff.Round(time.Millisecond))
	}
}

func (d *Doctor) leader(ctx context.Context, s *store.Store) {
	l, err := s.Leader(ctx)
	switch {
	case err != nil:
		d.found.Warn("leader", err.Error(), "let the Redis user of this control plane read autobot:leader and autobot:epoch")
	case l.Holder == "":
		d.found.Warn("leader", "no control plane leads: dead workers are not noticed, delayed tasks wait for an agent to look",
			"start one: systemctl start autobot-control, or autobot-control serve")
	default:
		d.found.OK("leader", "%s leads in epoch %d, its lease has %v left", l.Holder, l.Epoch, l.Left.Round(time.Millisecond))
	}
}

// fleet examines workers and queues.
func (d *Doctor) fleet(ctx context.Context, q queue.Producer, facts redisconn.Facts) {
	workers, err := q.Workers(ctx)
	if err != nil {
		d.found.Fault("workers", redisconn.Told(err).Error(), redisconn.Repair(err, d.address))
		return
	}
	d.workers(workers)
	d.lost(ctx, q, workers)
	d.connections(workers, facts)
	queues, err := q.Queues(ctx)
	if err != nil {
		d.found.Fault("queues", redisconn.Told(err).Error(), redisconn.Repair(err, d.address))
		return
	}
	d.queues(queues)
}

func (d *Doctor) workers(workers []queue.WorkerRecord) {
	var alive, cordoned int
	var silent []string
	for _, w := range workers {
		switch {
		case w.Alive && w.Cordoned:
			cordoned++
		case w.Alive:
			alive++
		case w.Registered:
			silent = append(silent, w.ID)
		}
	}
	if len(silent) > 0 {
		d.found.Warn("workers", fmt.Sprintf("%d registered without a heartbeat: %s", len(silent), some(silent)),
			"wait for the failover (heartbeat_timeout and check_interval), or autobot-control failover scan")
	}
	if alive+cordoned == 0 {
		d.found.Warn("workers", "no worker is alive: tasks wait", "start an agent: systemctl start autobot-agent, or autobot-agent run")
		return
	}
	d.found.OK("workers", "%d alive, %d of them drained by an operator", alive+cordoned, cordoned)
}

// lost names workers that were failed over lately and are not there now: a
// failover takes them off the list of workers.
func (d *Doctor) lost(ctx context.Context, q queue.Producer, workers []queue.WorkerRecord) {
	events, err := q.FailoverLog(ctx, lostEvents)
	if err != nil {
		d.found.Warn("workers", err.Error(), "let the Redis user of this control plane read failover:log")
		return
	}
	known := map[string]bool{}
	for _, w := range workers {
		known[w.ID] = true
	}
	var names []string
	for _, e := range events {
		ago := time.Since(time.UnixMicro(int64(e.Timestamp * 1e6))).Round(time.Second)
		if ago > lostFor || known[e.WorkerID] {
			continue
		}
		known[e.WorkerID] = true
		names = append(names, fmt.Sprintf("%s (%s ago)", e.WorkerID, ago))
	}
	if len(names) > 0 {
		d.found.Warn("workers", "failed over within the last day and not there now: "+some(names),
			"start the agents there again, if these machines still belong to the fleet (what became of their tasks: autobot-control failover log)")
	}
}

// connections compares what the agents may open with what the server allows.
func (d *Doctor) connections(workers []queue.WorkerRecord, facts redisconn.Facts) {
	need := 0
	for _, w := range workers {
		if w.Alive {
			need += min(len(w.Queues), agentWaiters) + agentOthers
		}
	}
	limit, err := strconv.Atoi(facts.MaxClients)
	if err != nil {
		d.found.Note("connections", "the agents may open up to %d connections; maxclients of Redis is unknown", need)
		return
	}
	if float64(need) > clientsShare*float64(limit) {
		d.found.Warn("connections", fmt.Sprintf("the agents may open up to %d connections, more than 80 %% of maxclients (%d)", need, limit),
			fmt.Sprintf("CONFIG SET maxclients %d, and write the same into redis.conf", 2*need))
		return
	}
	d.found.OK("connections", "the agents may open up to %d connections, maxclients is %d", need, limit)
}

func (d *Doctor) queues(queues []queue.QueueInfo) {
	var unwatched, paused []string
	var waiting int64
	for _, q := range queues {
		waiting += q.Waiting
		switch {
		case q.Paused:
			paused = append(paused, q.Name)
		case q.Waiting > 0 && q.Watchers == 0:
			unwatched = append(unwatched, fmt.Sprintf("%s (%d)", q.Name, q.Waiting))
		}
	}
	if len(unwatched) > 0 {
		d.found.Warn("queues", "tasks wait where no living worker watches: "+some(unwatched),
			"start an agent with an executor for the type, or add a plain name to worker.queues of an agent")
	}
	if len(paused) > 0 {
		d.found.Note("queues", "paused: %s (autobot-control queues resume NAME)", some(paused))
	}
	d.found.OK("queues", "%d queues, %d tasks wait", len(queues), waiting)
}

// some lists the first few names.
func some(names []string) string {
	text, rest := names, ""
	if len(names) > shownPerCheck {
		text, rest = names[:shownPerCheck], fmt.Sprintf(" and %d more", len(names)-shownPerCheck)
	}
	out := ""
	for i, n := range text {
		if i > 0 {
			out += ", "
		}
		out += n
	}
	return out + rest
}

// lifetime says how long something still lasts.
func lifetime(d time.Duration) string { return configfile.FormatDuration(d.Truncate(24 * time.Hour)) }
