package redismodes

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
)

// state is a state that a server is found in.
type state struct {
	name    string
	prepare func(t *testing.T) access
	say     string // the sentence, in doctor, health and log
	repair  string // in doctor
	code    int    // of doctor: 69 for what passes by itself, 1 for what somebody has to repair
}

const (
	exitFailure     = 1
	exitUnreachable = 69
)

func at(srv *redistest.Server) access { return access{URL: srv.URL()} }

// states lists them all.
var states = []state{
	{"nobody listens", func(*testing.T) access { return access{URL: "redis://127.0.0.1:1"} },
		"it cannot be reached", "systemctl start redis-server", exitUnreachable},
	{"a replica", func(t *testing.T) access {
		srv := redistest.Start(t, redistest.WithReplicaOf(redistest.Start(t)))
		awaitReplica(t, srv)
		return at(srv)
	}, "it takes no writes, because it is a replica", "set redis.url to the master", exitFailure},
	{"a replica without its master", func(t *testing.T) access {
		return at(redistest.Start(t, redistest.WithConfig("replicaof", "127.0.0.1 1"), redistest.WithConfig("replica-serve-stale-data", "no")))
	}, "it is a replica that has lost its master", "set redis.url to the master", exitUnreachable},
	{"loading", loading, "it is still loading its data", "wait until Redis has loaded", exitUnreachable},
	{"a cluster that does not serve our slot", func(t *testing.T) access {
		return access{URL: "redis+cluster://" + redistest.Start(t, redistest.WithConfig("cluster-enabled", "yes")).Addr(), Prefix: clusterPrefix}
	}, "no node of the cluster serves slot 1110", "redis-cli --cluster check", exitUnreachable},
	{"memory is full", func(t *testing.T) access { return at(redistest.Start(t, redistest.WithConfig("maxmemory", "1"))) },
		"its memory is full (maxmemory)", "give Redis more memory", exitFailure},
	{"it cannot save", unsaved, "it cannot save its data to disk", "disk full", exitFailure},
	{"too few replicas", func(t *testing.T) access {
		return at(redistest.Start(t, redistest.WithConfig("min-replicas-to-write", "1")))
	}, "too few replicas are connected", "lower min-replicas-to-write", exitFailure},
	{"a wrong password", func(t *testing.T) access {
		return access{URL: "redis://:wrong@" + redistest.Start(t, redistest.WithPassword("right")).Addr()}
	}, "it refuses our user, password or certificate", "redis.password_file", exitFailure},
	{"no certificate of ours", func(t *testing.T) access {
		ca := redistest.NewCA(t)
		srv := redistest.Start(t, redistest.WithTLS(t, ca))
		c := access{URL: "rediss://" + srv.TLSAddr()}
		c.TLS.CAFile = ca.File("ca.crt")
		return c
	}, "it refuses our user, password or certificate", "redis.tls", exitFailure},
	{"no such database", func(t *testing.T) access { return access{URL: redistest.Start(t).URL() + "/99"} },
		"it has no database of that number", "raise databases in redis.conf", exitFailure},
	{"an old server", func(t *testing.T) access {
		return access{URL: newName(t, redistest.Start(t).Addr(), aged).url()}
	}, "has version 6.0.16; the oldest that is supported is 6.2", "update Redis to 6.2 or newer", exitFailure},
}

// Whatever is wrong with Redis: doctor, health and log say so in a sentence of
// its own, doctor names the repair, and the programs wait.
func TestEachStateOfRedisHasItsSentence(t *testing.T) {
	t.Parallel()
	for _, s := range states {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			c := s.prepare(t)
			a := e2e.StartAgent(t, e2e.Agent{RedisURL: c.URL, ExecutorsDir: t.TempDir(), Config: section(c) + "log:\n  level: info\n  format: console\n"})
			p := e2e.StartControl(t, e2e.Control{RedisURL: c.URL, Config: section(c) + "log:\n  level: info\n  format: console\n"})
			e2e.Await(t, "the agent says what it waits for", func() bool {
				if a.Ended() {
					t.Fatalf("the agent has ended:\n%s", a.Output())
				}
				code, body := a.Get("/readyz")
				return code == http.StatusServiceUnavailable && strings.Contains(string(body), s.say)
			})
			e2e.Await(t, "the control plane says what it waits for", func() bool {
				code, body := p.Call(http.MethodGet, "/readyz", "")
				return code == http.StatusServiceUnavailable && strings.Contains(string(body), s.say)
			})
			for who, log := range map[string]func() string{"agent": a.Output, "control": p.Output} {
				e2e.Await(t, who+" logs it", func() bool { return strings.Contains(log(), s.say) })
			}
			for who, r := range map[string]e2e.Result{"agent": a.CLI("doctor"), "control": p.CLI("doctor")} {
				if r.Code != s.code || !strings.Contains(r.Stdout, s.say) || !strings.Contains(r.Stdout, s.repair) {
					t.Errorf("the doctor of the %s ends with %d, want %d, and should say %q and %q:\n%s%s", who, r.Code, s.code, s.say, s.repair, r.Stdout, r.Stderr)
				}
			}
		})
	}
}

