package spool

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// trustedClient makes the HTTP client and makes it anew when the CA file has
// changed.
type trustedClient struct {
	caFile string
	stall  time.Duration

	mu      sync.Mutex
	current *http.Client
	stamp   time.Time
}

func (t *trustedClient) client() (*http.Client, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var stamp time.Time
	if t.caFile != "" {
		info, err := os.Stat(t.caFile)
		if err != nil {
			return nil, fmt.Errorf("read control.ca_file: %w", err)
		}
		stamp = info.ModTime()
	}
	if t.current != nil && stamp.Equal(t.stamp) {
		return t.current, nil
	}
	roots, err := t.roots()
	if err != nil {
		return nil, err
	}
	if t.current != nil {
		t.current.CloseIdleConnections()
	}
	t.stamp = stamp
	t.current = &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: t.stall,
			ExpectContinueTimeout: 2 * time.Second,
			IdleConnTimeout:       time.Minute,
			MaxIdleConnsPerHost:   4,
			ForceAttemptHTTP2:     true,
		},
		// The key must not follow a redirect to somebody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return t.current, nil
}

func (t *trustedClient) roots() (*x509.CertPool, error) {
	if t.caFile == "" {
		return nil, nil // the system's
	}
	pem, err := os.ReadFile(t.caFile)
	if err != nil {
		return nil, fmt.Errorf("read control.ca_file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("control.ca_file %s holds no certificate in PEM form", t.caFile)
	}
	return roots, nil
}

func (t *trustedClient) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != nil {
		t.current.CloseIdleConnections()
	}
}

var errStalled = errors.New("the upload stalled: the control plane took no byte for too long")

// stallReader cancels a request whose body is not read for a while.
type stallReader struct {
	r     io.Reader
	limit time.Duration
	timer *time.Timer
}

func watchStall(r io.Reader, limit time.Duration, cancel context.CancelCauseFunc) *stallReader {
	return &stallReader{r: r, limit: limit, timer: time.AfterFunc(limit, func() { cancel(errStalled) })}
}

func (s *stallReader) Read(p []byte) (int, error) {
	s.timer.Reset(s.limit)
	n, err := s.r.Read(p)
	if err == io.EOF {
		s.timer.Stop() // from here the transport's header timeout counts
	}
	return n, err
}

func (s *stallReader) stop() { s.timer.Stop() }
