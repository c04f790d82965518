package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/queue"
)

// Worker claims tasks and runs them. Create it with New and call Run once.
type Worker struct {
	o       Options
	log     *zap.Logger
	metrics *metrics
	files   stateFiles
	link    *link
	waiters *waiterSet
	pub     *publisher

	wg         sync.WaitGroup // executions
	wake       chan struct{}  // for the claimer
	ready      chan struct{}  // for the claimer: what is not being sent has ended
	beatNow    chan struct{}  // for the heart
	unnoted    chan struct{}  // for noteLoop
	lines      *lines
	changed    notifier      // anything below has changed
	lease      notifier      // a beat was answered, or not: the fence has something to look at
	handBack   chan struct{} // closed by HandBack
	handOnce   sync.Once
	sweepSoon  atomic.Bool
	pulseHeart atomic.Int64 // Unix ns of the last completed iteration
	pulseClaim atomic.Int64
	listening  atomic.Bool // commands arrive
	doubt      atomic.Bool // a call that claims was not answered since the last beat

	mu sync.Mutex

	// The lease (heartbeat.go, fence.go).
	generation  int64
	registered  bool      // the generation is current as far as we know
	recovering  bool      // Recover has to come before the next claim
	unclean     bool      // that Recover counts like a death
	noted       int64     // generation that is on disk
	confirmed   time.Time // when the last confirmed beat was sent
	killAt      time.Time // when fenced executions are killed; zero: none
	fenced      bool
	superseded  bool
	unknown     map[runKey]bool // of the last beat
	strays      []queue.Fence   // claims nobody here knows, to be released
	owed        map[string]bool // ids dropped by the fence, not taken back yet
	waitReason  string          // why the worker is not registered
	skew        time.Duration   // our clock minus the server's
	lastBeat    time.Time
	beatTrip    time.Duration
	claimTrip   time.Duration
	lastClaim   time.Time
	lastWon     time.Time // last claim that found tasks
	startedAt   time.Time
	runsStopped bool // Run has returned

	drainEnds time.Time // of Run's goroutine alone

	// What is wished for.
	limit         int
	plain         []string
	labels        map[string]string
	stopping      bool // Run's context is done
	drained       bool // Drain was called
	cordoned      bool
	handingBack   bool
	claimsStopped bool // while stopping: no pop is under way, no win unhandled
	paused        []string

	// Tasks (runs.go, settle.go).
	served    *served
	told      *served // what the server knows of it, with
	toldLimit int     // so many slots
	runs      map[runKey]*run
	newest    map[string]*run // of each task id
	used      map[string]int  // slots by executor
	pending   []*run          // ended, their outcome waits to be sent
	flying    int             // runs whose success is being sent
	freed     bool            // a slot was freed since the claimer looked
}

// New checks the options; it connects to nothing and starts nothing.
func New(o Options) (*Worker, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	lines, log := newLines(o.Log.Named("worker"))
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	w := &Worker{
		o: o, log: log, metrics: m, files: stateFiles{o.StateDir},
		lines: lines, unnoted: make(chan struct{}, 1), wake: make(chan struct{}, 1), ready: make(chan struct{}, 1), beatNow: make(chan struct{}, 1), handBack: make(chan struct{}),
		limit: o.MaxConcurrent, plain: o.PlainQueues, labels: o.Labels,
		served: serve(nil, nil), runs: map[runKey]*run{}, newest: map[string]*run{}, used: map[string]int{}, owed: map[string]bool{},
		unknown: map[runKey]bool{}, waitReason: "the agent has not started yet", startedAt: time.Now(),
	}
	w.link = newLink(log, w.requestBeat, w.wakeClaimer, o.Told)
	w.waiters = newWaiterSet(o.Backend, log, w.link, w.wakeClaimer, o.MaxBackoff)
	w.pub = newPublisher(w)
	return w, nil
}

