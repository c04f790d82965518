package redisconn

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/autobot-fleet/autobot/internal/redistest"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, stranger := redistest.NewCA(t), redistest.NewCA(t)
	ca.IssueClient("client")
	addr := redistest.Start(t, redistest.WithTLS(t, ca)).TLSAddr()

	good := TLSConfig{CAFile: ca.File("ca.crt"), CertFile: ca.File("client.crt"), KeyFile: ca.File("client.key")}
	for _, tt := range []struct {
		name   string
		url    string
		mutate func(*TLSConfig)
		want   string // of the error; empty means that it works
	}{
		{"both certificates", "rediss://" + addr, func(*TLSConfig) {}, ""},
		{"turned on by the files", "redis://" + addr, func(*TLSConfig) {}, ""},
		{"another name of the server", "rediss://" + addr, func(c *TLSConfig) { c.ServerName = "redis.test" }, ""},
		{"a wrong name", "rediss://" + addr, func(c *TLSConfig) { c.ServerName = "other.test" }, "other.test"},
		{"a stranger's CA", "rediss://" + addr, func(c *TLSConfig) { c.CAFile = stranger.File("ca.crt") }, "certificate signed by unknown authority"},
		{"no certificate of ours", "rediss://" + addr, func(c *TLSConfig) { c.CertFile, c.KeyFile = "", "" }, "certificate required"},
	} {
		cfg := Config{URL: tt.url, TLS: good}
		tt.mutate(&cfg.TLS)
		m, _ := newManager(t, cfg)
		err := client(t, m, Main).Ping(t.Context()).Err()
		if tt.want == "" && err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || Reason(err) != ReasonAuth || IsWait(err)) {
			t.Errorf("%s: got %v (%s), want %q", tt.name, err, Reason(err), tt.want)
		}
	}
}

func TestPasswordFileMayChange(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithPassword("one"))
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zapcore.WarnLevel)
	m, err := New(Config{URL: "redis://" + srv.Addr(), PasswordFile: file, Breaker: BreakerConfig{Failures: 1000}}, zap.New(core), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	if logs.Len() != 1 || !strings.Contains(logs.All()[0].Message, "may be read by every user (repair: chmod 600 "+file) {
		t.Errorf("logged %v", logs.All())
	}
	rdb := client(t, m, Main)
	ctx := t.Context()
	if err := rdb.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.ConfigSet(ctx, "requirepass", "two").Err(); err != nil {
		t.Fatal(err)
	}
	dropConnections := func() {
		t.Helper()
		_ = rdb.Do(ctx, "client", "kill", "type", "normal", "skipme", "no").Err()
	}
	// A connection of the pool may still learn that it was dropped.
	ping := func() error {
		for range 100 {
			if err := rdb.Ping(ctx).Err(); Reason(err) != ReasonReset {
				return err
			}
		}
		return errors.New("connections are reset all the time")
	}
	dropConnections()
	if err := ping(); Reason(err) != ReasonAuth || strings.Contains(err.Error(), "one") {
		t.Errorf("with the old password: %v (%s)", err, Reason(err))
	}
	write("two")
	if err := ping(); err != nil {
		t.Errorf("with the new password: %v", err)
	}
	dropConnections()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := ping(); Reason(err) != ReasonAuth || !strings.Contains(err.Error(), file) {
		t.Errorf("without the file: %v (%s)", err, Reason(err))
	}
}

func TestLibraryIsQuiet(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.DebugLevel)
	m, err := New(Config{URL: "redis://127.0.0.1:1"}, zap.New(core), nil)
	if err != nil {
		t.Fatal(err)
	}
	library.Printf(t.Context(), "text %d", 1)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	before := logs.Len()
	library.Printf(t.Context(), "text %d", 2)
	if logs.Len() != before {
		t.Error("a closed Manager's log is still written to")
	}
	for _, e := range logs.All() {
		if e.Level != zapcore.DebugLevel {
			t.Errorf("logged %v", e)
		}
	}
}
