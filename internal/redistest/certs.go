//go:build unix

package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// CA is a certificate authority that writes what it issues into a folder of the
// test, as NAME.crt and NAME.key. Its own are ca.crt and ca.key.
type CA struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA makes a certificate authority.
func NewCA(t testing.TB) *CA {
	t.Helper()
	c := &CA{t: t, dir: t.TempDir()}
	c.cert, c.key = c.issue("ca", &x509.Certificate{
		Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return c
}

// File is the path of a file of the authority, for example "ca.crt".
func (c *CA) File(name string) string { return filepath.Join(c.dir, name) }

// IssueServer issues a certificate for 127.0.0.1 and the names.
func (c *CA) IssueServer(name string, dnsNames ...string) {
	c.t.Helper()
	c.issue(name, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: dnsNames})
}

// IssueClient issues a certificate that a client shows.
func (c *CA) IssueClient(name string) {
	c.t.Helper()
	c.issue(name, &x509.Certificate{Subject: pkix.Name{CommonName: name}})
}

// issue signs by the authority or, if it has no certificate yet, by the new one
// itself.
func (c *CA) issue(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	c.must(err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := c.cert, c.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	c.must(err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	c.must(err)
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "EC PRIVATE KEY", Bytes: keyDER},
	} {
		c.must(os.WriteFile(c.File(file), pem.EncodeToMemory(block), 0o600))
	}
	cert, err := x509.ParseCertificate(der)
	c.must(err)
	return cert, key
}

func (c *CA) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("make a test certificate: %v", err)
	}
}

// WithTLS makes the server listen for TLS as well, on Server.TLSAddr, with a
// certificate of ca, and ask clients for one of ca.
func WithTLS(t testing.TB, ca *CA) Option {
	t.Helper()
	ca.IssueServer("redis", "redis.test")
	port := Port(t)
	return func(s *Server) {
		s.tlsPort = port
		s.config = append(s.config, setting{"tls-port", strconv.Itoa(port)}, setting{"tls-auth-clients", "yes"},
			setting{"tls-cert-file", ca.File("redis.crt")}, setting{"tls-key-file", ca.File("redis.key")},
			setting{"tls-ca-cert-file", ca.File("ca.crt")})
	}
}
