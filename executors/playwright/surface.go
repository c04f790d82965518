package playwright

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pw "github.com/mxschmitt/playwright-go"

	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

const (
	maxTabs   = 5
	maxPopups = 100             // tabs that pages may open in vain before the task ends
	closeWait = 5 * time.Second // for a context to close before its browser is ended
)

var (
	errSurfaceClosed = errors.New("the browser context has been closed")
	errBrowserGone   = errors.New("the browser has ended")
)

// A surface is what one task, or one session, works on: a browser context with
// a proxy lane of its own. Nothing is shared with other surfaces.
type surface struct {
	pool    *pool
	browser *browser
	ctx     pw.BrowserContext
	lane    *egress.Lane
	scale   float64
	rec     atomic.Pointer[recorder] // of the task that uses the surface now
	crashed atomic.Bool              // the selected page, or any other
	muted   atomic.Bool              // enough was said on the console

	mu      sync.Mutex
	open    []pw.Page
	current pw.Page

	work    sync.WaitGroup // goroutines that events have started
	closing atomic.Bool
	closed  chan struct{}
}

// openSurface makes a context in a browser. When the browser dies meanwhile a
// fresh one is tried, once.
func (e *Executor) openSurface(ctx context.Context, p *plan, rec *recorder) (*surface, error) {
	for attempt := 0; ; attempt++ {
		b, err := e.pool.acquire(ctx)
		if err != nil {
			return nil, err
		}
		if p.plain() {
			if s := e.spares.take(ctx, b, p, rec); s != nil {
				e.pool.release(b) // the spare has held it all the time
				return s, nil
			}
		}
		s, err := e.openIn(ctx, b, p, rec)
		if err == nil {
			return s, nil
		}
		if connectionLost(err) {
			b.lose() // the call has noticed it first
		}
		if attempt > 0 || b.alive() || ctx.Err() != nil {
			return nil, err
		}
	}
}

func (e *Executor) openIn(ctx context.Context, b *browser, p *plan, rec *recorder) (*surface, error) {
	s := &surface{pool: e.pool, browser: b, scale: p.Viewport.Scale, closed: make(chan struct{})}
	s.rec.Store(rec)
	limits := egress.Limits{MaxBytes: e.settings.MaxPageBytes, MaxRequests: int64(e.settings.MaxRequests), Policy: p.policy}
	if p.downloads() {
		limits.MaxBytes = max(limits.MaxBytes, e.settings.MaxDownloadBytes)
	}
	var err error
	// The lane may outlive the task, in a session; close ends it.
	if s.lane, err = e.guard.Open(context.WithoutCancel(ctx), limits); err != nil {
		s.pool.release(b)
		return nil, err
	}
	// When the task ends meanwhile, so does whatever call is under way.
	var opened atomic.Bool
	stop := context.AfterFunc(ctx, func() {
		if opened.Load() {
			s.close()
			return
		}
		time.AfterFunc(closeWait, func() {
			if !opened.Load() {
				b.kill()
			}
		})
	})
	defer stop()
	s.ctx, err = b.pw.NewContext(e.contextOptions(p, s.lane))
	opened.Store(err == nil)
	if err != nil {
		s.closing.Store(true)
		_ = s.lane.Close()
		s.pool.release(b)
		if !b.alive() {
			err = fmt.Errorf("%w: %w", errBrowserGone, err)
		}
		return nil, fmt.Errorf("open a browser context: %w", err)
	}
	s.listen()
	if err := s.prepare(p); err != nil {
		s.close()
		if !b.alive() {
			err = fmt.Errorf("%w: %w", errBrowserGone, err)
		}
		return nil, fmt.Errorf("open a browser page: %w", err)
	}
	return s, nil
}

func (e *Executor) contextOptions(p *plan, lane *egress.Lane) pw.BrowserNewContextOptions {
	o := pw.BrowserNewContextOptions{
		AcceptDownloads:   pw.Bool(true),
		IgnoreHttpsErrors: pw.Bool(false),
		JavaScriptEnabled: &p.JavaScript,
		ServiceWorkers:    pw.ServiceWorkerPolicyBlock,
		Viewport:          &pw.Size{Width: p.Viewport.Width, Height: p.Viewport.Height},
		DeviceScaleFactor: &p.Viewport.Scale,
		Proxy:             &pw.Proxy{Server: lane.URL(), Bypass: pw.String(loopbackToo)},
		Permissions:       []string{},
	}
	for value, option := range map[*string]**string{&p.UserAgent: &o.UserAgent, &p.Locale: &o.Locale, &p.Timezone: &o.TimezoneId} {
		if *value != "" {
			*option = value
		}
	}
	return o
}

// prepare sets up what the plan asks for and opens the first tab.
func (s *surface) prepare(p *plan) error {
	if err := s.route(p); err != nil {
		return err
	}
	return s.firstTab()
}

