package playwright

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	pw "github.com/mxschmitt/playwright-go"
	"golang.org/x/sys/unix"

	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

const (
	startLimit = 60 * time.Second // for a driver or a browser to come up
	stopLimit  = 5 * time.Second  // for them to go before they are killed
)

// A driver is one node process that speaks to browsers.
type driver struct {
	pw   *pw.Playwright
	pid  int
	gone chan struct{} // closed when node has ended
	quit chan struct{} // closed when nobody waits for the start any more
	user browserUser

	// Under the pool's lock:
	tasks    int // that its browsers have taken
	browsers int // that it serves
	retired  bool
}

// launching is held while a driver starts: the library hands the environment
// of this process on, and that says what the launcher becomes.
var launching sync.Mutex

// startDriver starts node with the Playwright driver as user u, in a network
// namespace if ns is not nil.
func startDriver(p paths, tmp string, u browserUser, ns *egress.Namespace) (*driver, error) {
	launching.Lock()
	defer launching.Unlock()
	if err := prepareLaunch(p.node, filepath.Join(tmp, "tmp"), u); err != nil {
		return nil, err
	}
	d := &driver{user: u, gone: make(chan struct{}), quit: make(chan struct{})}
	started := make(chan error, 1)
	go d.run(p.driver, ns, started)
	select {
	case err := <-started:
		if err != nil {
			return nil, fmt.Errorf("start the Playwright driver: %w", err)
		}
		return d, nil
	case <-time.After(startLimit):
		close(d.quit)
		return nil, fmt.Errorf("start the Playwright driver: it does not answer within %s", startLimit)
	}
}

// run owns the process. Linux sends the parent-death signal when the thread
// that forked ends, so the thread has to live as long as node: this one, or
// that of the namespace.
func (d *driver) run(dir string, ns *egress.Namespace, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(d.gone)
	begin := func() (err error) {
		d.pw, err = pw.Run(&pw.RunOptions{
			DriverDirectory: dir, SkipInstallBrowsers: true,
			Stdout: os.Stderr, Stderr: os.Stderr,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		return err
	}
	var err error
	if ns != nil {
		err = ns.Do(begin)
	} else {
		err = begin()
	}
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, cut(string(bytes.TrimSpace(exit.Stderr)), maxMessage))
		}
		started <- err
		return
	}
	d.pid = d.pw.Pid()
	started <- nil
	select {
	case <-d.quit: // nobody waits for it any more
		_ = syscall.Kill(d.pid, syscall.SIGKILL)
	default:
	}
	for { // the library reaps it; here its end only has to be seen
		err := unix.Waitid(unix.P_PID, d.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// alive reports whether node still runs.
func (d *driver) alive() bool {
	select {
	case <-d.gone:
		return false
	default:
		return true
	}
}

// stop ends node, and with it every browser that it has started.
func (d *driver) stop() {
	timer := time.AfterFunc(stopLimit, func() {
		select {
		case <-d.gone:
		default:
			_ = syscall.Kill(d.pid, syscall.SIGKILL)
		}
	})
	defer timer.Stop()
	_ = d.pw.Stop() // an end by signal is no fault here
	<-d.gone
}

// kill ends node at once, and with it its browsers.
func (d *driver) kill() {
	if d.alive() {
		_ = syscall.Kill(d.pid, syscall.SIGKILL)
	}
}
