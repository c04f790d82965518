//go:build unix

package redistest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// patience bounds each wait for the server. It is far above what a healthy
// machine needs, so that only a server that hangs fails a test.
const patience = 2 * time.Minute

// Server is one redis-server process. Its methods fail the test they belong to
// when they cannot do their work. They may be called from any goroutine.
type Server struct {
	t          testing.TB
	binary     string
	dir        string
	port       int
	tlsPort    int // see WithTLS
	password   string
	config     []setting
	wantSocket bool
	cluster    bool
	sentinel   bool
	loading    bool   // ready is when it loads
	release    func() // gives the port back

	mu   sync.Mutex
	proc *process // nil while stopped
}

// Start runs a redis-server that is ready for commands when Start returns. It
// neither saves snapshots nor writes an append-only file unless opts say so.
// The process is killed and its folder removed when the test ends.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatalf("this test needs redis-server: %v (install it: apt-get install redis-server)", err)
	}
	dir, err := os.MkdirTemp("", "redistest-") // short enough for a socket name
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, binary: binary, dir: dir}
	for _, o := range opts {
		o(s)
	}
	t.Cleanup(func() {
		s.Kill()
		if s.release != nil {
			s.release()
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the folder of the test Redis: %v", err)
		}
	})

	// Another program may take a port between choosing and using it.
	const attempts = 10
	for i := range attempts {
		if s.port, s.release, err = reservePort(); err != nil {
			t.Fatalf("find a port for redis-server: %v", err)
		}
		if err = s.launch(); err == nil {
			return s
		}
		s.release()
		s.release = nil
		if !strings.Contains(err.Error(), "in use") {
			break
		}
		t.Logf("redis-server, attempt %d: %v", i+1, err)
	}
	t.Fatal(err)
	return nil
}

// Addr returns host:port of the server.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// TLSAddr returns host:port for TLS. See WithTLS.
func (s *Server) TLSAddr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.tlsPort)) }

// URL returns the address as a redis:// URL, with the password if there is one.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr()}
	if s.password != "" {
		u.User = url.UserPassword("", s.password)
	}
	return u.String()
}

// Socket returns the path of the Unix socket. See WithUnixSocket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "redis.sock") }

// Dir returns the server's data folder.
func (s *Server) Dir() string { return s.dir }

// Log returns what the server has logged so far.
func (s *Server) Log() string {
	log, err := os.ReadFile(filepath.Join(s.dir, "redis.log"))
	if err != nil { // it did not get so far
		log, err = os.ReadFile(filepath.Join(s.dir, "output"))
	}
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return string(log)
}

// PID returns the process id of the running server, 0 while it is stopped.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return s.proc.pid
}

// Client returns a client of database 0, closed when t ends.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(s.options())
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Stop ends the server as an operator would (SIGTERM) and waits for its end.
// It does nothing if the server is not running.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Kill ends the server as a crash would (SIGKILL) and waits for its end. It
// does nothing if the server is not running.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Restart starts the server again on the same port and data folder, after
// stopping it if it is running. It is ready for commands when Restart returns.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	if err := s.launch(); err != nil {
		s.t.Fatalf("restart: %v", err)
	}
}

// RestartLoading starts the server again and returns while it still loads its
// data: as soon as it says so.
func (s *Server) RestartLoading() {
	s.t.Helper()
	s.Stop()
	s.loading = true
	if err := s.launch(); err != nil {
		s.t.Fatalf("restart: %v", err)
	}
}

// Freeze stops the process from running (SIGSTOP) without closing its
// connections, as a hung machine would. Thaw lets it go on.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw undoes Freeze.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		s.t.Fatalf("send %v to the test Redis: it is not running", sig)
	}
	if err := s.proc.signal(sig); err != nil {
		s.t.Fatalf("send %v to the test Redis: %v", sig, err)
	}
}

