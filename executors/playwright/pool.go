package playwright

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// retryAfter is how long a failed start is believed before Describe has it
// tried again.
const retryAfter = 10 * time.Second

var errClosed = errors.New("the executor is shutting down")

// A pool holds the browser that takes tasks now. One that is due is replaced
// by a fresh one as soon as that is up; until then it goes on, and what runs
// in it runs to its end. No task fails or waits for a replacement.
type pool struct {
	settings Settings
	engine   *engine
	user     browserUser
	ns       *egress.Namespace // nil without
	onRetire func(*browser)    // called without the lock, ends idle surfaces in the browser

	mu      sync.Mutex
	tmp     map[int]string // by user
	current *browser       // nil before the first, and after a crash
	driver  *driver        // for the next browser, nil when that needs a new one
	all     map[*browser]bool
	start   *start // in progress, nil otherwise
	failed  error  // of the last start
	failAt  time.Time
	closed  bool

	bare atomic.Bool    // root's browsers run without their sandbox, which is not possible here
	work sync.WaitGroup // starts, endings and the watch
	quit chan struct{}
}

// A start brings up a browser.
type start struct {
	done chan struct{}
	err  error
}

func newPool(s Settings, e *engine, u browserUser, ns *egress.Namespace) *pool {
	p := &pool{settings: s, engine: e, user: u, ns: ns, all: make(map[*browser]bool), tmp: make(map[int]string), quit: make(chan struct{}), onRetire: func(*browser) {}}
	p.work.Go(p.watch)
	return p
}

// warm begins to start a browser if there is none.
func (p *pool) warm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropDead()
	if p.current == nil && p.start == nil && !p.closed && (p.failed == nil || time.Since(p.failAt) > retryAfter) {
		p.begin()
	}
}

// state tells Describe the last failure and the version of the browser, if any.
func (p *pool) state() (version string, failed error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil {
		return p.current.version, nil
	}
	return "", p.failed
}

