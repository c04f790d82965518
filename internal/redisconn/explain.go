package redisconn

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Explain returns why err happened as the second half of a sentence for people:
// "Redis does not serve: " + Explain(err). Each reason has its own.
func Explain(err error) string {
	if wait, open := RetryAfter(err); open {
		return fmt.Sprintf("after repeated failures requests are held back for another %s (redis.breaker)", wait.Round(time.Second))
	}
	if errors.Is(err, ErrCircuitOpen) {
		return "requests are held back after repeated failures"
	}
	var found *unfit
	if errors.As(err, &found) {
		return found.text
	}
	if text, ok := sentences[Reason(err)]; ok {
		return text
	}
	return err.Error()
}

// sentences are what Explain returns by reason.
var sentences = map[string]string{
	ReasonTimeout:     "it does not answer in time",
	ReasonRefused:     "it cannot be reached",
	ReasonReset:       "the connection was cut",
	ReasonAuth:        "it refuses our user, password or certificate",
	ReasonPermission:  "our Redis user lacks a permission (docs/examples/redis/users.acl has all that are needed)",
	ReasonLoading:     "it is still loading its data",
	ReasonReadonly:    "it takes no writes, because it is a replica",
	ReasonSaving:      "it takes no writes, because it cannot save its data to disk",
	ReasonReplicas:    "it takes no writes, because too few replicas are connected (min-replicas-to-write)",
	ReasonOOM:         "its memory is full (maxmemory)",
	ReasonMasterdown:  "it is a replica that has lost its master: a failover is going on",
	ReasonClusterdown: "the cluster is down or moves our keys: a failover is going on",
	ReasonDatabase:    "it has no database of that number",
	ReasonVersion:     "its version is too old",
	ReasonClusterMode: "it is a cluster and our settings are for a single server, or the other way round",
}

// Repair returns what to do about an error, in the imperative. address is where
// Redis is, for people.
func Repair(err error, address string) string {
	switch Reason(err) {
	case ReasonTimeout:
		return "check the way to " + address + ": address, routing, firewall (nc -vz HOST PORT); if Redis is busy: redis-cli SLOWLOG GET"
	case ReasonRefused:
		return "start Redis there (systemctl start redis-server), and let it listen on an address that this machine reaches (bind in redis.conf); or set redis.url to where it is"
	case ReasonReset:
		return "look into the log of Redis: it was stopped, or something between cuts connections"
	case ReasonAuth:
		return "set redis.username and redis.password_file (with TLS: redis.tls) to what Redis expects (redis-cli -h HOST --user NAME --askpass PING)"
	case ReasonPermission:
		return "give the Redis user the permissions of its role in docs/examples/redis/users.acl (what is denied: redis-cli ACL LOG)"
	case ReasonLoading:
		return "wait until Redis has loaded its data"
	case ReasonReadonly, ReasonMasterdown:
		return "if no failover is going on: set redis.url to the master, or use Sentinel (redis+sentinel://HOST:PORT/MASTER)"
	case ReasonSaving:
		return "look into the log of Redis for why saving fails (disk full, permissions of its folder)"
	case ReasonReplicas:
		return "start the replicas, or lower min-replicas-to-write"
	case ReasonOOM:
		return "give Redis more memory (maxmemory) or delete what is not needed"
	case ReasonClusterdown:
		return "if it lasts: redis-cli --cluster check " + first(address) + "; a failed node has to come back or be replaced"
	case ReasonDatabase:
		return "correct the number at the end of redis.url (or redis.databases), or raise databases in redis.conf"
	case ReasonVersion:
		return fmt.Sprintf("update Redis to %d.%d or newer", oldestMajor, oldestMinor)
	case ReasonClusterMode:
		return "for a cluster set redis.cluster: true and redis.prefix with one hash tag, for example {autobot}:; for a single server neither"
	}
	return "check redis.url and that Redis runs there (redis-cli -u URL PING)"
}

// Misfit reports whether err says that the configuration is for another kind of
// server, which no waiting repairs: a single server where there is a cluster, a
// Sentinel or the other way round.
func Misfit(err error) bool { return Reason(err) == ReasonClusterMode }

func first(addresses string) string {
	one, _, _ := strings.Cut(addresses, ",")
	return one
}

// Told returns err with its explanation in front, for logs and states that
// people read. Errors that are no fault of the server stay as they are.
func Told(err error) error {
	if err == nil || Reason(err) == ReasonOther {
		return err
	}
	return &told{err: err, text: Explain(err)}
}

type told struct {
	err  error
	text string
}

func (t *told) Error() string {
	raw := t.err.Error()
	if strings.Contains(raw, t.text) {
		return raw
	}
	return t.text + ": " + raw
}

func (t *told) Unwrap() error { return t.err }
