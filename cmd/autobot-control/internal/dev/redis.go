package dev

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/miniserver"
	"github.com/autobot-fleet/autobot/internal/redisconn"
)

// redisPatience bounds the start of Redis; reading a large append-only file
// takes a while.
const redisPatience = 3 * time.Minute

// server is the Redis of the fleet.
type server struct {
	config redisconn.Config
	about  string // for people
	how    string // how to talk to it by hand, "" when there is no way to show
	child  *child
	mini   *miniserver.Server
}

// startRedis starts a private redis-server, or the in-memory stand-in where
// none is installed.
func startRedis(ctx context.Context, f *folder) (*server, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return startMini(f)
	}
	socket := f.path("redis", "redis.sock")
	conf := f.path("redis", "redis.conf")
	if err := writeFile(conf, redisConf(f.path("redis"), socket)); err != nil {
		return nil, err
	}
	log, err := f.logFile("redis")
	if err != nil {
		return nil, err
	}
	c, err := startChild("redis-server", program, []string{conf}, []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}, log)
	if err != nil {
		return nil, err
	}
	s := &server{config: redisconn.Config{URL: "unix://" + escapePath(socket)}, child: c, how: "redis-cli -s " + shellWord(socket)}
	version, err := s.await(ctx)
	if err != nil {
		s.stop(nil)
		return nil, err
	}
	s.about = fmt.Sprintf("redis-server %s of its own, kept in %s", version, f.path("redis"))
	return s, nil
}

// redisConf lets nobody but this user in (a socket in a private folder, no
// port), loses at most the last 2 s when it is killed while the disk is slow,
// and never drops a key.
func redisConf(dir, socket string) string {
	quote := func(s string) string { return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"` }
	return strings.Join([]string{
		"# made by autobot-control dev at each start",
		"port 0",
		"unixsocket " + quote(socket),
		"unixsocketperm 700",
		"dir " + quote(dir),
		"daemonize no",
		`save ""`,
		"appendonly yes",
		"appendfsync everysec",
		"maxmemory-policy noeviction",
		"",
	}, "\n")
}

// escapePath writes a path so that it survives in a URL.
func escapePath(path string) string {
	var out strings.Builder
	for _, c := range []byte(path) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("/-_.~", c) >= 0:
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

// shellWord is text that a shell takes as one word.
func shellWord(text string) string {
	if !strings.ContainsFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("/._-+:=@", c)
	}) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// await waits until the server answers and returns its version.
func (s *server) await(ctx context.Context) (version string, err error) {
	m, err := redisconn.New(s.config, zap.NewNop(), nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = m.Close() }()
	ctx, cancel := context.WithTimeout(ctx, redisPatience)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		facts, err := m.Facts(ctx)
		if err == nil {
			return facts.Version, nil
		}
		var ended chan struct{}
		if s.child != nil {
			ended = s.child.done
		}
		select {
		case <-ended:
			return "", s.child.ending()
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return "", context.Cause(ctx)
			}
			return "", fmt.Errorf("redis does not answer after %s: %w", redisPatience, err)
		case <-poll.C:
		}
	}
}

// startMini starts the stand-in. It listens on a loopback port, which other
// users of this machine can reach, so it asks for a password.
func startMini(f *folder) (*server, error) {
	password := rand.Text()
	file := f.path("redis", "password")
	if err := writeFile(file, password+"\n"); err != nil {
		return nil, err
	}
	mini, err := miniserver.Run("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mini.RequirePassword(password)
	return &server{
		config: redisconn.Config{URL: mini.URL(), PasswordFile: file},
		about:  "in memory (redis-server is not installed): its tasks are gone when this ends. To keep them: apt-get install redis-server",
		mini:   mini,
	}, nil
}

// useRedis takes a Redis that runs already.
func useRedis(ctx context.Context, config redisconn.Config) (*server, error) {
	m, err := redisconn.New(config, zap.NewNop(), nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = m.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	facts, err := m.Facts(ctx)
	if redisconn.IsWait(err) {
		return nil, fmt.Errorf("the Redis at %s is %w: %w (without --redis-url a private one is started)", m.Address(), client.ErrUnreachable, err)
	}
	if err != nil {
		return nil, fmt.Errorf("the Redis at %s cannot be used: %w", m.Address(), err)
	}
	return &server{config: config, about: fmt.Sprintf("the one at %s (%s)", m.Address(), facts.Version)}, nil
}

// stop ends what was started.
func (s *server) stop(hurry <-chan os.Signal) {
	if s.child != nil {
		s.child.stop(20*time.Second, hurry)
	}
	if s.mini != nil {
		s.mini.Close()
	}
}
