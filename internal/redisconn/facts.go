package redisconn

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/configfile"
)

// Unknown stands for a fact that the server does not tell, usually because our
// user may not run INFO or CONFIG.
const Unknown = "unknown"

// Facts are what a server says about itself. Texts are Unknown if it does not
// say.
type Facts struct {
	Version         string
	RunID           string
	MaxmemoryPolicy string
	Appendonly      string // yes or no
	MaxClients      string

	// ClockDifference is how far the server's clock is ahead of ours, if
	// ClockKnown. It is exact to half the time the question took.
	ClockDifference time.Duration
	ClockKnown      bool
}

// Facts asks the server of the database main about itself. The error is that of
// a server that cannot be reached; what a server does not tell is Unknown. The
// policy found is remembered: it shows in Health and in a metric.
func (m *Manager) Facts(ctx context.Context) (Facts, error) {
	db, err := m.openPool(Main)
	if err != nil {
		return Facts{}, err
	}
	f, err := readFacts(ctx, db.client)
	if err != nil {
		return Facts{}, fmt.Errorf("ask Redis at %s about itself: %w", m.Address(), err)
	}
	unsafe := evicts(f.MaxmemoryPolicy)
	db.stats.mu.Lock()
	db.stats.policyUnsafe = unsafe
	db.stats.mu.Unlock()
	value := 0.0
	if unsafe {
		value = 1
	}
	m.metrics.evicts.WithLabelValues(db.name).Set(value)
	return f, nil
}

func readFacts(ctx context.Context, rdb redis.UniversalClient) (Facts, error) {
	f := Facts{Version: Unknown, RunID: Unknown, MaxmemoryPolicy: Unknown, Appendonly: Unknown, MaxClients: Unknown}
	// A server that cannot save refuses PING too, and answers the rest.
	if err := rdb.Ping(ctx).Err(); err != nil && Reason(err) != ReasonSaving {
		return f, err
	}
	before := time.Now()
	if now, err := rdb.Time(ctx).Result(); err == nil {
		after := time.Now()
		f.ClockDifference, f.ClockKnown = now.Sub(before.Add(after.Sub(before)/2)), true
	}
	info := map[string]string{}
	for _, section := range []string{"server", "memory", "persistence", "clients"} {
		if text, err := rdb.Info(ctx, section).Result(); err == nil { // else it may not be allowed
			parseInfo(text, info)
		}
	}
	set := func(field *string, value string) {
		if value != "" && *field == Unknown {
			*field = value
		}
	}
	set(&f.Version, info["redis_version"])
	set(&f.RunID, info["run_id"])
	set(&f.MaxmemoryPolicy, info["maxmemory_policy"])
	set(&f.MaxClients, info["maxclients"])
	set(&f.Appendonly, map[string]string{"1": "yes", "0": "no"}[info["aof_enabled"]])
	for key, field := range map[string]*string{
		"maxmemory-policy": &f.MaxmemoryPolicy, "appendonly": &f.Appendonly, "maxclients": &f.MaxClients,
	} {
		if *field != Unknown {
			continue
		}
		if values, err := rdb.ConfigGet(ctx, key).Result(); err == nil { // else it may not be allowed
			set(field, values[key])
		}
	}
	return f, ctx.Err()
}

// parseInfo adds the lines of an INFO reply to into.
func parseInfo(text string, into map[string]string) {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			into[key] = value
		}
	}
}

func evicts(policy string) bool { return policy != Unknown && policy != "noeviction" }

// Warnings returns a sentence for each fact that endangers tasks: a server that
// drops keys when it is full, or that is too old.
func Warnings(f Facts) []string {
	var out []string
	if older(f.Version, 6, 2) {
		out = append(out, fmt.Sprintf("Redis %s is older than 6.2, the oldest version that is supported: update it.", f.Version))
	}
	if evicts(f.MaxmemoryPolicy) {
		out = append(out, fmt.Sprintf("Redis drops keys when its memory is full (maxmemory-policy %s), so tasks can be lost: "+
			"run CONFIG SET maxmemory-policy noeviction and write the same into redis.conf.", f.MaxmemoryPolicy))
	}
	return out
}

// older reports whether version is known and below major.minor.
func older(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])
	if errA != nil || errB != nil {
		return false
	}
	return a < major || a == major && b < minor
}

// String returns the facts on one line.
func (f Facts) String() string {
	clock := Unknown
	if f.ClockKnown {
		clock = configfile.FormatDuration(f.ClockDifference.Round(time.Millisecond))
	}
	return fmt.Sprintf("version %s, run id %s, maxmemory-policy %s, appendonly %s, maxclients %s, clock difference %s",
		f.Version, f.RunID, f.MaxmemoryPolicy, f.Appendonly, f.MaxClients, clock)
}
