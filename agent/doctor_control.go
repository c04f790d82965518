package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/internal/configfile"
)

// control checks that artifacts would arrive: the certificate, the way, and
// the key.
func (d *Doctor) control(ctx context.Context) {
	const name = "control"
	c := d.Config.Control
	if c.URL == "" {
		d.found.Warn(name, "control.url is not set: files that tasks leave stay on this machine, and tasks with files as input (--attach) fail here",
			"set control.url, control.ca_file and control.key_file (copies of ca.crt and internal.key from the control plane's state folder)")
		return
	}
	key, warning, err := configfile.ReadSecretFile(c.KeyFile)
	if err != nil {
		d.found.Fault(name, "control.key_file: "+err.Error(), "copy internal.key of the control plane's state folder to "+c.KeyFile+" (mode 0600)")
		return
	}
	if warning != "" {
		d.found.Warn(name, "control.key_file: "+warning, "chmod 0600 "+c.KeyFile)
	}
	client, err := controlClient(c)
	if err != nil {
		d.found.Fault(name, err.Error(), "copy ca.crt of the control plane's state folder to the file named by control.ca_file")
		return
	}
	defer client.CloseIdleConnections()
	began := time.Now()
	status, err := ask(ctx, client, strings.TrimSuffix(c.URL, "/")+"/api/queues", key)
	switch {
	case err != nil:
		d.found.Fault(name, err.Error(), controlRepair(err))
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		d.found.Fault(name, fmt.Sprintf("%s refuses the key of control.key_file (%d)", c.URL, status), "copy the internal key of the control plane to "+c.KeyFile)
	case status >= 500:
		d.found.Warn(name, fmt.Sprintf("%s answers %d", c.URL, status), "look at autobot-control doctor on the main host")
	default:
		d.found.OK(name, "%s answers in %s and takes the key", c.URL, time.Since(began).Round(time.Millisecond))
	}
}

// controlClient trusts control.ca_file alone, else the system's certificates.
func controlClient(c ControlConfig) (*http.Client, error) {
	var roots *x509.CertPool
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("control.ca_file: %w", err)
		}
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("control.ca_file %s holds no certificate in PEM form", c.CAFile)
		}
	}
	return &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}},
		// The key must not follow a redirect to somebody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

func ask(ctx context.Context, client *http.Client, url, key string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("control.url: %w", err)
	}
	req.Header.Set("X-Internal-API-Key", key)
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_ = resp.Body.Close()
	return resp.StatusCode, nil
}

// controlRepair says what to do about a failed request.
func controlRepair(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case errors.As(err, &unknown):
		return "set control.ca_file to the CA certificate of this control plane"
	case errors.As(err, &host):
		return "use a name or address in control.url that the certificate of the control plane has"
	}
	return "check control.url, and that autobot-control serve runs there and listens on an address that this machine reaches (http.listen)"
}