// loading restarts a server that takes a tenth of a second for each of its
// thousand keys.
func loading(t *testing.T) access {
	srv := redistest.Start(t, redistest.WithAOF(), redistest.WithConfig("key-load-delay", "100000"), redistest.WithConfig("rdbcompression", "no"),
		redistest.WithConfig("loading-process-events-interval-bytes", "1024"))
	rdb := srv.Client(t)
	for i := range 1000 {
		if err := rdb.Set(context.Background(), fmt.Sprintf("k%d", i), strings.Repeat("x", 2048), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	command(t, srv, "BGREWRITEAOF")
	e2e.Await(t, "the data is written as it is loaded slowly", func() bool {
		info := rdb.Info(context.Background(), "persistence").Val()
		return strings.Contains(info, "aof_rewrite_in_progress:0") && strings.Contains(info, "aof_rewrite_scheduled:0") &&
			strings.Contains(info, "aof_last_bgrewrite_status:ok")
	})
	srv.RestartLoading()
	return at(srv)
}

// unsaved is a server whose last attempt to save has failed.
func unsaved(t *testing.T) access {
	srv := redistest.Start(t, redistest.WithConfig("save", "3600 1"))
	if err := os.Mkdir(filepath.Join(srv.Dir(), "dump.rdb"), 0o700); err != nil { // where the file is to be
		t.Fatal(err)
	}
	command(t, srv, "BGSAVE")
	e2e.Await(t, "saving fails", func() bool {
		return strings.Contains(srv.Client(t).Info(context.Background(), "persistence").Val(), "rdb_last_bgsave_status:err")
	})
	return at(srv)
}

var versionInHello = regexp.MustCompile(`version\r\n\$\d+\r\n[0-9.]+`)

// aged makes a server say that it is old.
func aged(answer []byte) []byte {
	return versionInHello.ReplaceAll(answer, []byte("version\r\n$$6\r\n6.0.16"))
}

// A server that drops keys when it is full works, so it is a warning: in doctor,
// in the status of the agent, in the health of the connections and in the log.
func TestB46EvictionPolicyIsNamedByAllPrograms(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithConfig("maxmemory-policy", "allkeys-lru"))
	f := startFleet(t, at(srv), at(srv), at(srv))
	const say = "Redis drops keys when its memory is full (maxmemory-policy allkeys-lru), so tasks can be lost"
	for who, output := range map[string]func() string{"agent": f.agents[0].Output, "control": f.control.Output} {
		e2e.Await(t, who+" logs it", func() bool { return strings.Contains(output(), say) })
	}
	for who, r := range f.doctors() {
		if r.Code != 0 || !strings.Contains(r.Stdout, say) || !strings.Contains(r.Stdout, "CONFIG SET maxmemory-policy noeviction") {
			t.Errorf("the doctor of the %s: %d\n%s", who, r.Code, r.Stdout)
		}
	}
	e2e.Await(t, "the status of the agent has the warning", func() bool {
		s, ok := f.agents[0].Status()
		return ok && strings.Contains(strings.Join(s.Redis.Warnings, " "), say)
	})
	var health struct {
		Databases map[string]struct{ State string }
	}
	f.control.Do(http.MethodGet, "/api/redis/health", "", &health)
	if got := health.Databases["main"].State; got != "degraded" {
		t.Errorf("the health of the connections: %q", got)
	}
	tasks := work("t", 10)
	f.submit(tasks)
	f.awaitCompleted(tasks)

	// Where the setting may not be read it is unknown, and nobody crashes.
	command(t, srv, "ACL", "SETUSER", "blind", "on", ">pw", "~*", "&*", "+@all", "-config", "-info")
	blind := access{URL: "redis://blind:pw@" + srv.Addr()}
	agentFile, controlFile := configs(t, blind, blind)
	for who, r := range map[string]e2e.Result{
		"agent":   e2e.Command(t, nil, e2e.AgentProgram(t), "doctor", "--config", agentFile),
		"control": e2e.Command(t, nil, e2e.ControlProgram(t), "doctor", "--config", controlFile),
	} {
		if !strings.Contains(r.Stdout, "maxmemory-policy unknown") || strings.Contains(r.Stdout, say) {
			t.Errorf("the doctor of the %s, who may not ask: %d\n%s%s", who, r.Code, r.Stdout, r.Stderr)
		}
	}
	f.stop()
}
