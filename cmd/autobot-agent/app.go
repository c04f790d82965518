package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/internal/configfile"
)

// app is what all commands share.
type app struct {
	cli.App
}

// program is what the agent says about itself. Each of its keys has a flag of
// its own.
var program = cli.Program{
	Name:  "autobot-agent",
	Short: "Worker agent of an AutoBot Fleet machine",
	Long: "autobot-agent claims tasks from the fleet's queue in Redis and runs them on the\n" +
		"executors of this machine. \"autobot-agent run\" is what the service runs; the other\n" +
		"commands look at it and steer it.",
	ConfigFile: agent.ConfigFile,
	EnvPrefix:  agent.EnvPrefix,
	SetExample: "limits.memory_percent=90",
	Keys: []cli.KeyFlag{
		{Flag: "redis-url", Key: "redis.url", Help: "address of Redis, for example redis://main.lan:6379"},
		{Flag: "redis-password-file", Key: "redis.password_file", Help: "file with the password of Redis"},
		{Flag: "worker-id", Key: "worker.id", Help: "name of this worker (default: made once from the host name)"},
		{Flag: "max-concurrent", Key: "worker.max_concurrent", Help: "tasks at once (default: number of processors)"},
		{Flag: "profile", Key: "worker.profile", Help: "timing: seed (default) or fast"},
		{Flag: "control-url", Key: "control.url", Help: "https address of the control plane"},
		{Flag: "http-listen", Key: "http.listen", Help: "local API: host:port, or off (default 127.0.0.1:8080)"},
		{Flag: "state-dir", Key: "state_dir", Help: "folder for identity, spool and local artifacts"},
		{Flag: "log-level", Key: "log.level", Help: "debug, info, warn or error"},
		{Flag: "log-format", Key: "log.format", Help: "auto, console or json"},
	},
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{cli.App{Program: program, Stdin: stdin, Stdout: stdout, Stderr: stderr}}
}

// newRoot builds the whole command tree.
func (a *app) newRoot() *cobra.Command {
	root := a.Root()
	root.AddCommand(
		newRun(a), newStatus(a), newDoctor(a), newExecutors(a), newEngines(a), newModels(a), newDrain(a), newResume(a),
		a.NewConfig(a.check), a.NewVersion(), a.NewCompletion(), a.NewMan(),
	)
	return root
}

// load reads the configuration that the flags choose, and prints its warnings.
func (a *app) load() (*agent.Config, *configfile.Loaded, error) {
	return cli.Load(&a.App, agent.LoadConfig)
}

// check reads the configuration for those who only look at it.
func (a *app) check() (*cli.LoadedConfig, error) {
	cfg, loaded, err := a.load()
	if err != nil {
		return nil, err
	}
	return &cli.LoadedConfig{Loaded: loaded, CheckFiles: cfg.Redis.CheckFiles}, nil
}
