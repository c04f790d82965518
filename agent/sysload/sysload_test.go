package sysload

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func at(second int, total, busy, steal, own float64) sample {
	return sample{
		at:  time.Unix(int64(1000+second), 0),
		cpu: cpuTimes{total: total, busy: busy, steal: steal}, own: own,
	}
}

func TestAveragesAreShares(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name               string
		samples            []sample
		busy, other, steal float64
	}{
		{"one sample has no rates", []sample{at(0, 100, 50, 0, 0)}, 0, 0, 0},
		{"busy is a share of all processor time", []sample{at(0, 100, 50, 0, 0), at(10, 120, 60, 0, 0)}, 50, 50, 0},
		{"own work does not count as other", []sample{at(0, 100, 50, 0, 10), at(10, 120, 68, 0, 26)}, 90, 10, 0},
		{"steal is told apart", []sample{at(0, 100, 50, 5, 0), at(10, 120, 54, 15, 0)}, 20, 20, 50},
		{"own work above busy is no negative load", []sample{at(0, 100, 50, 0, 0), at(10, 120, 52, 0, 9)}, 10, 0, 0},
		{"a counter that falls is no load", []sample{at(0, 100, 50, 9, 7), at(10, 120, 40, 0, 3)}, 0, 0, 0},
		{"time that stands still has no rates", []sample{at(0, 100, 50, 0, 0), at(10, 100, 60, 0, 0)}, 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := average(tt.samples)
			if !near(a.busyPercent, tt.busy) || !near(a.otherPercent, tt.other) || !near(a.stealPercent, tt.steal) {
				t.Errorf("busy %.1f, other %.1f, steal %.1f; want %.1f, %.1f, %.1f",
					a.busyPercent, a.otherPercent, a.stealPercent, tt.busy, tt.other, tt.steal)
			}
		})
	}
}

func near(a, b float64) bool { return a-b < 0.01 && b-a < 0.01 }

func TestWindowForgetsWhatIsOlderThanItsSpan(t *testing.T) {
	t.Parallel()
	w := window{span: 10 * time.Second}
	for s := 0; s <= 20; s += 2 { // ten busy seconds, then ten idle ones
		w.add(at(s, float64(s), float64(min(s, 10)), 0, 0))
	}
	if a := average(w.samples); a.busyPercent != 0 || len(w.samples) != 6 {
		t.Errorf("busy %.1f of %d samples, want 0 of 6", a.busyPercent, len(w.samples))
	}
}

func TestGateClosesAboveAndOpensWellBelow(t *testing.T) {
	t.Parallel()
	limits := Limits{CPUPercent: 80, MemoryPercent: 95, DiskFreeMB: 512}
	for _, tt := range []struct {
		name   string
		limits Limits
		before Reading
		now    Reading
		want   string // part of the reason, "" means open
	}{
		{"an idle machine is open", limits, ok(), ok(), ""},
		{"the CPU limit closes", limits, ok(), with(func(r *Reading) { r.OtherCPUPercent = 81 }), "CPU is 81 % busy"},
		{"own work does not close", limits, ok(), with(func(r *Reading) { r.CPUPercent = 100 }), ""},
		{"just below the limit stays closed", limits, with(func(r *Reading) { r.OtherCPUPercent = 81 }), with(func(r *Reading) { r.OtherCPUPercent = 76 }), "resumes below 75"},
		{"five points below opens", limits, with(func(r *Reading) { r.OtherCPUPercent = 81 }), with(func(r *Reading) { r.OtherCPUPercent = 75 }), ""},
		{"100 turns the CPU limit off", Limits{CPUPercent: 100, MemoryPercent: 95}, ok(), with(func(r *Reading) { r.OtherCPUPercent = 100 }), ""},
		{"memory closes", limits, ok(), with(func(r *Reading) { r.MemoryPercent = 96 }), "memory is 96 % used"},
		{"memory stays closed at 91", limits, with(func(r *Reading) { r.MemoryPercent = 96 }), with(func(r *Reading) { r.MemoryPercent = 91 }), "memory"},
		{"memory opens at 90", limits, with(func(r *Reading) { r.MemoryPercent = 96 }), with(func(r *Reading) { r.MemoryPercent = 90 }), ""},
		{"a full disk closes", limits, ok(), with(func(r *Reading) { r.DiskFreeMB = 100 }), "the disk of /spool has only 100 MB free"},
		{"a disk just above the limit stays closed", limits, with(func(r *Reading) { r.DiskFreeMB = 500 }), with(func(r *Reading) { r.DiskFreeMB = 520 }), "disk"},
		{"a disk well above the limit opens", limits, with(func(r *Reading) { r.DiskFreeMB = 500 }), with(func(r *Reading) { r.DiskFreeMB = 600 }), ""},
		{"a disk that does not answer closes", limits, ok(), with(func(r *Reading) { r.DiskStuck = 3 * time.Second }), "the disk of /spool has not answered for 3s"},
		{"an unreadable disk closes", limits, ok(), with(func(r *Reading) { r.DiskError = "no such directory" }), "disk space is unknown"},
		{"no disk limit, no disk reason", Limits{CPUPercent: 100, MemoryPercent: 100}, ok(), with(func(r *Reading) { r.DiskFreeMB, r.DiskError, r.DiskStuck = 0, "x", time.Hour }), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var g gate
			g.update(tt.before, tt.limits)
			got := g.update(tt.now, tt.limits)
			if !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
				t.Errorf("reason %q, want %q", got, tt.want)
			}
		})
	}
}

