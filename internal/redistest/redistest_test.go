//go:build unix

package redistest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestDataSurvivesACrashWithAOF(t *testing.T) {
	t.Parallel()
	srv := Start(t, WithAOF())
	rdb := srv.Client(t)
	if err := rdb.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	addr := srv.Addr()
	srv.Kill()
	if srv.PID() != 0 {
		t.Error("a killed server has a process id")
	}
	if err := rdb.Ping(t.Context()).Err(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("ping of a killed server: %v, want connection refused", err)
	}
	srv.Restart()
	if srv.Addr() != addr {
		t.Errorf("the address moved from %s to %s", addr, srv.Addr())
	}
	if got := srv.Client(t).Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("after the crash the key holds %q, want %q", got, "v")
	}
	srv.Stop()
	srv.Stop()
}

func TestWithoutAOFARestartForgets(t *testing.T) {
	t.Parallel()
	srv := Start(t)
	if err := srv.Client(t).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	srv.Restart()
	if err := srv.Client(t).Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("got %v, want redis.Nil", err)
	}
}

func TestPasswordSocketAndConfig(t *testing.T) {
	t.Parallel()
	srv := Start(t, WithPassword("se:cr@et"), WithUnixSocket(), WithConfig("databases", "3"))
	opt, err := redis.ParseURL(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	byURL := redis.NewClient(opt)
	t.Cleanup(func() { _ = byURL.Close() })
	if err := byURL.Ping(t.Context()).Err(); err != nil {
		t.Errorf("ping by URL: %v", err)
	}
	bySocket := redis.NewClient(&redis.Options{Network: "unix", Addr: srv.Socket(), Password: "se:cr@et"})
	t.Cleanup(func() { _ = bySocket.Close() })
	if err := bySocket.Ping(t.Context()).Err(); err != nil {
		t.Errorf("ping by socket: %v", err)
	}
	if got := byURL.ConfigGet(t.Context(), "databases").Val()["databases"]; got != "3" {
		t.Errorf("databases = %q, want 3", got)
	}
	open := redis.NewClient(&redis.Options{Addr: srv.Addr()})
	t.Cleanup(func() { _ = open.Close() })
	if err := open.Ping(t.Context()).Err(); err == nil {
		t.Error("a client without the password was let in")
	}
}

func TestFrozenServerAnswersAfterThaw(t *testing.T) {
	t.Parallel()
	srv := Start(t)
	rdb := srv.Client(t)
	srv.Freeze()
	answer := make(chan error, 1)
	go func() { answer <- rdb.Ping(t.Context()).Err() }()
	select {
	case err := <-answer:
		t.Fatalf("a frozen server answered: %v", err)
	default:
	}
	srv.Thaw()
	if err := <-answer; err != nil {
		t.Errorf("ping: %v", err)
	}
}

func TestFolderIsGoneAfterwards(t *testing.T) {
	t.Parallel()
	var dir string
	t.Run("inner", func(t *testing.T) { dir = Start(t).Dir() })
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("stat of the folder after the test: %v, want not exist", err)
	}
}

func TestMiniAnswers(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: StartMini(t)})
	t.Cleanup(func() { _ = rdb.Close() })
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestClusterTakesCommandsAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	srv := Start(t, WithCluster())
	srv.Restart()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{srv.Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	if err := rdb.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
}

func TestSentinelKnowsItsMaster(t *testing.T) {
	t.Parallel()
	master := Start(t)
	watch := Start(t, AsSentinel("mymaster", master))
	rdb := redis.NewSentinelClient(&redis.Options{Addr: watch.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	got, err := rdb.GetMasterAddrByName(t.Context(), "mymaster").Result()
	if err != nil || got[0]+":"+got[1] != master.Addr() {
		t.Errorf("the master is %v, %v; want %s", got, err, master.Addr())
	}
}

func TestPortIsGivenOnce(t *testing.T) {
	t.Parallel()
	if a, b := Port(t), Port(t); a == b {
		t.Errorf("port %d was given twice", a)
	}
}

func TestClusterOfSeveralNodes(t *testing.T) {
	t.Parallel()
	nodes := StartCluster(t, 3, 1)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	for _, key := range []string{"a", "b", "c", "d"} {
		if err := rdb.Set(t.Context(), key, "v", 0).Err(); err != nil {
			t.Error(err)
		}
	}
	if role, err := nodes[3].Client(t).Do(t.Context(), "role").Slice(); err != nil || role[0] != "slave" {
		t.Errorf("the fourth node: %v, %v", role, err)
	}
}

func TestTLSAsksForACertificate(t *testing.T) {
	t.Parallel()
	ca := NewCA(t)
	ca.IssueClient("client")
	srv := Start(t, WithTLS(t, ca))
	cert, err := tls.LoadX509KeyPair(ca.File("client.crt"), ca.File("client.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	for shown, works := range map[bool]bool{true: true, false: false} {
		cfg := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		if shown {
			cfg.Certificates = []tls.Certificate{cert}
		}
		rdb := redis.NewClient(&redis.Options{Addr: srv.TLSAddr(), TLSConfig: cfg})
		if err := rdb.Ping(t.Context()).Err(); (err == nil) != works {
			t.Errorf("with a certificate %v: %v", shown, err)
		}
		_ = rdb.Close()
	}
}
