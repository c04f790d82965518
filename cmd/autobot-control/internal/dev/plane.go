package dev

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/control"
	"github.com/autobot-fleet/autobot/internal/logging"
	"github.com/autobot-fleet/autobot/internal/redisconn"
)

// plane is the control plane in this process.
type plane struct {
	*control.Control
	keyFile, jwtFile string
	log              *os.File
	end              context.CancelFunc
	done             chan struct{}
	err              error
}

// startControl runs the control plane on a free port.
func startControl(f *folder, redis redisconn.Config, fail context.CancelCauseFunc) (*plane, error) {
	cfg := control.Defaults("fast")
	cfg.Profile = "fast"
	cfg.Redis = redis
	cfg.HTTP = control.HTTPConfig{Listen: "127.0.0.1:0"}
	cfg.StateDir = f.path("control")
	cfg.Auth.InternalKeyFile = f.path("control", "internal.key")
	cfg.Auth.JWTSecretFile = f.path("control", "jwt.secret")
	cfg.Artifacts.Dir = f.path("control", "artifacts")
	file, err := f.logFile("control")
	if err != nil {
		return nil, err
	}
	log, level, err := logging.New(logging.Config{Level: "info", Format: "console"}, file)
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	c, err := control.New(&cfg, log, level)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("start the control plane: %w", err)
	}
	ctx, end := context.WithCancel(context.Background())
	p := &plane{Control: c, keyFile: cfg.Auth.InternalKeyFile, jwtFile: cfg.Auth.JWTSecretFile, log: file, end: end, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		if p.err = c.Run(ctx); p.err != nil {
			log.Error("the control plane has ended", zap.Error(p.err))
			fail(fmt.Errorf("the control plane has ended: %w", p.err))
		}
	}()
	return p, writeFile(f.path("control.yaml"), controlYAML(cfg, c.URL()))
}

// controlYAML is for commands that look at Redis themselves, such as doctor:
// autobot-control doctor --config DIR/control.yaml.
func controlYAML(cfg control.Config, address string) string {
	listen := cfg.HTTP.Listen
	if u, err := url.Parse(address); err == nil {
		listen = u.Host
	}
	var b strings.Builder
	b.WriteString("# made by autobot-control dev at each start, for commands such as: autobot-control doctor --config THIS\n")
	fmt.Fprintf(&b, "redis:\n  url: %q\n", cfg.Redis.URL)
	if cfg.Redis.PasswordFile != "" {
		fmt.Fprintf(&b, "  password_file: %q\n", cfg.Redis.PasswordFile)
	}
	fmt.Fprintf(&b, "http:\n  listen: %q\nstate_dir: %q\nprofile: %s\n", listen, cfg.StateDir, cfg.Profile)
	return b.String()
}

// stop ends the control plane and waits for it.
func (p *plane) stop() error {
	p.end()
	<-p.done
	_ = p.log.Close()
	return p.err
}