// firstTab opens the tab that the work begins in. The driver never answers
// when the context is closed meanwhile; then the call is left to the pool, and
// ends with the driver.
func (s *surface) firstTab() error {
	done := make(chan error, 1)
	s.pool.work.Go(func() {
		page, err := s.ctx.NewPage()
		if err == nil {
			s.choose(page)
		}
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-s.closed:
		return errSurfaceClosed
	}
}

// route adds headers to requests for the host of url alone, and stops kinds of
// resources. Without either no request takes that detour.
func (s *surface) route(p *plan) error {
	if len(p.Headers) == 0 && len(p.BlockResources) == 0 {
		return nil
	}
	blocked := make(map[string]bool)
	for _, kind := range p.BlockResources {
		blocked[kind] = true
	}
	host := hostOf(p.URL)
	return s.ctx.Route("**/*", func(r pw.Route) {
		request := r.Request()
		if blocked[request.ResourceType()] {
			_ = r.Abort("blockedbyclient") // fails when the page has gone
			return
		}
		if len(p.Headers) == 0 || hostOf(request.URL()) != host {
			_ = r.Continue()
			return
		}
		headers := request.Headers()
		for name, value := range p.Headers {
			headers[strings.ToLower(name)] = value
		}
		_ = r.Continue(pw.RouteContinueOptions{Headers: headers})
	})
}

// listen subscribes to what happens in the context. Handlers run on the one
// goroutine that reads from the driver, so they never wait for it.
func (s *surface) listen() {
	s.ctx.OnPage(s.onPage)
	s.ctx.OnRequest(func(r pw.Request) { s.rec.Load().request(r) })
	s.ctx.OnResponse(func(r pw.Response) { s.rec.Load().response(r) })
	s.ctx.OnRequestFailed(func(r pw.Request) { s.rec.Load().requestFailed(r) })
	s.ctx.OnDialog(func(d pw.Dialog) { // has a goroutine of its own
		s.rec.Load().dialog(d)
		if d.Type() == "beforeunload" {
			_ = d.Accept() // fails when the page has gone
			return
		}
		_ = d.Dismiss()
	})
	s.ctx.OnDownload(func(d pw.Download) { s.rec.Load().download(d) })
	s.hear()
}

// hear subscribes to what pages say, until there is enough of it: a page that
// never stops talking would keep the driver busy.
func (s *surface) hear() {
	var console func(pw.ConsoleMessage)
	mute := sync.OnceFunc(func() {
		s.muted.Store(true)
		s.later(func() { s.ctx.RemoveListener("console", console) })
	})
	console = func(m pw.ConsoleMessage) {
		if !s.rec.Load().consoleMessage(m) {
			mute()
		}
	}
	s.ctx.On("console", console)
}

// resume makes a surface that was kept ready for its next task.
func (s *surface) resume(rec *recorder) {
	s.rec.Store(rec)
	if s.muted.Swap(false) {
		s.hear()
	}
}

// later runs f on a goroutine that close waits for.
func (s *surface) later(f func()) {
	if !s.closing.Load() {
		s.work.Go(f)
	}
}

func (s *surface) onPage(page pw.Page) {
	s.mu.Lock()
	s.open = append(s.open, page)
	n := len(s.open)
	s.mu.Unlock()
	page.OnCrash(func(pw.Page) {
		s.crashed.Store(true)
		s.rec.Load().crash()
	})
	page.OnClose(func(pw.Page) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, p := range s.open {
			if p == page {
				s.open = append(s.open[:i:i], s.open[i+1:]...)
				return
			}
		}
	})
	if n > maxTabs {
		s.rec.Load().popup()
		s.later(func() { _ = page.Close() }) // fails when it has gone
	}
}

// tabs lists the open tabs, the oldest first.
func (s *surface) tabs() []pw.Page {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]pw.Page(nil), s.open...)
}

// choose makes page the one that steps work on.
func (s *surface) choose(page pw.Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = page
}

func (s *surface) page() pw.Page {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// usable reports whether a next task could go on with the surface.
func (s *surface) usable() bool {
	return s.browser.alive() && !s.closing.Load() && !s.crashed.Load() && s.isOpen(s.page())
}

// isOpen reports whether a tab is open. The library's own answer is not made
// for several goroutines.
func (s *surface) isOpen(page pw.Page) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return page != nil && slices.Contains(s.open, page)
}

// close ends the context, with all that hangs in it, and gives the browser
// back. A context that does not close takes its browser with it. close returns
// when nothing of the surface is left.
func (s *surface) close() {
	if s.closing.Swap(true) {
		<-s.closed
		return
	}
	first := time.AfterFunc(closeWait, s.browser.kill)
	second := time.AfterFunc(2*closeWait, s.browser.driver.kill)
	if s.browser.driver.alive() {
		if err := s.ctx.Close(); err != nil && s.browser.alive() {
			fmt.Fprintf(os.Stderr, "executor playwright: close a browser context: %s\n", oneLine(err))
		}
	}
	first.Stop()
	second.Stop()
	s.closeLane()
	s.work.Wait()
	s.rec.Load().work.Wait()
	s.pool.release(s.browser)
	close(s.closed)
}

// closeLane cuts the connections of the surface. Those that are slow to end
// are left to the pool, which waits for them when it is closed.
func (s *surface) closeLane() {
	done := make(chan struct{})
	s.pool.work.Go(func() {
		defer close(done)
		_ = s.lane.Close() // only connections are left to it
	})
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		fmt.Fprintln(os.Stderr, "executor playwright: the connections of a task are slow to end")
	}
}
