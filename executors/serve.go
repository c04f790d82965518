package executors

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

// Serve runs e as an executor process and returns when the agent has shut it
// down. An executor's main calls it first, and does nothing after it.
//
// Standard output belongs to the handshake. Serve moves it away before
// anything else can print, so prints of the executor, of libraries and of
// children end up on standard error, where the agent reads them as log lines.
//
// SIGINT, SIGTERM and SIGHUP do not end the process while it works: the agent
// decides. When the agent is gone the process ends at once, with everything in
// its process group.
//
// Started by hand it prints what it is; --describe prints the description as
// JSON, --version the version.
func Serve(e Executor) {
	guardIfAsked()
	if os.Getenv(handshake.MagicCookieKey) != handshake.MagicCookieValue {
		os.Exit(byHand(e, os.Args, os.Stdout, os.Stderr))
	}
	if err := keepStdoutForHandshake(); err != nil {
		fmt.Fprintf(os.Stderr, "executor: %v\n", err)
		os.Exit(1)
	}
	serve(e)
}

// ServeFunc is Serve for executors that have to be built first. When build
// fails, for example at a mistake in the settings, the process serves all the
// same: not ready, with the error as its reason, so that the agent can show it.
func ServeFunc(name, version string, build func() (Executor, error)) {
	guardIfAsked()
	e, err := buildSafely(build)
	if err != nil {
		e = broken{name: name, version: version, err: err}
	}
	Serve(e)
}

func buildSafely(build func() (Executor, error)) (e Executor, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the executor panicked at its start: %v", p)
		}
	}()
	return build()
}

// broken stands for an executor that could not be built.
type broken struct {
	name, version string
	err           error
}

func (b broken) Describe(context.Context) (Description, error) {
	return Description{Name: b.name, Version: b.version, Concurrency: 1, Reasons: []string{b.err.Error()}}, nil
}

func (b broken) Execute(context.Context, Task) (Result, error) {
	return Result{}, Errorf(CodeEngineUnavailable, "executor %s is not ready: %v", b.name, b.err)
}

func (b broken) Health(context.Context) Health {
	return Health{Message: b.err.Error()}
}

// keepStdoutForHandshake points file descriptor 1 at standard error and leaves
// os.Stdout on a private copy of the old one, for the handshake line.
func keepStdoutForHandshake() error {
	private, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return fmt.Errorf("copy standard output: %w", err)
	}
	if err := unix.Dup3(2, 1, 0); err != nil {
		return fmt.Errorf("point standard output at standard error: %w", err)
	}
	os.Stdout = os.NewFile(uintptr(private), "handshake")
	return nil
}

// serve speaks the protocol until it is shut down.
func serve(e Executor) {
	realStderr, private := os.Stderr, os.Stdout
	var grpcServer *grpc.Server
	srv := newServer(e, log.New(realStderr, "executor: ", 0), func() { grpcServer.Stop() })
	var err error
	if srv.lease, err = inheritedLease(); err != nil {
		_, _ = fmt.Fprintf(realStderr, "executor: %v\n", err)
		os.Exit(1) // without it, tasks could outlive the right to run them
	}
	srv.cgroup = inheritedCgroup()
	defer exitAfter(srv)
	stopWatching := watch(srv, realStderr)
	defer stopWatching()

	// go-plugin points os.Stdout and os.Stderr at pipes that end in its own
	// stream once it has printed the handshake. The first call happens after
	// that; from then on prints go to the real standard error.
	var once sync.Once
	first := func() {
		once.Do(func() {
			os.Stdout, os.Stderr = realStderr, realStderr
			_ = private.Close()
			forgetHandshake()
		})
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  handshake,
		VersionedPlugins: versions(srv),
		Logger:           hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: realStderr}),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			grpcServer = grpc.NewServer(append(opts,
				grpc.MaxRecvMsgSize(MaxMessage),
				grpc.MaxSendMsgSize(MaxMessage),
				grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
					first()
					return h(ctx, req)
				}),
				grpc.StreamInterceptor(func(s any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
					first()
					return h(s, stream)
				}),
			)...)
			return grpcServer
		},
	})
}

// exitAfter gives tasks that still run a last moment once serving has ended.
func exitAfter(s *server) {
	s.abandon(500 * time.Millisecond)
}

// forgetHandshake removes from the environment what children must not see.
func forgetHandshake() {
	for _, entry := range os.Environ() {
		key, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(key, "PLUGIN_") || key == handshake.MagicCookieKey || key == envParent {
			_ = os.Unsetenv(key)
		}
	}
}

// byHand answers a person who starts the binary.
func byHand(e Executor, args []string, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	binary := filepath.Base(args[0])
	d, err := newServer(e, log.New(stderr, "", 0), nil).describe(ctx)
	if closer, ok := e.(Closer); ok {
		defer func() { _ = closer.Close() }()
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", binary, err)
		return 1
	}
	switch {
	case len(args) == 2 && args[1] == "--version":
		_, _ = fmt.Fprintf(stdout, "%s %s\n", d.Name, d.Version)
		return 0
	case len(args) == 2 && args[1] == "--describe":
		if err := printDescription(stdout, d); err != nil {
			_, _ = fmt.Fprintf(stderr, "%s: %v\n", binary, err)
			return 1
		}
		return 0
	}
	_, _ = fmt.Fprintf(stderr, "%s is the %q executor of AutoBot Fleet; autobot-agent starts it by itself (see it with: autobot-agent executors list). By hand it knows --describe and --version.\n", binary, d.Name)
	return 2
}

func printDescription(w io.Writer, d Description) error {
	type typeView struct {
		Type             string          `json:"type"`
		Ops              []string        `json:"ops"`
		Schema           json.RawMessage `json:"schema,omitempty"`
		DefaultTimeoutMS int64           `json:"default_timeout_ms,omitempty"`
		MaxTimeoutMS     int64           `json:"max_timeout_ms,omitempty"`
	}
	types := make([]typeView, len(d.Types))
	for i, t := range d.Types {
		types[i] = typeView{t.Type, t.Ops, t.Schema, t.DefaultTimeout.Milliseconds(), t.MaxTimeout.Milliseconds()}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Name          string     `json:"name"`
		Version       string     `json:"version"`
		Engine        string     `json:"engine,omitempty"`
		EngineVersion string     `json:"engine_version,omitempty"`
		Protocols     []int      `json:"protocol_versions"`
		Types         []typeView `json:"types"`
		Concurrency   int        `json:"concurrency"`
		Processes     int        `json:"processes"`
		Capabilities  []string   `json:"capabilities,omitempty"`
		Ready         bool       `json:"ready"`
		Reasons       []string   `json:"reasons,omitempty"`
	}{
		d.Name, d.Version, d.Engine, d.EngineVersion, []int{ProtocolVersion}, types,
		d.Concurrency, max(d.Processes, 1), d.Capabilities, d.Ready, d.Reasons,
	})
}

// killGroup ends this process and all of its process group, if it leads one.
func killGroup(code int) {
	if syscall.Getpgrp() == os.Getpid() {
		_ = syscall.Kill(0, syscall.SIGKILL)
	}
	os.Exit(code)
}
