package probes

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"testing"

	pw "github.com/mxschmitt/playwright-go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// A setting is one way to run the browser. The zero mode has no guard.
type setting struct {
	mode    egress.Mode
	browser pw.Browser
	guard   *egress.Guard
	denials *bell // rings when the guard has denied something
}

// start brings up a browser for a mode.
func start(t *testing.T, mode egress.Mode, n *names) *setting {
	t.Helper()
	found, err := engines.Locate().Playwright(context.Background(), engines.PlaywrightSettings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PLAYWRIGHT_NODEJS_PATH", found.Node)
	s := &setting{mode: mode, denials: new(bell)}
	// The site has a certificate that nobody signed, and service workers want
	// one without any error.
	args := []string{"--disable-gpu", "--no-first-run", "--ignore-certificate-errors"}
	run, listen := unprivileged, (func(context.Context, string, string) (net.Listener, error))(nil)
	switch mode {
	case egress.ModeFlags:
		args = append(args, egress.BrowserArgs()...)
	case egress.ModeNamespace:
		ns, err := egress.NewNamespace()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ns.Close() })
		run, listen = func(f func() error) error { return ns.Do(func() error { return dropped(f) }) }, ns.Listen
	}
	var driver *pw.Playwright
	err = run(func() (err error) {
		driver, err = pw.Run(&pw.RunOptions{
			DriverDirectory: found.Dir, SkipInstallBrowsers: true, Stdout: os.Stderr, Stderr: os.Stderr,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = driver.Stop() })
	s.browser, err = driver.Chromium.Launch(pw.BrowserTypeLaunchOptions{
		ExecutablePath: pw.String(found.Browser), ChromiumSandbox: pw.Bool(os.Geteuid() != 0), Args: args,
	})
	if err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	t.Cleanup(func() { _ = s.browser.Close() })
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(io.Discard), zap.InfoLevel)
	policy, err := egress.ParsePolicy([]string{"203.0.113.0/24"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.guard = egress.New(policy, egress.Options{
		Resolver: n,
		Dialer:   &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(guardAddr)}},
		Logger:   zap.New(core, zap.Hooks(func(zapcore.Entry) error { s.denials.ring(); return nil })),
		ListenIn: listen,
	})
	return s
}

// unprivileged runs f on a thread of its own that gives its children no
// capabilities: a browser has none.
func unprivileged(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- dropped(f)
	}()
	return <-done
}

func dropped(f func() error) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	return f()
}

// A visit is one fresh context with one page, behind a lane of its own.
type visit struct {
	lane    *egress.Lane // nil without a guard
	options pw.BrowserNewContextOptions
	context pw.BrowserContext
	page    pw.Page
}

func (s *setting) visit(ctx context.Context, limits egress.Limits) (*visit, error) {
	v := &visit{}
	o := pw.BrowserNewContextOptions{IgnoreHttpsErrors: pw.Bool(true)}
	if s.mode != "" {
		lane, err := s.guard.Open(ctx, limits)
		if err != nil {
			return nil, err
		}
		v.lane = lane
		o.Proxy = &pw.Proxy{Server: lane.URL(), Bypass: pw.String(egress.BypassNothing)}
	}
	var err error
	v.options = o
	if v.context, err = s.browser.NewContext(o); err != nil {
		v.close()
		return nil, err
	}
	if v.page, err = v.context.NewPage(); err != nil {
		v.close()
		return nil, err
	}
	v.page.SetDefaultTimeout(60_000)
	return v, nil
}

func (v *visit) close() {
	if v.context != nil {
		_ = v.context.Close()
	}
	if v.lane != nil {
		_ = v.lane.Close()
	}
}