func (s *Server) end(sig syscall.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return
	}
	_ = s.proc.signal(syscall.SIGCONT) // a frozen process never handles SIGTERM
	_ = s.proc.signal(sig)             // an error means that it has ended already
	select {
	case <-s.proc.exited:
	case <-time.After(patience):
		_ = s.proc.signal(syscall.SIGKILL)
		<-s.proc.exited
		s.t.Errorf("redis-server ignored %v for %v; its log:\n%s", sig, patience, s.Log())
	}
	s.proc = nil
}

// launch starts the process and waits until it answers.
func (s *Server) launch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	conf := filepath.Join(s.dir, "redis.conf")
	if err := os.WriteFile(conf, []byte(s.configFile()), 0o600); err != nil {
		return err
	}
	args := []string{conf}
	if s.sentinel {
		args = append(args, "--sentinel")
	}
	proc, err := startProcess(filepath.Join(s.dir, "output"), s.binary, args...)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.binary, err)
	}
	if err := s.awaitReady(proc); err != nil {
		_ = proc.signal(syscall.SIGKILL)
		<-proc.exited
		return err
	}
	s.proc = proc
	return nil
}

func (s *Server) configFile() string {
	lines := []setting{
		{"bind", "127.0.0.1"},
		{"port", strconv.Itoa(s.port)},
		{"dir", s.dir},
		{"logfile", filepath.Join(s.dir, "redis.log")},
	}
	if !s.sentinel {
		lines = append(lines, setting{"save", `""`}, setting{"appendonly", "no"})
	}
	if s.wantSocket {
		lines = append(lines, setting{"unixsocket", s.Socket()}, setting{"unixsocketperm", "700"})
	}
	var b strings.Builder
	for _, l := range append(lines, s.config...) {
		fmt.Fprintf(&b, "%s %s\n", l.key, l.value)
	}
	return b.String()
}

// awaitReady polls until the process itself answers PING: the port could also
// be answered by a stranger's server.
func (s *Server) awaitReady(proc *process) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rdb := redis.NewClient(s.options())
	defer func() { _ = rdb.Close() }()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		err := rdb.Ping(ctx).Err()
		if s.loading && redis.IsLoadingError(err) {
			return nil
		}
		// A replica that may not serve old data is as ready as it gets.
		if err == nil || redis.IsMasterDownError(err) {
			info, err := rdb.Info(ctx, "server").Result()
			if err != nil {
				return err
			}
			ours := strings.Contains(info, fmt.Sprintf("process_id:%d\r", proc.pid))
			if ours && (!s.cluster || s.clusterReady(ctx, rdb)) {
				return nil
			}
		}
		select {
		case <-proc.exited:
			if strings.Contains(s.Log(), "Address already in use") {
				return fmt.Errorf("redis-server: port %d is in use", s.port)
			}
			return fmt.Errorf("redis-server ended at once; its log:\n%s", s.Log())
		case <-ctx.Done():
			return fmt.Errorf("redis-server does not answer after %v; its log:\n%s", patience, s.Log())
		case <-poll.C:
		}
	}
}

// clusterReady gives the node all slots and reports whether it takes commands.
func (s *Server) clusterReady(ctx context.Context, rdb *redis.Client) bool {
	_ = rdb.ClusterAddSlotsRange(ctx, 0, 16383).Err() // it has them after a restart
	info, err := rdb.ClusterInfo(ctx).Result()
	return err == nil && strings.Contains(info, "cluster_state:ok")
}

func (s *Server) options() *redis.Options {
	return &redis.Options{
		Addr:             s.Addr(),
		Password:         s.password,
		DisableIdentity:  true,
		DialerRetries:    1,
		DialTimeout:      5 * time.Second,
		MinRetryBackoff:  -1,
		MaxRetryBackoff:  -1,
		PipelinePoolSize: -1,
		// Otherwise a connection that is being made writes to the options,
		// while another client may be cloning them.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}
