package playwright

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	pw "github.com/mxschmitt/playwright-go"
)

// nowhere is the proxy of the browser itself: nothing listens there. Contexts
// have proxies of their own, and what belongs to none of them goes nowhere.
const nowhere = "http://127.0.0.1:1"

// loopbackToo takes loopback addresses off the list of what bypasses a proxy.
const loopbackToo = "<-loopback>"

// browserArgs close what could pass the proxy by, and what only costs.
var browserArgs = []string{
	"--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
	"--disable-sync", "--disable-quic", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
	"--js-flags=--max-old-space-size=512",
}

// A browser is one Chromium that takes tasks, each in a context of its own.
type browser struct {
	driver    *driver
	pw        pw.Browser
	version   string
	pid       int
	downloads string // where it puts files that pages send
	started   time.Time
	lost      chan struct{} // closed when the connection to it has ended
	lose      func()
	outgrown  atomic.Pointer[string] // why it should be replaced, set by the watch
	killed    atomic.Int64           // unix nanoseconds of the last page ended for its memory

	// Under the pool's lock:
	tasks   int // that it has taken
	users   int // surfaces that are open in it
	retired bool
}

// launch starts a browser on d.
func launch(d *driver, path, tmp string, sandbox bool) (*browser, error) {
	downloads := filepath.Join(tmp, "downloads")
	limit := float64(startLimit.Milliseconds())
	b, err := d.pw.Chromium.Launch(pw.BrowserTypeLaunchOptions{
		ExecutablePath: pw.String(path), ChromiumSandbox: pw.Bool(sandbox), Headless: pw.Bool(true),
		DownloadsPath: pw.String(downloads), Args: browserArgs, Timeout: &limit,
		Proxy:        &pw.Proxy{Server: nowhere, Bypass: pw.String(loopbackToo)},
		HandleSIGHUP: pw.Bool(false), HandleSIGINT: pw.Bool(false), HandleSIGTERM: pw.Bool(false),
	})
	if err != nil {
		return nil, err
	}
	lost := make(chan struct{})
	out := &browser{
		driver: d, pw: b, version: b.Version(), downloads: downloads, started: time.Now(),
		lost: lost, lose: sync.OnceFunc(func() { close(lost) }),
	}
	b.OnDisconnected(func(pw.Browser) { out.lose() })
	if out.pid, err = browserPID(b); err != nil {
		_ = b.Close()
		return nil, err
	}
	return out, nil
}

// browserPID asks the browser for its process.
func browserPID(b pw.Browser) (int, error) {
	cdp, err := b.NewBrowserCDPSession()
	if err != nil {
		return 0, fmt.Errorf("ask the browser for its process: %w", err)
	}
	defer func() { _ = cdp.Detach() }() // it goes with the browser at the latest
	info, err := cdp.Send("SystemInfo.getProcessInfo", nil)
	if err != nil {
		return 0, fmt.Errorf("ask the browser for its process: %w", err)
	}
	for _, p := range list(info, "processInfo") {
		if entry, ok := p.(map[string]any); ok && entry["type"] == "browser" {
			if pid, ok := entry["id"].(float64); ok {
				return int(pid), nil
			}
			if pid, ok := entry["id"].(int); ok {
				return pid, nil
			}
		}
	}
	return 0, fmt.Errorf("the browser does not tell its process: %v", info)
}

// list returns a list out of a protocol answer.
func list(answer any, key string) []any {
	m, _ := answer.(map[string]any)
	if inner, ok := m["result"].(map[string]any); ok {
		m = inner
	}
	l, _ := m[key].([]any)
	return l
}

// alive reports whether both the browser and its driver are there.
func (b *browser) alive() bool {
	select {
	case <-b.lost:
		return false
	default:
		return b.driver.alive()
	}
}

// due says why the browser should be replaced, "" when it should not.
func (b *browser) due(r RecycleSettings) string {
	if why := b.outgrown.Load(); why != nil {
		return *why
	}
	switch {
	case b.tasks >= r.Tasks:
		return fmt.Sprintf("it has run %d tasks", b.tasks)
	case time.Since(b.started) >= r.Age:
		return fmt.Sprintf("it is older than %s", r.Age)
	}
	return ""
}

// kill ends the browser's process at once.
func (b *browser) kill() {
	if b.alive() && b.pid > 0 {
		fmt.Fprintln(os.Stderr, "executor playwright: the browser does not answer and is killed")
		_ = syscall.Kill(b.pid, syscall.SIGKILL)
	}
}

// close ends the browser, by force when it does not go by itself.
func (b *browser) close() {
	timer := time.AfterFunc(stopLimit, b.kill)
	defer timer.Stop()
	if b.driver.alive() {
		_ = b.pw.Close() // fails when it is gone already
	}
	b.lose()
}

// watchMemory ends pages that hold too much and marks the browser or its
// driver as outgrown.
func (b *browser) watchMemory(procs []proc, s Settings) {
	if !b.alive() {
		return
	}
	var sum int64
	for _, pid := range append(descendants(procs, b.pid), b.pid) {
		held := ownMemory(pid)
		sum += held
		if held > s.RendererMemory && pid != b.pid && isRenderer(pid) {
			b.killed.Store(time.Now().UnixNano())
			_ = syscall.Kill(pid, syscall.SIGKILL)
			fmt.Fprintf(os.Stderr, "executor playwright: ended a page that held %d MiB\n", held/mib)
		}
	}
	if sum > s.Recycle.Memory {
		why := fmt.Sprintf("its processes hold %d MiB", sum/mib)
		b.outgrown.Store(&why)
	}
	if held := ownMemory(b.driver.pid); held > s.Recycle.DriverMemory {
		why := fmt.Sprintf("its driver holds %d MiB", held/mib)
		b.outgrown.Store(&why)
	}
}
