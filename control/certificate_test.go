package control

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

func open(t *testing.T, dir string) *Certificate {
	t.Helper()
	c, err := OpenCertificate(dir, TLSConfig{}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func trusts(t *testing.T, caFile string, c *Certificate, name string) error {
	t.Helper()
	ca, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("ca.crt holds no certificate")
	}
	_, err = c.current.Load().Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, CurrentTime: c.now()})
	return err
}

func TestCertificateOfOwnMaking(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	first := open(t, dir)
	host, _ := os.Hostname()
	for _, name := range []string{"localhost", "127.0.0.1", "::1", host} {
		if err := trusts(t, first.CAPath(), first, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, file := range []string{"ca.key", "server.key"} {
		info, err := os.Stat(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", file, info.Mode())
		}
	}
	again := open(t, dir)
	if !again.current.Load().Leaf.Equal(first.current.Load().Leaf) {
		t.Error("a second start made a new certificate")
	}
}

func TestCertificateIsRenewedInTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	oldLeaf := c.current.Load().Leaf
	c.now = func() time.Time { return oldLeaf.NotAfter.Add(-29 * 24 * time.Hour) }
	c.Reload()
	if c.current.Load().Leaf.Equal(oldLeaf) {
		t.Fatal("not renewed 29 days before its end")
	}
	if err := trusts(t, c.CAPath(), c, "localhost"); err != nil {
		t.Error(err)
	}
}

func TestRenewedAuthorityKeepsWhatItSignedTrusted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	oldCA, err := os.ReadFile(c.CAPath())
	if err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(t.TempDir(), "old.crt")
	if err := os.WriteFile(old, oldCA, 0o600); err != nil {
		t.Fatal(err)
	}
	c.now = func() time.Time { return time.Now().Add(caLife - 29*24*time.Hour) }
	c.Reload()
	if err := trusts(t, c.CAPath(), c, "localhost"); err != nil {
		t.Errorf("the new CA does not vouch: %v", err)
	}
	if err := trusts(t, old, c, "localhost"); err != nil {
		t.Errorf("an agent with the old CA file is shut out: %v", err)
	}
}

func TestHalfAnAuthorityIsNotReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir)
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	_, err := OpenCertificate(dir, TLSConfig{}, zap.NewNop())
	if err == nil || !strings.Contains(err.Error(), "restore") {
		t.Fatalf("err = %v, want one that names the repair", err)
	}
}

func TestConfiguredCertificateIsUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir)
	c, err := OpenCertificate(filepath.Join(dir, "unused"), TLSConfig{CertFile: filepath.Join(dir, "server.crt"), KeyFile: filepath.Join(dir, "server.key")}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if c.CAPath() != "" || exists(filepath.Join(dir, "unused")) {
		t.Error("a CA was made beside a configured certificate")
	}
	if _, err := OpenCertificate(dir, TLSConfig{CertFile: filepath.Join(dir, "none.crt"), KeyFile: filepath.Join(dir, "none.key")}, zap.NewNop()); err == nil {
		t.Error("a missing configured certificate is no error")
	}
}

func TestInterruptedFirstStartIsFinished(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir)
	if err := os.Remove(filepath.Join(dir, "ca.crt")); err != nil {
		t.Fatal(err)
	}
	c := open(t, dir)
	if err := trusts(t, c.CAPath(), c, "localhost"); err != nil {
		t.Error(err)
	}
}

func TestTheOwnCertificateCoversFurtherNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := OpenCertificate(dir, TLSConfig{}, zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	c, err := OpenCertificate(dir, TLSConfig{Names: []string{"main.lan", "10.0.0.20"}}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"main.lan", "10.0.0.20", "localhost"} {
		if err := c.current.Load().Leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}
