package redisconn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/autobot-fleet/autobot/internal/redistest"
)

// authority is a CA that writes its certificates into a folder.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.issue(t, name, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

// issue writes NAME.crt and NAME.key, signed by the CA or, if there is none
// yet, by itself.
func (a *authority) issue(t *testing.T, name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der := must(x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer))(t)
	keyDER := must(x509.MarshalECPrivateKey(key))(t)
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "EC PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return must(x509.ParseCertificate(der))(t), key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, stranger := newAuthority(t, "ca"), newAuthority(t, "ca")
	ca.issue(t, "server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"redis.test"}})
	ca.issue(t, "client", &x509.Certificate{Subject: pkix.Name{CommonName: "agent"}})
	port := fmt.Sprint(redistest.Port(t))
	redistest.Start(t,
		redistest.WithConfig("tls-port", port), redistest.WithConfig("tls-auth-clients", "yes"),
		redistest.WithConfig("tls-cert-file", ca.file("server.crt")), redistest.WithConfig("tls-key-file", ca.file("server.key")),
		redistest.WithConfig("tls-ca-cert-file", ca.file("ca.crt")))

	good := TLSConfig{CAFile: ca.file("ca.crt"), CertFile: ca.file("client.crt"), KeyFile: ca.file("client.key")}
	for _, tt := range []struct {
		name   string
		url    string
		mutate func(*TLSConfig)
		want   string // of the error; empty means that it works
	}{
		{"both certificates", "rediss://127.0.0.1:" + port, func(*TLSConfig) {}, ""},
		{"turned on by the files", "redis://127.0.0.1:" + port, func(*TLSConfig) {}, ""},
		{"another name of the server", "rediss://127.0.0.1:" + port, func(c *TLSConfig) { c.ServerName = "redis.test" }, ""},
		{"a wrong name", "rediss://127.0.0.1:" + port, func(c *TLSConfig) { c.ServerName = "other.test" }, "other.test"},
		{"a stranger's CA", "rediss://127.0.0.1:" + port, func(c *TLSConfig) { c.CAFile = stranger.file("ca.crt") }, "certificate signed by unknown authority"},
		{"no certificate of ours", "rediss://127.0.0.1:" + port, func(c *TLSConfig) { c.CertFile, c.KeyFile = "", "" }, "certificate required"},
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