// Run works until ctx is done, then drains: it stops claiming, lets running
// tasks end for DrainTimeout, hands the rest back, deregisters and returns.
// While the server is away it waits; it never returns for that reason alone.
//
// It returns nil after a clean stop, and an *UndeliveredError when outcomes
// could not be delivered before the drain was over.
func (w *Worker) Run(ctx context.Context) error {
	stopLines := w.lines.start()
	defer stopLines()
	w.beatPulse()
	w.claimPulse()
	if !w.prepare(ctx) {
		w.finishRun()
		return nil
	}
	heart, stopHeart := newLoop()
	claims, stopClaims := newLoop()
	rest, stopRest := newLoop()
	heart.run(w.heartLoop)
	claims.run(newClaimer(w).loop)
	rest.run(w.fenceLoop)
	rest.run(w.noteLoop)
	rest.run(w.commandLoop)
	rest.run(w.executorLoop)
	rest.run(w.pub.loop)

	<-ctx.Done()
	err := w.drain()
	stopClaims()
	w.waiters.close()
	stopRest()
	stopHeart() // heartbeats outlive the last outcome
	if err == nil {
		w.deregister()
	}
	w.finishRun()
	return err
}

// HandBack makes a drain hand its running tasks back at once.
func (w *Worker) HandBack() {
	w.handOnce.Do(func() { close(w.handBack) })
}

// Drain makes the worker take no new tasks until Resume; what runs goes on.
func (w *Worker) Drain() { w.setDrained(true) }

// Resume undoes Drain.
func (w *Worker) Resume() { w.setDrained(false) }

func (w *Worker) setDrained(on bool) {
	w.mu.Lock()
	w.drained = on
	w.mu.Unlock()
	w.requestSweep()
	w.requestBeat()
}

// Settings are what Reload can change while tasks run.
type Settings struct {
	MaxConcurrent int
	PlainQueues   []string          // nil: PlainAuto
	Labels        map[string]string // told with the next registration
}

// Reload changes settings. Running tasks go on, also above a lowered limit.
func (w *Worker) Reload(s Settings) error {
	o := w.o
	o.MaxConcurrent, o.PlainQueues, o.Labels = s.MaxConcurrent, s.PlainQueues, s.Labels
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.limit, w.plain, w.labels = o.MaxConcurrent, o.PlainQueues, o.Labels
	w.mu.Unlock()
	w.refresh()
	w.requestBeat()
	return nil
}

// executorLoop follows the executors: what they serve decides what is claimed.
func (w *Worker) executorLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.o.Executors.Changed():
			w.refresh()
		}
	}
}

// refresh works out anew what is served.
func (w *Worker) refresh() {
	status := w.o.Executors.Status()
	w.mu.Lock()
	w.served = serve(status, w.plain)
	w.freed = true // what was full may have room now
	w.mu.Unlock()
	w.requestSweep()
}

func (w *Worker) wakeClaimer() { poke(w.wake) }
func (w *Worker) requestBeat() { poke(w.beatNow) }

func (w *Worker) requestSweep() {
	w.sweepSoon.Store(true)
	w.wakeClaimer()
}

func (w *Worker) beatPulse()  { w.pulseHeart.Store(time.Now().UnixNano()) }
func (w *Worker) claimPulse() { w.pulseClaim.Store(time.Now().UnixNano()) }

func (w *Worker) finishRun() {
	w.mu.Lock()
	w.runsStopped = true
	w.mu.Unlock()
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// loop runs goroutines that end when they are stopped together.
type loop struct {
	ctx context.Context
	wg  sync.WaitGroup
}

// newLoop returns a loop and the function that stops it and waits for it.
func newLoop() (*loop, func()) {
	l := &loop{}
	ctx, cancel := context.WithCancel(context.Background())
	l.ctx = ctx
	return l, func() {
		cancel()
		l.wg.Wait()
	}
}

func (l *loop) run(f func(context.Context)) {
	l.wg.Add(1)
	go func() {
		defer l.wg.Done()
		f(l.ctx)
	}()
}

// notifier lets goroutines wait for the next change.
type notifier struct {
	mu sync.Mutex
	ch chan struct{}
}

// next is closed by the next broadcast. Take it before looking at the state.
func (n *notifier) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

func (n *notifier) broadcast() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}
