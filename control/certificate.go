package control

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	caLife      = 10 * 365 * 24 * time.Hour
	serverLife  = 365 * 24 * time.Hour
	renewBefore = 30 * 24 * time.Hour
	certCheck   = time.Hour // how often the running server looks at its certificate
	clockSlack  = time.Hour // how far back a certificate is valid, for clocks that are behind
)

// Certificate is the HTTPS certificate of the control plane: the configured
// one, or one of its own making. The latter is signed by a private CA whose
// certificate (ca.crt in the state folder) is what agents and the CLI trust.
type Certificate struct {
	dir, hostname     string   // own making
	extra             []string // names and addresses beside those of this machine
	certFile, keyFile string   // configured, empty otherwise
	log               *zap.Logger
	now               func() time.Time
	current           atomic.Pointer[tls.Certificate]
}

// OpenCertificate reads the configured pair, or makes the CA and the server
// certificate in dir where they are missing, about to expire, or do not cover
// this machine's name and cfg.Names. The keys have mode 0600.
func OpenCertificate(dir string, cfg TLSConfig, log *zap.Logger) (*Certificate, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	c := &Certificate{dir: dir, hostname: host, extra: cfg.Names, certFile: cfg.CertFile, keyFile: cfg.KeyFile, log: log, now: time.Now}
	if err := c.refresh(); err != nil {
		return nil, err
	}
	return c, nil
}

// CAPath is the file that clients have to trust; empty when a certificate is
// configured.
func (c *Certificate) CAPath() string {
	if c.certFile != "" {
		return ""
	}
	return filepath.Join(c.dir, "ca.crt")
}

// Expires is when the present certificate ends.
func (c *Certificate) Expires() time.Time { return c.current.Load().Leaf.NotAfter }

// TLS returns the server's settings. A renewed certificate is used from the
// next handshake on.
func (c *Certificate) TLS() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// Run renews the certificate in time, or reads the configured one again when
// its file has changed, until ctx is done.
func (c *Certificate) Run(ctx context.Context) error {
	tick := time.NewTicker(certCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.Reload()
		}
	}
}

// Reload looks at the files at once. A fault leaves the present certificate
// in use.
func (c *Certificate) Reload() {
	if err := c.refresh(); err != nil {
		c.log.Error("the HTTPS certificate cannot be renewed; the old one stays in use",
			expires(c.Expires()), zap.Error(err))
	}
}

func (c *Certificate) refresh() error {
	if c.certFile != "" {
		pair, err := loadPair(c.certFile, c.keyFile)
		if err != nil {
			return fmt.Errorf("read the configured HTTPS certificate: %w", err)
		}
		if left := pair.Leaf.NotAfter.Sub(c.now()); left < renewBefore {
			c.log.Warn("the configured HTTPS certificate must be renewed", zap.String("file", c.certFile), expires(pair.Leaf.NotAfter))
		}
		c.current.Store(pair)
		return nil
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	ca, err := c.authority()
	if err != nil {
		return err
	}
	pair, err := c.server(ca)
	if err != nil {
		return err
	}
	c.current.Store(pair)
	return nil
}

// authority reads the CA, makes it on the first start, and renews its
// certificate with the same key, so that what it signed stays trusted.
func (c *Certificate) authority() (*tls.Certificate, error) {
	cert, key := filepath.Join(c.dir, "ca.crt"), filepath.Join(c.dir, "ca.key")
	pair, err := loadPair(cert, key)
	switch {
	case err == nil && c.now().Add(renewBefore).Before(pair.Leaf.NotAfter):
		return pair, nil
	case err == nil:
		c.log.Warn("the CA certificate is renewed: give the new file to the agents before the old one ends",
			zap.String("file", cert), expires(pair.Leaf.NotAfter))
		return c.makeAuthority(pair.PrivateKey.(crypto.Signer), cert, key)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read the CA of the control plane: %w (restore both files from a backup, or remove both to make a new CA)", err)
	}
	if exists(cert) {
		return nil, fmt.Errorf("%s is there but %s is missing (restore the key from a backup, or remove the certificate to make a new CA)", cert, key)
	}
	signer, err := loadOrMakeKey(key)
	if err != nil {
		return nil, fmt.Errorf("make the CA key: %w", err)
	}
	return c.makeAuthority(signer, cert, key)
}

func (c *Certificate) makeAuthority(signer crypto.Signer, certFile, keyFile string) (*tls.Certificate, error) {
	now := c.now()
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: "AutoBot control CA (" + c.hostname + ")"},
		NotBefore:             now.Add(-clockSlack),
		NotAfter:              now.Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	return writePair(template, template, signer, signer, nil, certFile, keyFile)
}

// server reads the server certificate and makes a new one where it must.
func (c *Certificate) server(ca *tls.Certificate) (*tls.Certificate, error) {
	cert, key := filepath.Join(c.dir, "server.crt"), filepath.Join(c.dir, "server.key")
	if pair, err := loadPair(cert, key); err == nil && c.usable(pair, ca) {
		return pair, nil
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the server key: %w", err)
	}
	now := c.now()
	names, addresses := c.subjects()
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: c.hostname},
		NotBefore:    now.Add(-clockSlack),
		NotAfter:     now.Add(serverLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     names,
		IPAddresses:  addresses,
	}
	pair, err := writePair(template, ca.Leaf, signer, ca.PrivateKey.(crypto.Signer), ca.Certificate, cert, key)
	if err != nil {
		return nil, err
	}
	c.log.Info("made an HTTPS certificate", zap.Strings("names", names), expires(pair.Leaf.NotAfter))
	return pair, nil
}

// expires is a field of the log with the date: times are shown without it there.
func expires(t time.Time) zap.Field { return zap.String("expires", t.UTC().Format(time.DateOnly)) }

// usable reports whether the certificate is ours, covers this machine and has
// more than renewBefore left.
func (c *Certificate) usable(pair, ca *tls.Certificate) bool {
	names, addresses := c.subjects()
	for _, n := range names {
		if pair.Leaf.VerifyHostname(n) != nil {
			return false
		}
	}
	for _, a := range addresses {
		if !slices.ContainsFunc(pair.Leaf.IPAddresses, a.Equal) {
			return false
		}
	}
	return pair.Leaf.CheckSignatureFrom(ca.Leaf) == nil && c.now().Add(renewBefore).Before(pair.Leaf.NotAfter)
}

func (c *Certificate) subjects() ([]string, []net.IP) {
	names := []string{"localhost"}
	if c.hostname != "localhost" && c.hostname != "" {
		names = append(names, c.hostname)
	}
	addresses := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	for _, x := range c.extra {
		if ip := net.ParseIP(x); ip != nil {
			addresses = append(addresses, ip)
		} else if !slices.Contains(names, x) {
			names = append(names, x)
		}
	}
	return names, addresses
}
