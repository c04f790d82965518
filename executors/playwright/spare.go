package playwright

import (
	"context"
	"sync"
	"time"
)

const (
	fillLimit = 30 * time.Second // for a spare to open; a page whose process dies meanwhile never does
	claimWait = 2 * time.Second  // for one that is being opened, before a task opens its own
)

// spares keep one surface ready, opened ahead with the options that most tasks
// leave as they are: a new page takes longer than most of what is done on it.
// A spare has never been used, has a lane of its own, and whoever takes it is
// its only user. It is not counted as a task of its browser, and goes with it.
type spares struct {
	ex *Executor

	mu      sync.Mutex
	ready   *surface // nil while there is none
	filling *filling // in progress, nil otherwise
	closed  bool

	work   sync.WaitGroup // goroutines that open and close spares
	ctx    context.Context
	cancel context.CancelFunc
}

// A filling is the opening of a spare. The first task that claims it gets what
// it opens.
type filling struct {
	browser *browser
	claimed bool
	done    chan struct{}
	surface *surface // nil when it has failed
}

func newSpares(e *Executor) *spares {
	s := &spares{ex: e}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// plain reports whether a spare serves the plan as well as a surface opened
// for it. Headers and blocked resources can be added to a spare; what belongs
// to the context or to its lane cannot.
func (p *plan) plain() bool {
	return p.Viewport == defaultViewport && p.JavaScript && p.UserAgent == "" && p.Locale == "" && p.Timezone == "" &&
		p.policy == nil && !p.downloads()
}

// fill begins to open a spare if there is none. It does not wait.
func (s *spares) fill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.ready != nil || s.filling != nil {
		return
	}
	b := s.ex.pool.hold()
	if b == nil {
		return
	}
	f := &filling{browser: b, done: make(chan struct{})}
	s.filling = f
	s.work.Go(func() { s.open(f) })
}

// open opens a spare and hands it over, or keeps it.
func (s *spares) open(f *filling) {
	ctx, cancel := context.WithTimeout(s.ctx, fillLimit)
	defer cancel()
	p := &plan{base: base{Viewport: defaultViewport, JavaScript: true}}
	opened, err := s.ex.openIn(ctx, f.browser, p, idleRecorder())
	if err == nil && !s.wanted(f) {
		if err = opened.warm(ctx); err != nil {
			opened.close()
		}
	}
	s.mu.Lock()
	s.filling = nil
	switch {
	case err != nil: // a task that opens its own tells why, should that fail too
	case f.claimed:
		f.surface = opened
	default:
		s.ready = opened
	}
	close(f.done)
	s.mu.Unlock()
	if !s.ex.pool.takes(f.browser) { // it was retired meanwhile, and leave came too early
		s.leave(f.browser)
	}
}

// wanted reports whether a task waits for what is being opened.
func (s *spares) wanted(f *filling) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.claimed
}

// warming has a page lay out and draw what most pages hold.
const warming = `() => new Promise(done => {
  const d = document.createElement('div');
  d.innerHTML = '<input><button>b</button><p>text</p><table><tr><td>1</td><td><a href="#">2</a></td></tr></table>';
  document.body.append(d);
  requestAnimationFrame(() => requestAnimationFrame(() => { d.remove(); done() }));
})`

// warm has the page's process do once what each task has to wait for
// otherwise: compile the driver's scripts, which the engine keeps for the next
// document in that process, and draw a first time.
func (s *surface) warm(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.close)
	defer stop()
	page := s.page()
	if _, err := page.Evaluate(warming); err != nil {
		return err
	}
	_, err := page.Locator("css=html").Count()
	return err
}

// take returns the spare in b, nil if there is none. It waits for one that is
// being opened, which is no slower than to open another.
func (s *spares) take(ctx context.Context, b *browser, p *plan, rec *recorder) *surface {
	s.mu.Lock()
	found := s.ready
	f := s.filling
	switch {
	case found != nil && found.browser == b:
		s.ready, f = nil, nil
	case f != nil && f.browser == b && !f.claimed:
		found, f.claimed = nil, true
	default:
		found, f = nil, nil
	}
	s.mu.Unlock()
	if f != nil {
		timer := time.NewTimer(claimWait)
		defer timer.Stop()
		select {
		case <-f.done:
			found = f.surface
		case <-timer.C:
			s.disclaim(f)
			return nil
		case <-ctx.Done():
			s.disclaim(f)
			return nil
		}
	}
	if found == nil {
		return nil
	}
	if err := found.assign(ctx, p, rec); err != nil {
		found.close()
		return nil
	}
	return found
}

// disclaim gives up a claim: what is still being opened is for the next task.
func (s *spares) disclaim(f *filling) {
	s.mu.Lock()
	f.claimed = false
	found := f.surface
	s.mu.Unlock()
	if found != nil {
		found.close()
	}
}

// assign gives a spare to a task. It fails when the spare is not as it was
// opened any more, for example because its process has died.
func (s *surface) assign(ctx context.Context, p *plan, rec *recorder) error {
	stop := context.AfterFunc(ctx, s.close)
	defer stop()
	if !s.usable() || s.lane.Requests() > 0 || s.page().URL() != blank {
		return errSurfaceClosed
	}
	// The death of a browser is noticed late, that of a call at once.
	if cookies, err := s.ctx.Cookies(); err != nil || len(cookies) > 0 {
		return errSurfaceClosed
	}
	s.resume(rec)
	return s.route(p)
}

// leave closes the spare in a browser that is being replaced.
func (s *spares) leave(b *browser) {
	s.mu.Lock()
	found := s.ready
	if found == nil || found.browser != b {
		s.mu.Unlock()
		return
	}
	s.ready = nil
	s.mu.Unlock()
	found.close()
}

// close ends the spare and waits for one that is being opened.
func (s *spares) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
	s.mu.Lock()
	found := s.ready
	s.ready = nil
	s.mu.Unlock()
	if found != nil {
		found.close()
	}
}

// blank is the address of a tab that has been nowhere.
const blank = "about:blank"
