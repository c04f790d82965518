package control

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/autobot-fleet/autobot/control/artifacts"
	"github.com/autobot-fleet/autobot/control/auth"
)

// stateDir examines the state folder and the disk below the artifacts.
func (d *Doctor) stateDir() {
	dir := d.Config.StateDir
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.found.Note("state", "%s is not there yet; the first start makes it", dir)
		return
	case err != nil:
		d.found.Fault("state", err.Error(), "let this user use the folder, or set state_dir to one that it may")
		return
	case !info.IsDir():
		d.found.Fault("state", dir+" is not a folder", "set state_dir to a folder")
		return
	case unix.Access(dir, unix.W_OK|unix.X_OK) != nil:
		d.found.Fault("state", "this user may not write in "+dir, "run this as the user of the control plane, or chown the folder to it")
		return
	case info.Mode().Perm()&0o077 != 0:
		d.found.Warn("state", fmt.Sprintf("%s is open to other users (mode %04o) and holds keys", dir, info.Mode().Perm()), "chmod 700 "+dir)
	default:
		d.found.OK("state", "%s", dir)
	}
	d.disk(dir)
}

func (d *Doctor) disk(dir string) {
	if _, err := os.Stat(d.Config.Artifacts.Dir); err == nil {
		dir = d.Config.Artifacts.Dir
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		d.found.Note("disk", "the free space of %s is unknown: %v", dir, err)
		return
	}
	free := int64(st.Bavail) * int64(st.Bsize) //nolint:unconvert // the types differ between systems
	if free < artifacts.DefaultFreeMin {
		d.found.Warn("disk", fmt.Sprintf("%s has %s free: artifacts are refused below %s", dir, mebibytes(free), mebibytes(artifacts.DefaultFreeMin)),
			"free some space, or set artifacts.dir to a larger file system")
		return
	}
	d.found.OK("disk", "%s has %s free, artifacts may use %s", dir, mebibytes(free), d.Config.Artifacts.QuotaBytes)
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// secrets examines the files of the API's secrets.
func (d *Doctor) secrets() {
	for _, s := range []struct{ name, path string }{
		{"internal key", d.Config.Auth.InternalKeyFile}, {"jwt secret", d.Config.Auth.JWTSecretFile},
	} {
		_, err := auth.LoadSecret(s.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			d.found.Note(s.name, "%s is not there yet; the first start makes it", s.path)
		case errors.Is(err, fs.ErrPermission):
			d.found.Warn(s.name, err.Error(), "run this as the user of the control plane")
		case err != nil:
			d.found.Fault(s.name, err.Error(), "see the sentence; then restart the control plane")
		default:
			d.found.OK(s.name, "%s", s.path)
		}
	}
}

// certificate examines the age of the HTTPS certificate.
func (d *Doctor) certificate() {
	certFile, own := d.Config.TLS.CertFile, false
	keyFile := d.Config.TLS.KeyFile
	if certFile == "" {
		own = true
		certFile, keyFile = filepath.Join(d.Config.StateDir, "server.crt"), filepath.Join(d.Config.StateDir, "server.key")
	}
	pair, err := loadPair(certFile, keyFile)
	switch {
	case own && errors.Is(err, fs.ErrNotExist):
		d.found.Note("certificate", "not there yet; the first start makes it")
		return
	case err != nil:
		d.found.Fault("certificate", err.Error(), "correct tls.cert_file and tls.key_file, or leave both out to use one of control's own making")
		return
	}
	left := time.Until(pair.Leaf.NotAfter)
	switch {
	case left <= 0:
		d.found.Fault("certificate", fmt.Sprintf("%s has expired on %s", certFile, pair.Leaf.NotAfter.Format(time.DateOnly)), certificateRepair(own))
	case left < renewBefore:
		d.found.Warn("certificate", fmt.Sprintf("%s expires in %s", certFile, lifetime(left)), certificateRepair(own))
	default:
		d.found.OK("certificate", "%s is valid for %s", certFile, lifetime(left))
	}
}

func certificateRepair(own bool) string {
	if own {
		return "restart the control plane: it makes a new one"
	}
	return "renew it, then: systemctl reload autobot-control"
}

// api asks the control plane of this machine whether it is ready.
func (d *Doctor) api(ctx context.Context) {
	url, client, err := d.localAPI()
	if err != nil {
		d.found.Note("api", "%v", err)
		return
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		d.found.Note("api", "%v", err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		d.found.Note("api", "no control plane answers at %s (start it: systemctl start autobot-control, or autobot-control serve): %v", url, errors.Unwrap(err))
		return
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // only for the message
	if resp.StatusCode != http.StatusOK {
		var said struct {
			Detail string `json:"detail"`
		}
		if json.Unmarshal(body, &said) != nil || said.Detail == "" {
			said.Detail = fmt.Sprintf("it answers %s", resp.Status)
		}
		d.found.Warn("api", fmt.Sprintf("%s is not ready: %s", url, said.Detail), "see the other lines")
		return
	}
	d.found.OK("api", "%s is ready", url)
}

// localAPI is the address of the API on this machine and a client that trusts
// its certificate alone.
func (d *Doctor) localAPI() (string, *http.Client, error) {
	if d.Config.HTTP.Listen == ListenOff {
		return "http://" + d.Config.HTTP.PlainListen, &http.Client{Transport: &http.Transport{}}, nil
	}
	host, port, err := net.SplitHostPort(d.Config.HTTP.Listen)
	if err != nil {
		return "", nil, err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	file := d.Config.TLS.CertFile
	if file == "" {
		file = filepath.Join(d.Config.StateDir, "ca.crt")
	}
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return "", nil, fmt.Errorf("no control plane has run here yet: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	verify := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if d.Config.TLS.CertFile != "" {
		verify = pinned(text)
	}
	return "https://" + net.JoinHostPort(host, port), &http.Client{Transport: &http.Transport{TLSClientConfig: verify}}, nil
}

// pinned accepts exactly the configured certificate: its name need not be one
// of this machine's loopback names.
func pinned(text []byte) *tls.Config {
	want, err := firstCertificate(text)
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection below compares the certificate itself
		VerifyConnection: func(s tls.ConnectionState) error {
			switch {
			case err != nil:
				return err
			case len(s.PeerCertificates) == 0 || !s.PeerCertificates[0].Equal(want):
				return errors.New("another program answers there: its certificate is not the configured one")
			}
			return nil
		},
	}
}
