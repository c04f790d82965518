package control

import (
	"reflect"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/logging"
	"github.com/autobot-fleet/autobot/internal/sdnotify"
)

// Reload takes over the log level, the failover settings and renewed
// certificate files from a configuration that was read again. Other changes
// need a restart and are named in the log.
func (c *Control) Reload(cfg *Config) error {
	sdnotify.Reloading()
	defer sdnotify.Ready()
	level, err := logging.ParseLevel(cfg.Log.Level)
	if err != nil {
		return err
	}
	acting, serving, err := c.backends(cfg)
	if err != nil {
		return err
	}
	if err := c.monitor.Reload(cfg.Failover, acting); err != nil {
		return err
	}
	c.queue.set(serving, cfg.Failover.ResultTTL)
	c.level.SetLevel(level)
	c.cert.Reload()
	c.log.Info("configuration reloaded", zap.Strings("restart_needed_for", c.needRestart(cfg)))
	return nil
}

// needRestart lists changed settings that a reload does not take over.
func (c *Control) needRestart(cfg *Config) []string {
	out := []string{}
	for _, s := range []struct {
		key     string
		changed bool
	}{
		{"http", c.cfg.HTTP != cfg.HTTP},
		{"state_dir", c.cfg.StateDir != cfg.StateDir},
		{"auth", c.cfg.Auth != cfg.Auth},
		{"tls", !reflect.DeepEqual(c.cfg.TLS, cfg.TLS)},
		{"artifacts", c.cfg.Artifacts != cfg.Artifacts},
		{"log.format", c.cfg.Log.Format != cfg.Log.Format},
		{"redis.url", c.cfg.Redis.URL != cfg.Redis.URL},
	} {
		if s.changed {
			out = append(out, s.key)
		}
	}
	return out
}
