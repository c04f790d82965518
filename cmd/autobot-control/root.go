package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/control"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/internal/configfile"
	"github.com/autobot-fleet/autobot/internal/redisconn"
)

// commands are the subcommands, in the order of the help text. A new one adds
// a function newXCommand in a file of its own and its name here.
var commands = []func(*environment) *cobra.Command{
	newServeCommand,
	newDevCommand,
	newTasksCommand,
	newWorkersCommand,
	newQueuesCommand,
	newFailoverCommand,
	newAuthCommand,
	newRedisCommand,
	newDoctorCommand,
}

// environment is what all commands share.
type environment struct {
	cli.App
}

// program is what the control plane says about itself. Each of its keys has a
// flag of its own.
var program = cli.Program{
	Name:  "autobot-control",
	Short: "Control plane of an AutoBot Fleet",
	Long: "autobot-control serve is the control plane: it fails dead workers over and serves the\n" +
		"API. autobot-control dev runs a whole fleet on this machine. The other commands are for\n" +
		"producers and operators.",
	ConfigFile: control.ConfigFile,
	EnvPrefix:  control.EnvPrefix,
	SetExample: "failover.check_interval=5s",
	Keys: []cli.KeyFlag{
		{Flag: "redis-url", Key: "redis.url", Help: "address of Redis, for example redis://main.lan:6379"},
		{Flag: "redis-password-file", Key: "redis.password_file", Help: "file with the password of Redis"},
		{Flag: "http-listen", Key: "http.listen", Help: "HTTPS API: host:port, or off (default 127.0.0.1:8443)"},
		{Flag: "state-dir", Key: "state_dir", Help: "folder for CA, keys and artifacts"},
		{Flag: "profile", Key: "profile", Help: "timing: seed (default) or fast"},
		{Flag: "log-level", Key: "log.level", Help: "debug, info, warn or error"},
		{Flag: "log-format", Key: "log.format", Help: "auto, console or json"},
	},
	Code: codeFor,
}

func newEnvironment(stdin io.Reader, stdout, stderr io.Writer) *environment {
	return &environment{cli.App{Program: program, Stdin: stdin, Stdout: stdout, Stderr: stderr}}
}

// newRoot builds the whole command tree.
func (env *environment) newRoot() *cobra.Command {
	root := env.Root()
	for _, newCommand := range commands {
		root.AddCommand(newCommand(env))
	}
	root.AddCommand(env.NewConfig(env.check), env.NewVersion(), env.NewCompletion(), env.NewMan())
	return root
}

// load reads the configuration that the flags choose, and prints its warnings.
func (env *environment) load() (*control.Config, *configfile.Loaded, error) {
	return cli.Load(&env.App, control.LoadConfig)
}

// check reads the configuration for those who only look at it.
func (env *environment) check() (*cli.LoadedConfig, error) {
	cfg, loaded, err := env.load()
	if err != nil {
		return nil, err
	}
	return &cli.LoadedConfig{Loaded: loaded, CheckFiles: cfg.Redis.CheckFiles}, nil
}

// codeFor is the exit code of an error that did not choose one, 0 for those
// that say nothing about it.
func codeFor(err error) int {
	if code := clientCode(err); code != 0 {
		return code
	}
	if redisconn.IsWait(err) {
		return cli.ExitTryLater
	}
	return 0
}
