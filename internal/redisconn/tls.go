package redisconn

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// build returns the configuration for connections, or an error that names the
// file that cannot be used. The client's certificate is read again for each
// connection, so that it may be renewed without a restart.
func (c TLSConfig) build() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificates for Redis (tls.ca_file): %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read the certificates for Redis (tls.ca_file): %s holds no certificate in PEM form", c.CAFile)
		}
	}
	if c.CertFile == "" {
		return out, nil
	}
	load := func() (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read our certificate for Redis (tls.cert_file %s, tls.key_file %s): %w", c.CertFile, c.KeyFile, err)
		}
		return &cert, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return out, nil
}
