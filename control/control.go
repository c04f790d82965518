package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/autobot-fleet/autobot/control/api"
	"github.com/autobot-fleet/autobot/control/artifacts"
	"github.com/autobot-fleet/autobot/control/auth"
	"github.com/autobot-fleet/autobot/control/monitor"
	"github.com/autobot-fleet/autobot/internal/buildinfo"
	"github.com/autobot-fleet/autobot/internal/configfile"
	"github.com/autobot-fleet/autobot/internal/redisconn"
	"github.com/autobot-fleet/autobot/internal/sdnotify"
)

// Control is one control plane.
type Control struct {
	// Strict makes Run end with an error, as of the configuration, when the
	// server is set up in a way that loses tasks. Set it before Run.
	Strict bool

	cfg   *Config
	log   *zap.Logger
	level zap.AtomicLevel

	lock      io.Closer
	redis     *redisconn.Manager
	lacking   atomic.Pointer[string] // what our Redis user may not do, as a sentence
	monitor   *monitor.Monitor
	queue     *live
	api       *api.API
	artifacts *artifacts.Store
	cert      *Certificate
	on        *listeners
}

// New wires a control plane and opens its addresses. It talks to nobody yet:
// Redis may be away. Run must follow, it gives everything back. level is the
// log's, for Reload.
func New(cfg *Config, log *zap.Logger, level zap.AtomicLevel) (_ *Control, err error) {
	own := *cfg
	own.FillPaths()
	cfg = &own
	c := &Control{cfg: cfg, log: log, level: level}
	if c.lock, err = lockStateDir(cfg.StateDir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if _, err := cfg.Redis.CheckFiles(); err != nil { // before anything is made
		return nil, err
	}
	authenticator, err := openAuth(cfg.Auth, log)
	if err != nil {
		return nil, err
	}
	if c.cert, err = OpenCertificate(cfg.StateDir, cfg.TLS, log.Named("tls")); err != nil {
		if cfg.TLS.CertFile != "" {
			err = badConfig("tls.cert_file", err)
		}
		return nil, err
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if c.artifacts, err = artifacts.New(artifacts.Config{
		Dir: cfg.Artifacts.Dir, TTL: cfg.Artifacts.TTL, QuotaBytes: int64(cfg.Artifacts.QuotaBytes),
	}, log, reg); err != nil {
		return nil, err
	}
	if c.redis, err = redisconn.New(cfg.Redis, log, reg); err != nil {
		return nil, badConfig("redis", err) // it has read files and connected to nothing
	}
	if err := c.wireQueue(reg); err != nil {
		return nil, err
	}
	if c.on, err = openListeners(cfg.HTTP); err != nil {
		return nil, err
	}
	c.api = api.New(api.Deps{
		Queue: c.queue, Monitor: c.monitor, Redis: c.redis, Artifacts: c.artifacts, Auth: authenticator,
		Metrics: reg, Ready: c.Ready, Log: log, Version: buildinfo.Version,
	})
	return c, nil
}

// badConfig marks an error as one of the configuration.
func badConfig(key string, err error) error {
	var known *configfile.Error
	if errors.As(err, &known) {
		return err
	}
	return &configfile.Error{Problems: []configfile.Problem{{Key: key, Message: err.Error()}}}
}

// openAuth reads the secrets, and makes them on the first start.
func openAuth(cfg AuthConfig, log *zap.Logger) (*auth.Authenticator, error) {
	key, err := auth.LoadOrCreateSecret(cfg.InternalKeyFile)
	if err != nil {
		return nil, badConfig("auth.internal_key_file", err)
	}
	secret, err := auth.LoadOrCreateSecret(cfg.JWTSecretFile)
	if err != nil {
		return nil, badConfig("auth.jwt_secret_file", err)
	}
	return auth.New(auth.Config{InternalKey: key, JWTSecret: secret, Log: log})
}

// URL is an address that a program on this machine can open: that of HTTPS, or
// without TLS when it is off.
func (c *Control) URL() string {
	if c.on.https != nil {
		return "https://" + openable(c.on.https.Addr(), c.ownName())
	}
	return "http://" + openable(c.on.plain.Addr(), "localhost")
}

// ownName is a name of this machine that the certificate is for: our own is for
// localhost, one that was bought is not.
func (c *Control) ownName() string {
	if c.cfg.TLS.CertFile != "" && c.cert.hostname != "" {
		return c.cert.hostname
	}
	return "localhost"
}

// CAPath is the certificate that clients have to trust; empty when a
// certificate is configured.
func (c *Control) CAPath() string { return c.cert.CAPath() }

// Ready reports whether the control plane can do its work, else why not. It is
// ready as soon as the monitor gets through to Redis: that also closes the
// breaker that holds back the API.
func (c *Control) Ready() (ok bool, reason string) {
	if lacking := c.lacking.Load(); lacking != nil && *lacking != "" {
		return false, strings.TrimSuffix(*lacking, ".")
	}
	if ok, reason = c.monitor.Ready(); !ok {
		return false, reason
	}
	if wait, err := c.redis.Refuses(database); err == nil && wait > 0 {
		return false, fmt.Sprintf("Redis failed repeatedly: requests are refused until it answers the monitor, at most %s more (redis.breaker)", wait.Round(time.Second))
	}
	return true, ""
}

// Run serves until ctx is done, then lets requests and the step in progress
// finish, gives the lead up and returns nil. It returns an error only when the
// API can no longer be served. It may be called once.
func (c *Control) Run(ctx context.Context) error {
	defer c.close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.monitor.Run(ctx) })
	g.Go(func() error { return c.artifacts.Run(ctx) })
	g.Go(func() error { return c.cert.Run(ctx) })
	g.Go(func() error { return c.on.serve(ctx, c.api, c.cert.TLS()) })
	g.Go(func() error { return c.watchFacts(ctx) })
	g.Go(func() error { return c.notify(ctx) })
	c.log.Info("control plane started", zap.String("url", c.URL()), zap.Strings("listen", c.on.addresses()), zap.String("state_dir", c.cfg.StateDir),
		zap.String("ca", c.CAPath()), zap.String("version", buildinfo.Version), zap.String("profile", c.cfg.Profile))
	err := g.Wait()
	c.log.Info("control plane stopped", zap.Error(err))
	return err
}

// notify tells systemd how it goes. The service is ready although Redis may
// be away: it serves, and says so at /readyz.
func (c *Control) notify(ctx context.Context) error {
	sdnotify.Ready()
	defer sdnotify.Stopping()
	every, watched := sdnotify.WatchdogInterval()
	if !watched {
		every = 10 * time.Second
	}
	tick := time.NewTicker(min(every, 10*time.Second))
	defer tick.Stop()
	for {
		status := "ready, standing by"
		if ok, reason := c.Ready(); !ok {
			status = reason
		} else if c.monitor.Leader() {
			status = "ready, leading"
		}
		sdnotify.Status(status)
		if watched {
			sdnotify.Watchdog()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// close gives back what New took.
func (c *Control) close() {
	if c.on != nil {
		c.on.close()
	}
	var err error
	if c.redis != nil {
		err = c.redis.Close()
	}
	if err = errors.Join(err, c.lock.Close()); err != nil {
		c.log.Warn("the control plane's end was not clean", zap.String("state_dir", filepath.Clean(c.cfg.StateDir)), zap.Error(err))
	}
}
