package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// server is a redis-server of the bench's own. It keeps everything in memory
// and writes nothing, for all sides alike.
type server struct {
	port  int
	rdb   *redis.Client
	child *child
}

// startRedis runs redis-server on a free loopback port.
func startRedis(dir string) (*server, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("redis-server is missing: %w (install it: apt-get install redis-server)", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "redis-"+strconv.Itoa(port))
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	s := &server{port: port}
	s.child, err = startChild(data, nil, program, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", data,
		"--save", "", "--appendonly", "no", "--loglevel", "warning")
	if err != nil {
		return nil, err
	}
	s.rdb = redis.NewClient(&redis.Options{
		Addr: s.addr(), ReadTimeout: time.Minute,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = await(ctx, s.child, "redis-server answers", func() (bool, error) { return s.rdb.Ping(ctx).Err() == nil, nil })
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }
func (s *server) url() string  { return "redis://" + s.addr() }

func (s *server) stop() error {
	s.child.stop()
	return s.rdb.Close()
}

// empty makes the server as it was at its start.
func (s *server) empty(ctx context.Context) error {
	for _, c := range []redis.Cmder{
		s.rdb.FlushAll(ctx), s.rdb.ScriptFlush(ctx), s.rdb.ConfigResetStat(ctx),
		s.rdb.Do(ctx, "slowlog", "reset"), s.rdb.Do(ctx, "memory", "purge"),
	} {
		if err := c.Err(); err != nil {
			return fmt.Errorf("empty the server: %w", err)
		}
	}
	return nil
}

// usage is what the server has used since its start.
type usage struct {
	cpu      time.Duration // all threads, user and system
	commands int64         // calls inside scripts included
}

func (s *server) usage(ctx context.Context) (u usage, err error) {
	text, err := s.rdb.Info(ctx, "everything").Result()
	if err != nil {
		return u, fmt.Errorf("ask the server what it has used: %w", err)
	}
	user, err := field(text, "used_cpu_user")
	if err != nil {
		return u, err
	}
	system, err := field(text, "used_cpu_sys")
	if err != nil {
		return u, err
	}
	commands, err := field(text, "total_commands_processed")
	return usage{cpu: time.Duration((user + system) * float64(time.Second)), commands: int64(commands)}, err
}

// field reads a number out of what INFO answers.
func field(info, name string) (float64, error) {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strconv.ParseFloat(strings.TrimSpace(v), 64)
		}
	}
	return 0, fmt.Errorf("the server does not tell %s", name)
}

// freePort returns a loopback port that nobody listens on now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