func ok() Reading { return Reading{DiskPath: "/spool", DiskFreeMB: 5000} }

func with(mutate func(*Reading)) Reading {
	r := ok()
	mutate(&r)
	return r
}

func TestTightestCgroupWins(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(dir string, files map[string]string) string {
		dir = filepath.Join(root, dir)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	leaf := write("a/b", map[string]string{"memory.max": "max\n", "memory.current": "5000\n"})
	middle := write("a", map[string]string{
		"memory.max": "1000\n", "memory.current": "900\n", "memory.stat": "anon 100\ninactive_file 300\n",
	})
	top := write("", nil)
	machine := memory{total: 10_000, available: 9_000}

	got := tightest(machine, []string{leaf, middle, top})
	if got != (memory{total: 1000, available: 400}) {
		t.Errorf("got %+v", got)
	}
	if p := got.usedPercent(); !near(p, 60) {
		t.Errorf("used %.1f %%, want 60", p)
	}
	write("a", map[string]string{"memory.high": "700\n"})
	if got := tightest(machine, []string{middle}); got != (memory{total: 700, available: 100}) {
		t.Errorf("with memory.high: %+v", got)
	}
	write("a", map[string]string{"memory.current": "5000\n"})
	if got := tightest(machine, []string{middle}); got != (memory{total: 700}) {
		t.Errorf("above the limit: %+v", got)
	}
	if got := tightest(machine, nil); got != machine {
		t.Errorf("without cgroups: %+v", got)
	}
}

func TestCgroupDirsFollowTheMount(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, mountinfo, cgroup string
		want                    string
	}{
		{
			"a systemd service", "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n", "0::/system.slice/x.service\n",
			"/sys/fs/cgroup/system.slice/x.service /sys/fs/cgroup/system.slice /sys/fs/cgroup",
		},
		{
			"a hybrid machine", "29 24 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n30 24 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"4:memory:/x\n0::/\n", "/sys/fs/cgroup/unified",
		},
		{"a container without its own name space", "30 24 0:26 /box/1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/box/1/task\n", "/sys/fs/cgroup/task /sys/fs/cgroup"},
		{"a name that leads out", "30 24 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/../../x\n", "/sys/fs/cgroup"},
		{"version 1 alone", "29 24 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "4:memory:/x\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			proc := t.TempDir()
			if err := os.Mkdir(filepath.Join(proc, "self"), 0o700); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"mountinfo": tt.mountinfo, "cgroup": tt.cgroup} {
				if err := os.WriteFile(filepath.Join(proc, "self", name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			dirs, err := cgroupDirs(proc)
			if got := strings.Join(dirs, " "); err != nil || got != tt.want {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestDiskProbeAsksAStuckDiskOnlyOnce(t *testing.T) {
	t.Parallel()
	answer := make(chan error)
	asked := make(chan struct{}, 10)
	d := diskProbe{path: "/spool", ask: func(string) (diskUsage, error) {
		asked <- struct{}{}
		return diskUsage{free: 7}, <-answer
	}}
	for range 3 {
		if _, stuck, err := d.read(time.Millisecond); stuck <= 0 || err != nil {
			t.Fatalf("stuck %v, %v", stuck, err)
		}
	}
	if len(asked) != 1 {
		t.Errorf("asked %d times", len(asked))
	}
	answer <- nil
	if u, stuck, err := d.read(time.Minute); u.free != 7 || stuck != 0 || err != nil {
		t.Errorf("after the answer: %+v, %v, %v", u, stuck, err)
	}
	go func() { answer <- errors.New("gone") }()
	if _, stuck, err := d.read(time.Minute); stuck != 0 || err == nil {
		t.Errorf("a failing disk: %v, %v", stuck, err)
	}
}

func TestNPUIsFoundByItsDeviceNode(t *testing.T) {
	t.Parallel()
	dev, sys := t.TempDir(), t.TempDir()
	if present, _, _ := readNPU(dev, sys); present {
		t.Error("found an NPU in an empty folder")
	}
	mkfile(t, filepath.Join(dev, "accel/accel0"), "")
	if present, _, known := readNPU(dev, sys); !present || known {
		t.Errorf("present %v, busy time known %v", present, known)
	}
	mkfile(t, filepath.Join(sys, "class/accel/accel0/device/npu_busy_time_us"), "1500000\n")
	if present, busy, known := readNPU(dev, sys); !present || !known || busy != 1500*time.Millisecond {
		t.Errorf("present %v, busy %v, known %v", present, busy, known)
	}
}

func mkfile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSamplerReadsThisMachine(t *testing.T) {
	t.Parallel()
	s := New(Config{Dir: t.TempDir(), Limits: Limits{CPUPercent: 99, MemoryPercent: 100, DiskFreeMB: 1}}, zap.NewNop())
	s.sample(context.Background())
	r := s.Reading()
	if r.MemoryTotalMB <= 0 || r.MemoryAvailableMB <= 0 || r.MemoryAvailableMB > r.MemoryTotalMB || r.MemoryPercent <= 0 || r.MemoryPercent > 100 {
		t.Errorf("memory: %+v", r)
	}
	if r.DiskFreeMB <= 0 || r.DiskPercent < 0 || r.DiskPercent > 100 || r.DiskError != "" {
		t.Errorf("disk: %+v", r)
	}
	if r.Uptime <= 0 || r.ResidentMB <= 1 {
		t.Errorf("uptime %v, resident %.1f MB", r.Uptime, r.ResidentMB)
	}
	if len(s.broken) != 0 {
		t.Errorf("sensors that cannot be read: %v", s.broken)
	}
}

func TestSamplerGateFollowsItsLimits(t *testing.T) {
	t.Parallel()
	off := Limits{CPUPercent: 100, MemoryPercent: 100}
	s := New(Config{Dir: t.TempDir(), Limits: Limits{CPUPercent: 100, MemoryPercent: 100, DiskFreeMB: 1 << 40}}, zap.NewNop())
	if reason, closed := s.Closed(); !closed || !strings.Contains(reason, "disk") {
		t.Errorf("closed %v, %q", closed, reason)
	}
	s.SetLimits(off)
	if reason, closed := s.Closed(); closed || reason != "" {
		t.Errorf("closed %v, %q", closed, reason)
	}
	missing := New(Config{Dir: filepath.Join(t.TempDir(), "gone"), Limits: Limits{CPUPercent: 100, MemoryPercent: 100, DiskFreeMB: 1}}, zap.NewNop())
	if reason, closed := missing.Closed(); !closed || !strings.Contains(reason, "gone") {
		t.Errorf("without the directory: closed %v, %q", closed, reason)
	}
}

func TestSamplerAsksWhatElseThereIsToSay(t *testing.T) {
	t.Parallel()
	full := true
	s := New(Config{
		Dir: t.TempDir(), Limits: Limits{CPUPercent: 100, MemoryPercent: 100},
		Also: func() (string, bool) { return "the spool is full", full },
	}, zap.NewNop())
	if reason, closed := s.Closed(); !closed || reason != "the spool is full" {
		t.Errorf("closed %v, %q", closed, reason)
	}
	full = false
	s.sample(context.Background())
	if reason, closed := s.Closed(); closed {
		t.Errorf("still closed: %q", reason)
	}
}

func TestSamplerStopsWithItsContext(t *testing.T) {
	t.Parallel()
	s := New(Config{Dir: t.TempDir(), Limits: Limits{CPUPercent: 100, MemoryPercent: 100}}, zap.NewNop())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
