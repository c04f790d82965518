package main

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/cmd/autobot-control/internal/dev"
	"github.com/autobot-fleet/autobot/control"
	"github.com/autobot-fleet/autobot/internal/cli"
)

// findLocal looks for the control plane of this machine: the one that the
// configuration describes, else one without configuration that answers, else a
// running dev.
func findLocal(env *environment) (place, error) {
	cfg, explicit, err := localConfig(env)
	if err != nil {
		return place{}, err
	}
	at, err := placeOf(cfg)
	if explicit {
		return at, err
	}
	known := err == nil && exists(at.keyFile)
	if known && answers(cfg.HTTP.Listen) {
		return at, nil
	}
	if r := dev.Find(); r != nil {
		return place{url: r.URL, caFile: r.CAFile, keyFile: r.KeyFile, from: "the dev in " + r.Dir}, nil
	}
	if known {
		return at, nil
	}
	return place{}, cli.Unreachablef("no control plane is set up on this machine and none runs (start one for a try: autobot-control dev; or name one: --control-url https://main.lan:8443 --ca-file ca.crt --key-file internal.key)")
}

// localConfig reads the control plane's configuration. explicit says that the
// user or the administrator wrote one; else it is made of defaults, variables
// and flags, and may lack an address of Redis, which the API does not need.
func localConfig(env *environment) (cfg *control.Config, explicit bool, err error) {
	explicit = env.ConfigPath != "" || exists(control.ConfigFile)
	keys := env.KeyFlags()
	flagged := keys["state_dir"] != "" || keys["http.listen"] != ""
	cfg, _, err = env.load()
	if err == nil || explicit {
		return cfg, explicit || flagged, err
	}
	overrides, err := env.Overrides()
	if err != nil {
		return nil, false, err
	}
	if overrides["redis.url"] == "" {
		overrides["redis.url"] = "redis://127.0.0.1" // required by the reader, used by nobody here
	}
	cfg, _, err = control.LoadConfig("", overrides)
	return cfg, flagged, err
}

// placeOf is where a control plane with this configuration serves its API.
func placeOf(cfg *control.Config) (place, error) {
	at := place{
		caFile: filepath.Join(cfg.StateDir, "ca.crt"), keyFile: cfg.Auth.InternalKeyFile,
		// Control's own certificate always has this name, whatever address is
		// listened on.
		serverName: "localhost",
		from:       "the configuration of this machine", start: "systemctl start autobot-control, or autobot-control serve",
	}
	if cfg.HTTP.Listen == control.ListenOff {
		return at, cli.Usagef("http.listen is off, so the control plane of this machine has no https address of its own: name the one of the proxy before it with --control-url")
	}
	host, port, err := net.SplitHostPort(cfg.HTTP.Listen)
	if err != nil {
		return at, fmt.Errorf("read http.listen: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	at.url = "https://" + net.JoinHostPort(host, port)
	if cfg.TLS.CertFile != "" {
		at.caFile = cfg.TLS.CertFile
		if at.serverName, err = certificateName(cfg.TLS.CertFile); err != nil {
			return at, err
		}
	}
	return at, nil
}

// certificateName is a name that a configured certificate has.
func certificateName(path string) (string, error) {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return "", fmt.Errorf("read tls.cert_file: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return "", fmt.Errorf("tls.cert_file: %s holds no PEM certificate", path)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "", fmt.Errorf("tls.cert_file: %s: %w", path, err)
	case len(cert.DNSNames) > 0:
		return strings.Replace(cert.DNSNames[0], "*", "any", 1), nil
	case len(cert.IPAddresses) > 0:
		return cert.IPAddresses[0].String(), nil
	}
	return "", fmt.Errorf("tls.cert_file: the certificate in %s has no name", path)
}

// answers reports whether something listens on a local address.
func answers(listen string) bool {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = ""
	}
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), time.Second)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil || !errors.Is(err, fs.ErrNotExist)
}