// acquire returns a browser for one more surface. release gives it back.
func (p *pool) acquire(ctx context.Context) (*browser, error) {
	for {
		p.mu.Lock()
		p.dropDead()
		if p.closed {
			p.mu.Unlock()
			return nil, errClosed
		}
		if b := p.current; b != nil {
			b.users++
			b.tasks++
			b.driver.tasks++
			if p.start == nil && (b.due(p.settings.Recycle) != "" || b.driver.tasks >= p.settings.Recycle.DriverTasks) {
				p.begin()
			}
			p.mu.Unlock()
			return b, nil
		}
		if p.start == nil {
			p.begin()
		}
		s := p.start
		p.mu.Unlock()
		select {
		case <-s.done:
			if s.err != nil {
				return nil, startError{s.err}
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// hold returns the current browser for a surface that is opened ahead of a
// task, nil when there is none or it is about to be replaced. release gives it
// back.
func (p *pool) hold() *browser {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.current
	if b == nil || p.closed || p.start != nil || !b.alive() || b.due(p.settings.Recycle) != "" {
		return nil
	}
	b.users++
	return b
}

// takes reports whether b is the browser that takes tasks now.
func (p *pool) takes(b *browser) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current == b
}

// release gives back what acquire or hold returned.
func (p *pool) release(b *browser) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.users--
	p.endIfIdle(b)
}

// endIfIdle ends a retired browser that nobody uses. The lock is held.
func (p *pool) endIfIdle(b *browser) {
	if !b.retired || b.users > 0 || !p.all[b] {
		return
	}
	delete(p.all, b)
	p.work.Go(func() {
		b.close()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.leaveDriver(b.driver)
	})
}

// leaveDriver counts a browser out of its driver. The lock is held.
func (p *pool) leaveDriver(d *driver) {
	d.browsers--
	p.stopIfIdle(d)
}

// retireDriver takes the driver out of use for new browsers. The lock is held.
func (p *pool) retireDriver() {
	d := p.driver
	if d == nil {
		return
	}
	p.driver = nil
	d.retired = true
	p.stopIfIdle(d)
}

func (p *pool) stopIfIdle(d *driver) {
	if d.retired && d.browsers == 0 {
		p.work.Go(d.stop)
	}
}

// retire takes a browser out of use for new tasks. The lock is held.
func (p *pool) retire(b *browser) {
	b.retired = true
	if p.current == b {
		p.current = nil
	}
	p.endIfIdle(b)
	p.work.Go(func() { p.onRetire(b) })
}

// dropDead retires a current browser that has died. The lock is held.
func (p *pool) dropDead() {
	if b := p.current; b != nil && !b.alive() {
		fmt.Fprintln(os.Stderr, "executor playwright: the browser is gone, the next task gets a new one")
		p.retire(b)
	}
}

// begin starts a browser in the background. The lock is held.
func (p *pool) begin() {
	s := &start{done: make(chan struct{})}
	p.start = s
	if d := p.driver; d != nil && (!d.alive() || p.driverDue(d)) {
		p.retireDriver()
	}
	d := p.driver
	if d != nil {
		d.browsers++ // for the browser to come, so that it is not stopped meanwhile
	}
	p.work.Go(func() {
		b, err := p.bringUp(d)
		p.finish(s, d, b, err)
	})
}

func (p *pool) driverDue(d *driver) bool {
	return d.tasks >= p.settings.Recycle.DriverTasks || ownMemory(d.pid) > p.settings.Recycle.DriverMemory
}

// bringUp starts a browser, with a driver if d is nil.
func (p *pool) bringUp(d *driver) (*browser, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	found, err := p.engine.find(ctx)
	if err != nil {
		return nil, err
	}
	user, _ := runsAs(p.user, found, p.settings.BrowserUser)
	if d != nil && d.user != user { // the engine was installed anew meanwhile
		user = d.user
	}
	tmp, err := p.tmpDir(user)
	if err != nil {
		return nil, err
	}
	if d != nil {
		b, err := p.launch(d, found.browser, tmp, user)
		if err == nil || !connectionLost(err) {
			return b, explained(err)
		}
		// The driver has died, and this call is the first to notice.
	}
	if d, err = startDriver(found, tmp, user, p.ns); err != nil {
		return nil, err
	}
	b, err := p.launch(d, found.browser, tmp, user)
	if err != nil {
		d.stop()
	}
	return b, explained(err)
}

// launch starts a browser, in its sandbox where it can. A root agent in a
// container or chroot has a user for the browser and no user namespaces for
// its sandbox: it goes without, and says so. Others are told what is missing.
func (p *pool) launch(d *driver, path, tmp string, user browserUser) (*browser, error) {
	sandbox := !user.root() && !p.bare.Load()
	b, err := launch(d, path, tmp, sandbox)
	if !sandbox || !sandboxMissing(err) || os.Getuid() != 0 {
		return b, err
	}
	p.bare.Store(true)
	fmt.Fprintln(os.Stderr, "executor playwright: "+bareReason)
	return launch(d, path, tmp, false)
}

// finish puts a started browser in place of the current one.
func (p *pool) finish(s *start, shared *driver, b *browser, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start = nil
	s.err = err
	defer close(s.done)
	if shared != nil && (err != nil || b.driver != shared) {
		p.leaveDriver(shared)
	}
	if err != nil {
		p.failed, p.failAt = err, time.Now()
		fmt.Fprintf(os.Stderr, "executor playwright: %v\n", err)
		return
	}
	p.failed = nil
	if b.driver != shared {
		b.driver.browsers++
		p.retireDriver() // the shared one, if it has died
		p.driver = b.driver
	}
	p.all[b] = true
	if old := p.current; old != nil {
		p.retire(old)
	}
	if p.closed {
		p.retire(b)
		p.retireDriver()
		return
	}
	p.current = b
}

// tmpDir is the folder for the temporary files of a user's browsers.
func (p *pool) tmpDir(u browserUser) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if dir, ok := p.tmp[u.uid]; ok {
		return dir, nil
	}
	dir, err := makeTmp(u)
	if err == nil {
		p.tmp[u.uid] = dir
	}
	return dir, err
}

// watch looks at the memory of all browsers until the pool is closed.
func (p *pool) watch() {
	ticker := time.NewTicker(p.settings.Recycle.CheckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-ticker.C:
		}
		p.mu.Lock()
		p.dropDead()
		browsers := make([]*browser, 0, len(p.all))
		for b := range p.all {
			browsers = append(browsers, b)
		}
		p.mu.Unlock()
		if len(browsers) == 0 {
			continue
		}
		procs := processes()
		for _, b := range browsers {
			b.watchMemory(procs, p.settings)
		}
	}
}

// close ends all browsers and drivers, whoever uses them, and removes the
// temporary files. It returns when nothing is left.
func (p *pool) close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	close(p.quit)
	for b := range p.all {
		b.users = 0
		p.retire(b)
	}
	p.retireDriver()
	s := p.start
	p.mu.Unlock()
	if s != nil {
		<-s.done
	}
	p.work.Wait()
	for _, dir := range p.tmp {
		_ = os.RemoveAll(dir) // swept by the next executor otherwise
	}
}
