package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/autobot-fleet/autobot/internal/buildinfo"
)

const (
	callTimeout = 70 * time.Second // of one call that is no stream; the control plane's own limit is 60 s
	maxReply    = 64 << 20         // bytes of one answer
	maxSecret   = 4096             // bytes of a key file
	keyHeader   = "X-Internal-API-Key"
)

// Options say where a control plane is and who asks. There is no way to turn
// the check of its certificate off.
type Options struct {
	// URL is its https address, for example https://main.lan:8443.
	URL string

	// CAFile holds the only certificates that are trusted (PEM). Empty: those
	// of the system.
	CAFile string

	// ServerName is the name that the certificate has to have. Empty: the host
	// in URL.
	ServerName string

	// KeyFile holds the internal key: the right to do everything. Or:
	KeyFile string

	// Token is a JWT ("autobot-control auth token"), or TokenFile holds one.
	Token     string
	TokenFile string
}

// remote is a control plane over HTTPS.
type remote struct {
	base   string
	header http.Header
	http   *http.Client
	caFile string
}

// Dial returns a client of a control plane. It reads the named files and
// connects to nothing yet. Close it after use.
func Dial(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("the address of the control plane must look like https://main.lan:8443, got %q (there is no insecure mode)", o.URL)
	}
	r := &remote{base: "https://" + u.Host, header: http.Header{}, caFile: o.CAFile}
	r.header.Set("User-Agent", "autobot-client/"+buildinfo.Version)
	if err := r.credentials(o); err != nil {
		return nil, err
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName}
	if o.CAFile != "" {
		pem, err := os.ReadFile(filepath.Clean(o.CAFile))
		if err != nil {
			return nil, fmt.Errorf("read the certificates to trust: %w", err)
		}
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no PEM certificate (it has to be the control plane's ca.crt)", o.CAFile)
		}
	}
	r.http = &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:       trust,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: callTimeout,
			MaxIdleConnsPerHost:   8,
			IdleConnTimeout:       60 * time.Second,
			ExpectContinueTimeout: 5 * time.Second, // of uploads: then the file is sent unasked
		},
		// A redirect would carry the key to another place.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Client{link: r, queue: r}, nil
}

// credentials fills the header that says who asks.
func (r *remote) credentials(o Options) error {
	given := 0
	for _, v := range []string{o.KeyFile, o.Token, o.TokenFile} {
		if v != "" {
			given++
		}
	}
	if given > 1 {
		return errors.New("give one of key file, token and token file")
	}
	switch {
	case o.KeyFile != "":
		key, err := readSecret(o.KeyFile)
		if err != nil {
			return fmt.Errorf("read the key of the control plane: %w", err)
		}
		r.header.Set(keyHeader, key)
	case o.TokenFile != "":
		token, err := readSecret(o.TokenFile)
		if err != nil {
			return fmt.Errorf("read the token: %w", err)
		}
		r.header.Set("Authorization", "Bearer "+token)
	case o.Token != "":
		if strings.ContainsFunc(o.Token, unprintable) {
			return errors.New("the token holds characters that no token has")
		}
		r.header.Set("Authorization", "Bearer "+o.Token)
	}
	return nil
}

// readSecret reads a file with one line.
func readSecret(path string) (string, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read from
	raw, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	text := strings.TrimSpace(string(raw))
	switch {
	case err != nil:
		return "", err
	case text == "" || len(raw) > maxSecret || strings.ContainsFunc(text, unprintable):
		return "", fmt.Errorf("%s holds no key: it has to be one line of 1 to %d bytes", path, maxSecret)
	}
	return text, nil
}

func unprintable(c rune) bool { return c <= ' ' || c > '~' }

func (r *remote) close() error {
	r.http.CloseIdleConnections()
	return nil
}

// call makes one request and decodes the answer into out, unless that is nil.
func (r *remote) call(ctx context.Context, req request, query url.Values, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := r.send(ctx, req, query, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return r.unreachable(ctx, err)
	}
	if out == nil {
		return nil
	}
	if raw, ok := out.(*json.RawMessage); ok {
		*raw = text
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("read the answer to %s %s: %w (is it a control plane that answers there?)", req.method, req.path, err)
	}
	return nil
}

// send makes one request with a body in JSON and returns the answer if it is a
// success.
func (r *remote) send(ctx context.Context, req request, query url.Values, body any) (*http.Response, error) {
	var content io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("write the request: %w", err)
		}
		content = bytes.NewReader(text)
	}
	h, err := r.request(ctx, req.method, req.path, query, content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		h.Header.Set("Content-Type", "application/json")
	}
	if strings.HasSuffix(req.path, "/events") {
		h.Header.Set("Accept", "text/event-stream")
	}
	return r.exchange(req, h)
}

// request is a request with our credentials.
func (r *remote) request(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Request, error) {
	target := r.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	h, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	for name, values := range r.header {
		h.Header[name] = values
	}
	return h, nil
}

// exchange sends a request and turns every answer but a success into an error.
func (r *remote) exchange(req request, h *http.Request) (*http.Response, error) {
	resp, err := r.http.Do(h)
	if err != nil {
		return nil, r.unreachable(h.Context(), err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what can be read of the reason
	return nil, refusal(req, resp.StatusCode, resp.Header, text)
}

// unreachable explains a failure to talk to the control plane. The caller's
// own end of waiting is returned as it is.
func (r *remote) unreachable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	var (
		wrapped *url.Error
		opErr   *net.OpError
		verify  *tls.CertificateVerificationError
		record  tls.RecordHeaderError
	)
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	hint := ""
	switch {
	case errors.As(err, &verify) && r.caFile != "":
		hint = fmt.Sprintf(" (another program may answer there; %s has to be the ca.crt of this control plane)", r.caFile)
	case errors.As(err, &verify):
		hint = " (name the ca.crt of the control plane as the CA file)"
	case errors.As(err, &record):
		hint = " (what answers there does not speak HTTPS)"
	case errors.Is(err, syscall.ECONNREFUSED):
		err, hint = syscall.ECONNREFUSED, " (is the control plane running?)"
	case errors.As(err, &opErr) && opErr.Timeout(), errors.Is(err, context.DeadlineExceeded):
		hint = " (no answer in time)"
	}
	return fmt.Errorf("the control plane at %s is %w: %w%s", r.base, ErrUnreachable, err, hint)
}
