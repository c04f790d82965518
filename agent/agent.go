package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/autobot-fleet/autobot/agent/host"
	"github.com/autobot-fleet/autobot/agent/spool"
	"github.com/autobot-fleet/autobot/agent/sysload"
	"github.com/autobot-fleet/autobot/internal/buildinfo"
	"github.com/autobot-fleet/autobot/internal/configfile"
)

// Options are what an Agent needs beside its configuration. Every field may be
// left zero.
type Options struct {
	Log   *zap.Logger
	Level zap.AtomicLevel // of Log, changed by a reload
	Files []string        // the configuration came from
	// Load reads the configuration again for a reload; nil: it cannot be
	// reloaded.
	Load func() (*Config, *configfile.Loaded, error)
}

// Agent is one worker agent. Create it with New and call Run once; the other
// methods may be called at any time while Run runs.
type Agent struct {
	o        Options
	log      *zap.Logger
	registry *prometheus.Registry
	started  time.Time
	hostname string
	workerID string
	nodeID   string

	sampler *sysload.Sampler
	spool   *spool.Spool
	host    *host.Host
	upload  *uploader

	assembled chan struct{} // closed when the parts exist
	ended     chan struct{} // closed when Run has returned
	reloaded  chan struct{} // receives after a reload that changed something

	mu          sync.Mutex
	cfg         Config
	configError string // why the last reload changed nothing
	stopping    bool
	address     string   // of the local API
	warnings    []string // about the server
	queue       *queueLink
}

// New checks the configuration. It takes nothing and starts nothing.
func New(cfg Config, o Options) (*Agent, error) {
	if problems := cfg.Validate(); len(problems) > 0 {
		return nil, &configfile.Error{Problems: problems}
	}
	if _, err := cfg.Redis.CheckFiles(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the name of this machine: %w", err)
	}
	a := &Agent{
		o: o, log: o.Log.Named("agent"), cfg: cfg, hostname: hostname, started: time.Now(),
		registry: prometheus.NewRegistry(), assembled: make(chan struct{}), ended: make(chan struct{}), reloaded: make(chan struct{}, 1),
	}
	a.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return a, nil
}

// Run works until ctx is done, then drains and ends all in order: the worker
// delivers or hands back what it has and deregisters, the executors end, and
// the local API is the last to go. It returns nil after a clean stop, and an
// error if the agent could not start or a part of it failed.
func (a *Agent) Run(ctx context.Context) error {
	defer close(a.ended)
	cfg := a.config()
	lock, err := lockStateDir(cfg.StateDir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	listeners, err := listen(cfg)
	if err != nil {
		return err
	}
	if err := a.assemble(cfg); err != nil {
		listeners.close()
		return err
	}
	a.setAddress(listeners.address())
	a.registerMetrics()
	close(a.assembled)
	a.log.Info("the agent has started", zap.String("worker", a.workerID), zap.String("version", buildinfo.Version),
		zap.String("api", listeners.address()), zap.String("state_dir", cfg.StateDir), zap.Strings("config", a.o.Files))
	err = a.runParts(ctx, listeners)
	a.log.Info("the agent has stopped", zap.Duration("up", time.Since(a.started).Round(time.Millisecond)), zap.Error(err))
	return err
}

// assemble builds the parts that do not need Redis.
func (a *Agent) assemble(cfg Config) (err error) {
	if a.workerID, err = workerID(cfg.Worker.ID, cfg.StateDir, a.hostname); err != nil {
		return err
	}
	a.nodeID = nodeID("/", a.hostname, cfg.StateDir)
	if a.host, err = host.New(hostConfig(cfg, cfg.StateDir, runtimeDir(cfg)), a.o.Log, a.registry); err != nil {
		return err
	}
	// The spool is swept when it is made: nobody may write there any more.
	if err := a.host.KillLeftovers(); err != nil {
		return fmt.Errorf("end the executors of a former run: %w", err)
	}
	if a.upload, err = newUploader(cfg.Control, a.o.Log); err != nil {
		return err
	}
	if a.spool, err = spool.New(spoolConfig(cfg, a.upload.forSpool()), a.o.Log); err != nil {
		return err
	}
	a.sampler = sysload.New(sysload.Config{Dir: spoolDir(cfg), Limits: loadLimits(cfg.Limits), Also: a.spool.Closed}, a.o.Log)
	return nil
}

// runParts runs everything. A part that fails stops the work as ctx does.
func (a *Agent) runParts(ctx context.Context, l *listeners) error {
	work, stopWork := context.WithCancelCause(ctx)
	defer stopWork(nil)
	base, stopBase := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBase()
	executors, stopExecutors := context.WithCancel(base)
	defer stopExecutors()

	var parts errgroup.Group
	start := func(run func(context.Context) error, ctx context.Context) {
		parts.Go(func() error {
			err := run(ctx)
			if err != nil {
				stopWork(err)
			}
			return err
		})
	}
	hostEnded := make(chan struct{})
	start(func(ctx context.Context) error {
		defer close(hostEnded)
		return a.host.Run(ctx)
	}, executors)
	start(a.sampler.Run, base)
	start(a.spool.Run, base)
	start(func(ctx context.Context) error { return a.newAPI().serve(ctx, l) }, base)
	start(func(ctx context.Context) error { return a.notifySystemd(ctx, work) }, base)
	parts.Go(func() error {
		defer stopBase()
		err := a.work(work)
		a.setStopping()
		stopExecutors()
		<-hostEnded
		a.upload.close()
		a.closeQueue() // the heartbeat's connection goes last
		return err
	})
	return parts.Wait()
}

// HandBack makes a stop in progress hand its running tasks back to the queue
// at once.
func (a *Agent) HandBack() {
	if q := a.link(); q != nil {
		q.worker.HandBack()
	}
}

func (a *Agent) config() Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cfg
}

