package host

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/executorstest"
)

func TestA05WhatIsNotTrustedIsNeverRun(t *testing.T) {
	t.Parallel()
	foreign := make([]byte, 64)
	copy(foreign, "\x7fELF\x02\x01\x01")
	machine := elf.EM_AARCH64
	if runtime.GOARCH == "arm64" {
		machine = elf.EM_X86_64
	}
	binary.LittleEndian.PutUint16(foreign[16:], uint16(elf.ET_EXEC))
	binary.LittleEndian.PutUint16(foreign[18:], uint16(machine))
	binary.LittleEndian.PutUint32(foreign[20:], 1)
	binary.LittleEndian.PutUint16(foreign[52:], 64)

	for _, tt := range []struct {
		name   string
		change func(m *executors.Manifest)
		after  func(t *testing.T, f *fixture, path string)
		want   string
	}{
		{"another content than the manifest's", func(m *executors.Manifest) { m.SHA256 = strings.Repeat("0", 64) }, nil, "not what its manifest says"},
		{"no digest", func(m *executors.Manifest) { m.SHA256 = "" }, nil, "sha256"},
		{"another name", func(m *executors.Manifest) { m.Name = "other" }, nil, `for executor "other"`},
		{"another architecture", func(m *executors.Manifest) { m.Arch = "vax" }, nil, "built for linux/vax"},
		{"another system", func(m *executors.Manifest) { m.OS = "plan9" }, nil, "built for plan9"},
		{"another protocol", func(m *executors.Manifest) { m.Protocols = []int{99} }, nil, "protocol versions [99]"},
		{"a newer agent", func(m *executors.Manifest) { m.MinAgent = "99.0" }, nil, "needs agent 99.0"},
		{"writable by everybody", nil, func(t *testing.T, _ *fixture, path string) { chmod(t, path, 0o777) }, "writable by everybody"},
		{"writable by a group", nil, func(t *testing.T, _ *fixture, path string) {
			if err := os.Chown(path, -1, someGroup()); err != nil {
				t.Fatal(err)
			}
			mode := os.FileMode(0o770)
			if privateGroup(uint32(os.Geteuid()), uint32(someGroup())) {
				mode = 0o777 // this user has no other group
			}
			chmod(t, path, mode)
		}, "writable by"},
		{"a manifest writable by everybody", nil, func(t *testing.T, _ *fixture, path string) { chmod(t, path+".json", 0o666) }, "writable by everybody"},
		{"a folder writable by everybody", nil, func(t *testing.T, f *fixture, _ string) { chmod(t, f.dir, 0o777) }, "writable by everybody"},
		{"a sticky folder", nil, func(t *testing.T, f *fixture, _ string) { chmod(t, f.dir, 0o777|os.ModeSticky) }, "writable by everybody"},
		{"a parent folder writable by everybody", nil, func(t *testing.T, f *fixture, _ string) { chmod(t, filepath.Dir(f.dir), 0o777) }, "writable by everybody"},
		{"not executable", nil, func(t *testing.T, _ *fixture, path string) { chmod(t, path, 0o600) }, "chmod +x"},
		{"empty", nil, func(t *testing.T, _ *fixture, path string) {
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
		}, "empty"},
		{"without a manifest", nil, func(t *testing.T, _ *fixture, path string) {
			if err := os.Remove(path + ".json"); err != nil {
				t.Fatal(err)
			}
		}, "no manifest"},
		{"a broken manifest", nil, func(t *testing.T, _ *fixture, path string) {
			if err := os.WriteFile(path+".json", []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not valid JSON"},
		{"a symbolic link", nil, func(t *testing.T, f *fixture, path string) {
			if err := os.Rename(path, f.dir+"/elsewhere"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(f.dir+"/elsewhere", path); err != nil {
				t.Fatal(err)
			}
		}, "symbolic link"},
		{"a program for another machine", nil, func(_ *testing.T, f *fixture, _ string) { f.installContent("bad", foreign, nil) }, "the file is a program for"},
		{"anything, where signatures are wanted", nil, func(_ *testing.T, f *fixture, _ string) { f.cfg.Trust = TrustSigned }, "executors.trust: owner"},
		{"settings that cannot be", nil, func(_ *testing.T, f *fixture, _ string) {
			f.cfg.Settings["bad"] = map[string]any{"env": map[string]any{"AUTOBOT_X": "1"}}
		}, "executors.bad.env"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			canary := filepath.Join(f.dir, "canary")
			f.installContent("bad", []byte("#!/bin/sh\ntouch "+canary+"\n"), tt.change)
			if tt.after != nil {
				tt.after(t, f, filepath.Join(f.dir, prefix+"bad"))
			}
			f.start()
			s := f.untilState("bad", StateQuarantined)
			if len(s.Reasons) != 1 || !strings.Contains(s.Reasons[0], tt.want) {
				t.Errorf("reasons = %q, want %q", s.Reasons, tt.want)
			}
			if len(s.PIDs) != 0 || s.Concurrency != 0 {
				t.Errorf("status = %+v", s)
			}
			if _, err := os.Stat(canary); err == nil {
				t.Error("it was run")
			}
		})
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// someGroup is a group we may give a file to, which is not private to a user.
func someGroup() int {
	if os.Geteuid() == 0 {
		return 12345
	}
	groups, _ := os.Getgroups()
	for _, g := range groups {
		if g != os.Getgid() {
			return g
		}
	}
	return os.Getgid()
}

func TestWhatLooksLikeACopyInProgressIsIgnored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, name := range []string{prefix + "a.tmp", prefix + "a.dpkg-new", prefix + "a.rpmnew", "." + prefix + "a", "README"} {
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte("x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f.install("good", nil)
	f.start()
	f.untilState("good", StateReady)
	if list := f.h.Status(); len(list) != 1 {
		t.Errorf("status = %+v", list)
	}
}

func TestA06BadExecutorsDoNotHoldUpTheGoodOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.StartTimeout, c.ProbeTimeout = 5*time.Second, 60*time.Second })
	f.install("exit1", map[string]any{"start": "exit1"})
	f.install("garbage", map[string]any{"start": "garbage"})
	f.install("hang", map[string]any{"start": "hang"})
	f.install("good", nil)
	f.installContent("script", []byte("no program at all"), nil)
	f.run()
	f.untilState("good", StateReady)
	f.ok(job(`{"op":"echo"}`))
	f.wait(f.h.Probed(), "probed")
	for name, want := range map[string]string{"exit1": "no licence found", "garbage": "hello, I am an executor!", "hang": "no handshake", "script": ""} {
		s := f.until(name, "found wanting", func(s Status) bool { return s.State == StateCrashed && s.Crashes > 0 })
		if len(s.Reasons) != 1 || !strings.Contains(s.Reasons[0], want) {
			t.Errorf("%s: reasons = %q, want %q", name, s.Reasons, want)
		}
	}
}

func TestANewVersionTakesOverAndTheOldOneFinishes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", map[string]any{"concurrency": 2})
	f.start()
	old := f.untilState("a", StateReady)
	release := filepath.Join(f.dir, "release")
	x := f.beginStarted(job(`{"op":"block","file":%q}`, release))

	content, err := os.ReadFile(executorstest.Build(t, misbehavePkg))
	if err != nil {
		t.Fatal(err)
	}
	f.installContent("a", append(content, bytes.Repeat([]byte{0}, 1000)...), nil)
	fresh := f.until("a", "ready in the new version", func(s Status) bool { return s.State == StateReady && s.Version != old.Version })
	f.until("a", "draining in the old one", func(s Status) bool {
		return s.State == StateDraining && s.Version == old.Version && s.InFlight == 1 && slices.Equal(s.PIDs, old.PIDs)
	})
	if pid := int(f.ok(job(`{"op":"echo"}`))["pid"].(float64)); pid != fresh.PIDs[0] {
		t.Errorf("a new task ran in process %d, want the new version's %d", pid, fresh.PIDs[0])
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f.end(x); x.err != nil || x.out.Version != old.Version {
		t.Errorf("the old task ended with %v in version %s", x.err, x.out.Version)
	}
	untilGone(t, old.PIDs[0])
	f.until("a", "alone", func(Status) bool { return len(f.h.Status()) == 1 })
}

func TestAnAlteredFileIsWithdrawn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", nil)
	f.start()
	s := f.untilState("a", StateReady)
	path := filepath.Join(f.dir, prefix+"a")
	if err := os.WriteFile(path+".tmp", []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		t.Fatal(err)
	}
	f.untilState("a", StateQuarantined)
	untilGone(t, s.PIDs[0])
	wantCode(t, f.do(job(`{"op":"echo"}`)).err, executors.CodeEngineUnavailable)
	f.install("a", nil) // repaired
	f.untilState("a", StateReady)
}

func TestANewExecutorIsPickedUpAndARemovedOneGoes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.start()
	if list := f.h.Status(); len(list) != 0 {
		t.Errorf("status = %+v", list)
	}
	f.h.Reload(map[string]map[string]any{})
	f.install("a", nil)
	s := f.untilState("a", StateReady)
	if err := os.Remove(filepath.Join(f.dir, prefix+"a")); err != nil {
		t.Fatal(err)
	}
	untilGone(t, s.PIDs[0])
}

func TestTheFirstFolderWins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	second := filepath.Join(filepath.Dir(f.dir), "y")
	if err := os.Mkdir(second, 0o700); err != nil {
		t.Fatal(err)
	}
	f.install("a", nil)
	first := f.dir
	f.dir = second
	f.install("a", nil)
	f.cfg.Dirs = append(f.cfg.Dirs, second)
	f.start()
	if s := f.untilState("a", StateReady); filepath.Dir(s.Path) != first {
		t.Errorf("path = %s", s.Path)
	}
	if s := f.untilState("a", StateQuarantined); filepath.Dir(s.Path) != second || !strings.Contains(s.Reasons[0], first) {
		t.Errorf("status = %+v", s)
	}
}

