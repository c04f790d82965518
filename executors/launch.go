package executors

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/autobot-fleet/autobot/executors/child"
	executorpb "github.com/autobot-fleet/autobot/executors/proto"
)

// DefaultStartTimeout is how long an executor may take until its handshake.
const DefaultStartTimeout = 10 * time.Second

// maxSocketDir keeps socket paths below the 107 bytes that Linux allows, with
// go-plugin's own names appended.
const maxSocketDir = 60

// LaunchOptions say how Launch starts an executor process. Checking the file
// (owner, hash, signature) is the caller's duty.
type LaunchOptions struct {
	// Path is the executable, absolute.
	Path string
	Args []string

	// Env is the whole environment as KEY=VALUE, beside what the handshake
	// adds. Nothing is inherited.
	Env []string

	// Dir is the working directory, "/" when empty.
	Dir string

	// SocketDir is an existing private folder for the socket; its path may
	// have at most 60 bytes. It should not be below /tmp, where cleaners
	// remove the sockets of live processes.
	SocketDir string

	// StartTimeout is the time until the handshake is complete; 0 means
	// DefaultStartTimeout.
	StartTimeout time.Duration

	// Stderr gets what the process and its children print on standard output
	// and standard error, one line per Write, each with its newline and valid
	// UTF-8. Lines over 16 KiB are cut and say so. It must not block. nil
	// discards; the last lines are in Exit.Output in any case.
	Stderr io.Writer

	// Started is called with the pid, which is also the process group id, as
	// soon as the process exists and before its handshake. May be nil.
	Started func(pid int)

	// Lease, when not nil, ends the process once it has run out while a task
	// runs in it. The host has to extend it in time.
	Lease *Lease

	// CgroupFD, when not 0, is an open cgroup v2 folder that the process is
	// born into, with nothing else in it: all that is in it dies with the
	// process.
	CgroupFD int
}

func (o *LaunchOptions) check() error {
	if !filepath.IsAbs(o.Path) {
		return fmt.Errorf("executor path %q is not absolute", o.Path)
	}
	if len(o.SocketDir) > maxSocketDir {
		return fmt.Errorf("socket folder %s has %d bytes, at most %d are possible (choose a shorter runtime folder)", o.SocketDir, len(o.SocketDir), maxSocketDir)
	}
	info, err := os.Stat(o.SocketDir)
	if err != nil {
		return fmt.Errorf("socket folder: %w", err)
	}
	if !info.IsDir() || !filepath.IsAbs(o.SocketDir) {
		return fmt.Errorf("socket folder %q must be the absolute path of a folder", o.SocketDir)
	}
	if o.Dir == "" {
		o.Dir = "/"
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = DefaultStartTimeout
	}
	return nil
}

// Launch starts an executor process and completes the handshake. ctx and
// StartTimeout bound the start only. An error shows what the process printed;
// nothing is left of the process then.
//
// The caller ends the process with Shutdown or Kill, and it dies with the
// calling process in any case. It and all that it starts run at a lower
// priority than the calling process, see child.Lower.
func Launch(ctx context.Context, o LaunchOptions) (*Process, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := newProcessRunner(o, envMark+"="+rand.Text())
	// Everything in a ClientConfig belongs to one start of one process.
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  handshake,
		VersionedPlugins: versions(nil),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS:         true,
		Managed:          false,
		SkipHostEnv:      true,
		StartTimeout:     o.StartTimeout,
		Logger:           hclog.New(&hclog.LoggerOptions{Level: hclog.Off, Output: io.Discard}),
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: o.SocketDir},
		GRPCDialOptions: []grpc.DialOption{grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage))},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, socketDir string) (runner.Runner, error) {
			return r, r.prepare(cmd.Env, socketDir)
		},
	})

	startCtx, cancel := context.WithTimeout(ctx, o.StartTimeout)
	defer cancel()
	stop := context.AfterFunc(startCtx, r.kill) // go-plugin's start knows no context
	defer stop()
	api, err := connect(client)
	if err != nil {
		r.kill()
		client.Kill()
		r.cleanUp()
		return nil, r.explain(startCtx, ctx, err)
	}
	child.Lower(r.proc.PID()) // threads that it started before the first time
	p := &Process{runner: r, hangUp: sync.OnceFunc(client.Kill), api: api}
	go p.afterDeath()
	if !stop() {
		p.Kill()
		return nil, r.explain(startCtx, ctx, startCtx.Err())
	}
	return p, nil
}

func connect(client *plugin.Client) (executorpb.ExecutorClient, error) {
	protocol, err := client.Client()
	if err != nil {
		return nil, err
	}
	raw, err := protocol.Dispense(pluginName)
	if err != nil {
		return nil, err
	}
	api, ok := raw.(executorpb.ExecutorClient)
	if !ok {
		return nil, errors.New("the executor offers no executor service")
	}
	return api, nil
}
