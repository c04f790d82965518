package playwright

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/executorstest"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// waiting serves a page that loads, and one that never does; each visit of it
// is told on the channel.
func waiting(t testing.TB) (url string, visits <-chan struct{}) {
	t.Helper()
	ch := make(chan struct{}, 100)
	web := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/never" {
			ch <- struct{}{}
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, "<title>Good</title>ok")
	})
	return web.URL, ch
}

func arrive(t testing.TB, visits <-chan struct{}) {
	t.Helper()
	select {
	case <-visits:
	case <-time.After(patience):
		t.Fatal("the page was not asked for")
	}
}

func (e *Executor) browserNow(t testing.TB) *browser {
	t.Helper()
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	if e.pool.current == nil {
		t.Fatal("there is no browser")
	}
	return e.pool.current
}

func TestAKilledBrowserOrDriverCostsOneAttempt(t *testing.T) {
	t.Parallel()
	url, visits := waiting(t)
	e := newExecutor(t, testSettings(t, strings.TrimPrefix(url, "http://")), egress.Options{})
	for _, victim := range []string{"browser", "driver", "renderer"} {
		t.Run(victim, func(t *testing.T) {
			result := make(chan *done)
			go func() { result <- e.do(t, `{"url":"`+url+`/never","nav_timeout_ms":120000}`, nil) }()
			arrive(t, visits)
			b := e.browserNow(t)
			pid := map[string]int{"browser": b.pid, "driver": b.driver.pid}[victim]
			if victim == "renderer" {
				all := descendants(processes(), b.pid)
				pid = all[slices.IndexFunc(all, isRenderer)]
				for _, p := range all {
					if isRenderer(p) {
						_ = syscall.Kill(p, syscall.SIGKILL)
					}
				}
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && victim != "renderer" {
				t.Fatal(err)
			}
			d := <-result
			d.wants(t, executors.CodeBrowserCrashed)
			if !d.err.Retryable {
				t.Error("it may not be tried again")
			}
			e.do(t, `{"url":"`+url+`/"}`, nil).good(t)
			e.nothingOpen(t)
			if victim != "renderer" {
				executorstest.Await(t, "all processes of the old browser to go", func() bool {
					return !running(b.pid)
				})
			}
		})
	}
}

// running reports that a process is there and no zombie.
func running(pid int) bool {
	p, ok := readProc(fmt.Sprintf("/proc/%d/stat", pid))
	return ok && !p.zombie
}

// Slots come back whatever happens to a task.
func TestFiftyCancelledTasksLeaveNothing(t *testing.T) {
	t.Parallel()
	one, oneVisits := waiting(t)
	two, twoVisits := waiting(t)
	e := newExecutor(t, testSettings(t, strings.TrimPrefix(one, "http://"), strings.TrimPrefix(two, "http://")), egress.Options{})
	var slots sync.WaitGroup
	for url, visits := range map[string]<-chan struct{}{one: oneVisits, two: twoVisits} {
		slots.Go(func() {
			for range 25 {
				ctx, cancel := context.WithCancel(t.Context())
				result := make(chan *done)
				go func() { result <- e.doIn(ctx, t, `{"url":"`+url+`/never"}`, nil) }()
				select {
				case <-visits:
					cancel()
					(<-result).wants(t, executors.CodeCancelled)
				case d := <-result:
					t.Errorf("the task ended by itself: %v", d.err)
				}
				cancel()
			}
		})
	}
	slots.Wait()
	e.do(t, `{"url":"`+one+`/"}`, nil).good(t)
	e.nothingOpen(t)
}

func TestBrowserAndDriverAreReplacedWithoutAFailure(t *testing.T) {
	t.Parallel()
	url, _ := waiting(t)
	s := testSettings(t, strings.TrimPrefix(url, "http://"))
	s.Recycle.Tasks, s.Recycle.DriverTasks = 3, 8
	e := newExecutor(t, s, egress.Options{})
	browsers, drivers := sync.Map{}, sync.Map{}
	for range 6 {
		var slots sync.WaitGroup
		for range 2 {
			slots.Go(func() {
				for range 2 {
					e.do(t, `{"url":"`+url+`/"}`, nil).good(t)
				}
			})
		}
		slots.Wait()
		e.pool.mu.Lock()
		s := e.pool.start
		e.pool.mu.Unlock()
		if s != nil {
			<-s.done
		}
		b := e.browserNow(t)
		browsers.Store(b.pid, true)
		drivers.Store(b.driver.pid, true)
	}
	seen := func(m *sync.Map) (pids []int) {
		m.Range(func(pid, _ any) bool { pids = append(pids, pid.(int)); return true })
		return pids
	}
	if n := len(seen(&browsers)); n < 3 {
		t.Errorf("24 tasks ran in %d browsers, although one is for 3", n)
	}
	if n := len(seen(&drivers)); n < 2 {
		t.Errorf("24 tasks ran with %d drivers, although one is for 8", n)
	}
	executorstest.Await(t, "the old ones to be gone", func() bool {
		alive := 0
		for _, pid := range seen(&browsers) {
			if running(pid) {
				alive++
			}
		}
		return alive <= 1
	})
	awaitNoZombies(t)
}

// awaitNoZombies waits until no process that ended is left to these parents, or
// to the tests themselves. One that ends at this moment may be for an instant.
func awaitNoZombies(t *testing.T, parents ...int) {
	t.Helper()
	parents = append(parents, os.Getpid())
	executorstest.Await(t, "no zombies", func() bool {
		return !slices.ContainsFunc(processes(), func(p proc) bool { return p.zombie && slices.Contains(parents, p.parent) })
	})
}

// The driver's memory does not grow with the tasks, and no zombies are left.
func TestManyTasksInOneDriver(t *testing.T) {
	t.Parallel()
	url, _ := waiting(t)
	e := newExecutor(t, testSettings(t, strings.TrimPrefix(url, "http://")), egress.Options{})
	run := func(n int) {
		for range n {
			e.do(t, `{"url":"`+url+`/","steps":[{"action":"get_text"}]}`, nil).good(t)
		}
	}
	run(30) // its caches are filled
	d := e.browserNow(t).driver
	before := ownMemory(d.pid)
	run(150)
	if after := ownMemory(d.pid); after > before*3/2 {
		t.Errorf("the driver holds %d MiB after 150 tasks, %d before", after/mib, before/mib)
	} else {
		t.Logf("driver: %d MiB, then %d MiB", before/mib, after/mib)
	}
	if e.browserNow(t).driver != d {
		t.Error("the driver was replaced")
	}
	awaitNoZombies(t, d.pid)
}

func TestWhatIsMissingIsTold(t *testing.T) {
	t.Parallel()
	s := testSettings(t)
	other := t.TempDir()
	if err := os.MkdirAll(filepath.Join(other, "package"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "package", "package.json"), []byte(`{"version": "1.60.0"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*Settings)
		says   []string
	}{
		"another driver": {func(s *Settings) { s.DriverDir = other }, []string{"1.60.0", DriverVersion, "engines install playwright"}},
		"no driver":      {func(s *Settings) { s.DriverDir = "/nowhere" }, []string{"/nowhere", "engines install playwright"}},
		"no node":        {func(s *Settings) { s.NodePath = "/nowhere/node" }, []string{"node is not at /nowhere/node"}},
		"no browser":     {func(s *Settings) { s.BrowserPath = "/nowhere/chrome" }, []string{"browser is not at /nowhere/chrome"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := s
			tt.change(&s)
			p := executorstest.Start(t, binary(t, s))
			d, err := p.Describe(soon(t))
			if err != nil || d.Ready || len(d.Reasons) != 1 {
				t.Fatalf("%+v, %v", d, err)
			}
			for _, part := range tt.says {
				if !strings.Contains(d.Reasons[0], part) {
					t.Errorf("reason %q does not tell %q", d.Reasons[0], part)
				}
			}
			r := p.Do(t, p.Attach(t), "task", executorstest.Case{Type: "browser", Payload: `{"url":"http://example.com/"}`})
			if r.Err == nil || r.Err.Code != executors.CodeEngineUnavailable {
				t.Errorf("a task ended with %v", r.Err)
			}
		})
	}
}

// A browser that does not start is a reason, not a task's surprise.
func TestABrowserThatDoesNotStartIsTold(t *testing.T) {
	t.Parallel()
	s := testSettings(t)
	s.BrowserPath = "/bin/true"
	e := newExecutor(t, s, egress.Options{})
	e.do(t, `{"url":"http://example.com/"}`, nil).wants(t, executors.CodeEngineUnavailable, "start the browser")
	d, err := e.Describe(soon(t))
	if err != nil || d.Ready || len(d.Reasons) == 0 {
		raw, _ := json.Marshal(d)
		t.Errorf("describe = %s, %v", raw, err)
	}
}