func TestReloadStartsAnewWithTheNewSettings(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", nil)
	f.install("b", nil)
	f.start()
	a, b := f.untilState("a", StateReady), f.untilState("b", StateReady)
	f.h.Reload(map[string]map[string]any{"a": {"processes": 2}})
	f.until("a", "served by two", func(s Status) bool { return s.State == StateReady && s.Concurrency == 2 })
	untilGone(t, a.PIDs[0])
	if now := f.untilState("b", StateReady); !slices.Equal(now.PIDs, b.PIDs) {
		t.Errorf("an executor whose settings did not change was started anew: %+v", now)
	}
	f.h.Reload(map[string]map[string]any{"a": {"enabled": false}})
	if s := f.until("a", "off", func(s Status) bool { return s.State == StateDisabled }); !strings.Contains(s.Reasons[0], "executors.a.enabled") {
		t.Errorf("status = %+v", s)
	}
}

func TestAnEngineThatAppearsLaterMakesItReady(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	engine := filepath.Join(f.dir, "engine")
	f.install("a", map[string]any{"ready_file": engine})
	reg := prometheus.NewPedanticRegistry()
	f.start()
	if err := reg.Register(newCollector(f.h)); err != nil {
		t.Fatal(err)
	}
	s := f.untilState("a", StateNotReady)
	if len(s.Reasons) != 1 || !strings.Contains(s.Reasons[0], engine) || s.Concurrency != 0 {
		t.Errorf("status = %+v", s)
	}
	wantCode(t, f.do(job(`{"op":"echo"}`)).err, executors.CodeEngineUnavailable)
	metric := func(want string) {
		t.Helper()
		err := testutil.GatherAndCompare(reg, strings.NewReader("# HELP autobot_executor_up 1 if the executor takes tasks now, else 0.\n# TYPE autobot_executor_up gauge\nautobot_executor_up{executor=\"a\"} "+want+"\n"), "autobot_executor_up")
		if err != nil {
			t.Error(err)
		}
	}
	metric("0")
	if err := os.WriteFile(engine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.untilState("a", StateReady)
	f.ok(job(`{"op":"echo"}`))
	metric("1")
}

func TestOldCopiesAreSweptExceptOneForARollBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", nil)
	f.start()
	content, err := os.ReadFile(executorstest.Build(t, misbehavePkg))
	if err != nil {
		t.Fatal(err)
	}
	version := f.untilState("a", StateReady).Version
	for range 3 {
		content = append(content, 0)
		f.installContent("a", content, nil)
		was := version
		version = f.until("a", "replaced", func(s Status) bool { return s.State == StateReady && s.Version != was }).Version
		f.until("a", "alone", func(Status) bool { return len(f.h.Status()) == 1 })
	}
	f.h.Reload(f.cfg.Settings)
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		copies, err := os.ReadDir(f.h.storeDir())
		if err != nil {
			t.Fatal(err)
		}
		if len(copies) == 2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d copies are kept, want 2", len(copies))
		}
	}
}

func TestOlder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"1.2.3", "1.2.3", false}, {"1.2.3", "1.10", true}, {"v2.0.0", "1.9.9", false}, {"1.2", "v1.2.1-rc1", true},
		{"dev", "1.0", false}, {"1.0", "", false}, {"", "1.0", false},
	} {
		if got := older(tt.a, tt.b); got != tt.want {
			t.Errorf("older(%q, %q) = %v", tt.a, tt.b, got)
		}
	}
}
