package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// What a task has started as a daemon dies with its process, however that
// ends. Where the agent may make no cgroups it does not promise that, and says so.
func TestA08ADaemonOfATaskDiesWithItsProcess(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(f *fixture, pid int)
	}{
		{"that a cancel ends", func(f *fixture, _ int) {
			x := f.beginStarted(job(`{"op":"ignore_cancel"}`))
			x.cancel()
			wantCode(f.t, f.end(x).err, executors.CodeCancelled)
		}},
		{"that is killed from outside", func(f *fixture, pid int) {
			p, err := os.FindProcess(pid)
			if err == nil {
				err = p.Kill()
			}
			if err != nil {
				f.t.Fatal(err)
			}
		}},
		{"that ends with the lease", func(f *fixture, _ int) {
			x := f.beginStarted(job(`{"op":"ignore_cancel"}`))
			f.h.ExtendLease(time.Now().Add(50 * time.Millisecond))
			f.end(x)
		}},
		{"that the agent shuts down", func(f *fixture, _ int) { f.stop() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.install("a", map[string]any{"concurrency": 4})
			h := f.start()
			s := f.untilState("a", StateReady)
			if h.cgroups == "" {
				if s.Confinement != ConfinedByGroup {
					t.Errorf("confinement = %q", s.Confinement)
				}
				return
			}
			if s.Confinement != ConfinedByCgroup {
				t.Errorf("confinement = %q", s.Confinement)
			}
			daemon := int(f.ok(job(`{"op":"escape"}`))["child"].(float64))
			if _, alive := startTime(daemon); !alive {
				t.Fatal("the daemon does not live")
			}
			raw, err := os.ReadFile(h.recordPath(s.PIDs[0]))
			if err != nil {
				t.Fatal(err)
			}
			dirs := cgroupsIn(string(raw), h.cgroups)
			tt.end(f, s.PIDs[0])
			untilGone(t, s.PIDs[0])
			untilGone(t, daemon)
			f.stop()
			if len(dirs) != 1 {
				t.Fatalf("cgroups in the record %s: %v", raw, dirs)
			}
			if _, err := os.Stat(dirs[0]); !os.IsNotExist(err) {
				t.Errorf("the cgroup %s is left: %v", dirs[0], err)
			}
		})
	}
}

func TestADaemonOfAKilledAgentIsALeftover(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", nil)
	h := f.start()
	if h.cgroups == "" {
		return // not promised without cgroups
	}
	daemon := int(f.ok(job(`{"op":"escape"}`))["child"].(float64))
	pid := f.untilState("a", StateReady).PIDs[0]
	raw, err := os.ReadFile(h.recordPath(pid))
	if err != nil {
		t.Fatal(err)
	}
	next := newFixture(t) // the next run of the agent finds the record
	if err := os.MkdirAll(filepath.Join(next.cfg.StateDir, "executors", "pids"), 0o700); err != nil {
		t.Fatal(err)
	}
	write := filepath.Join(next.cfg.StateDir, "executors", "pids", filepath.Base(h.recordPath(pid)))
	if err := os.WriteFile(write, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := next.start().KillLeftovers(); err != nil {
		t.Fatal(err)
	}
	untilGone(t, daemon)
}

func TestTheSweepTakesOnlyCgroupsWithoutAnAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours, err := newCgroup(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, cgroupPrefix+"b-1")
	other := filepath.Join(dir, "other")
	for _, path := range []string{left, other} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweepCgroups(dir); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{ours.path: true, left: false, other: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
	}
	if err := ours.remove(); err != nil {
		t.Fatal(err)
	}
}

func TestTheOwnCgroupIsFound(t *testing.T) {
	t.Parallel()
	const mounts = "24 30 0:22 / /proc rw - proc proc rw\n30 1 8:1 / / rw - ext4 /dev/vda rw\n"
	for _, tt := range []struct{ name, cgroup, mounts, want string }{
		{"version 2 alone", "0::/system.slice/a.service\n", mounts + "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup/system.slice/a.service"},
		{"beside version 1", "5:cpu:/x\n0::/\n", mounts + "36 24 0:31 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n", "/sys/fs/cgroup/unified"},
		{"a part of the tree is mounted", "0::/docker/abc/leaf\n", mounts + "36 24 0:31 /docker/abc /sys/fs/cgroup rw - cgroup2 none rw\n", "/sys/fs/cgroup/leaf"},
		{"another part is", "0::/docker/abcd\n", mounts + "36 24 0:31 /docker/abc /sys/fs/cgroup rw - cgroup2 none rw\n", ""},
		{"outside of the namespace", "0::/../other\n", mounts + "36 24 0:31 / /sys/fs/cgroup rw - cgroup2 none rw\n", ""},
		{"version 1 alone", "5:cpu:/x\n", mounts, ""},
		{"none is mounted", "0::/x\n", mounts, ""},
		{"nonsense", "\x00", " - cgroup2 \n - - -\n", ""},
	} {
		got, err := ownCgroup([]byte(tt.cgroup), []byte(tt.mounts))
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: got %q, %v", tt.name, got, err)
		}
	}
}

func FuzzOwnCgroup(f *testing.F) {
	f.Add([]byte("0::/a\n"), []byte("35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"))
	f.Fuzz(func(t *testing.T, cgroup, mounts []byte) {
		dir, err := ownCgroup(cgroup, mounts)
		if (err == nil) == (dir == "") {
			t.Errorf("%q, %v", dir, err)
		}
	})
}

// cgroupsIn finds the cgroup that a record names.
func cgroupsIn(record, parent string) (found []string) {
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		if path := filepath.Join(parent, e.Name()); strings.Contains(record, `"`+path+`"`) {
			found = append(found, path)
		}
	}
	return found
}