func (a *Agent) setAddress(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.address = address
}

func (a *Agent) setStopping() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopping = true
}

// runtimeDir holds sockets: where systemd wants them, else in the state folder.
func runtimeDir(cfg Config) string {
	if dir := os.Getenv("RUNTIME_DIRECTORY"); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(cfg.StateDir, "run")
}

func spoolDir(cfg Config) string { return filepath.Join(cfg.StateDir, "spool") }

func hostConfig(cfg Config, stateDir, runtimeDir string) host.Config {
	return host.Config{
		Dirs: cfg.Executors.Dirs, Trust: cfg.Executors.Trust, RuntimeDir: runtimeDir, StateDir: stateDir,
		EnginesDir: cfg.Engines.Dir, Settings: cfg.Executors.Settings, AgentVersion: buildinfo.Version,
		FleetHosts: fleetHosts(cfg),
	}
}

// fleetHosts are the servers of the fleet that the agent knows.
func fleetHosts(cfg Config) []string {
	hosts := cfg.Redis.Hosts()
	if u, err := url.Parse(cfg.Control.URL); err == nil && u.Host != "" {
		port := u.Port()
		if port == "" {
			port = "443"
		}
		hosts = append(hosts, net.JoinHostPort(u.Hostname(), port))
	}
	return hosts
}

func spoolConfig(cfg Config, up spool.Uploader) spool.Config {
	const mib = 1 << 20
	return spool.Config{
		Dir: spoolDir(cfg), StoreDir: filepath.Join(cfg.StateDir, "artifacts"),
		Quotas:  spool.Quotas{Task: cfg.Artifacts.TaskMB * mib, Spool: cfg.Artifacts.SpoolMB * mib, Store: cfg.Artifacts.StoreMB * mib},
		FreeMin: freeMin(cfg.Limits), TTL: cfg.Artifacts.TTL, ResultTTL: cfg.Failover.ResultTTL, Upload: up,
	}
}

// freeMin is limits.disk_free_mb in bytes, as the spool wants it.
func freeMin(l LimitsConfig) int64 {
	if l.DiskFreeMB <= 0 {
		return -1 // off
	}
	return int64(l.DiskFreeMB * (1 << 20))
}

func loadLimits(l LimitsConfig) sysload.Limits {
	return sysload.Limits{CPUPercent: l.CPUPercent, MemoryPercent: l.MemoryPercent, DiskFreeMB: l.DiskFreeMB}
}

// uploader is the way to the control plane, which a reload may change.
type uploader struct {
	mu   sync.Mutex
	http *spool.HTTPUploader // nil: none
	log  *zap.Logger
}

func newUploader(c ControlConfig, log *zap.Logger) (*uploader, error) {
	u := &uploader{log: log}
	return u, u.set(c)
}

// set replaces the way. The former one keeps what it has under way.
func (u *uploader) set(c ControlConfig) error {
	var next *spool.HTTPUploader
	if c.URL != "" {
		var err error
		if next, err = spool.NewHTTPUploader(spool.HTTPConfig{URL: c.URL, CAFile: c.CAFile, KeyFile: c.KeyFile}, u.log); err != nil {
			return err
		}
	}
	u.close()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.http = next
	return nil
}

// forSpool is what the spool gets: a nil interface when there is no way.
func (u *uploader) forSpool() spool.Uploader {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.http == nil {
		return nil
	}
	return u.http
}

func (u *uploader) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.http != nil {
		u.http.Close()
	}
}

var errNoReload = errors.New("this agent cannot reload its configuration: restart it")
