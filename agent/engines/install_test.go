package engines

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors/engines"
)

func TestInstallingTwiceDoesNothingTheSecondTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Catalogue = Catalogue{library(t, r, "1.0", "one"), network(t, r, "1.0", "net")}
	if err := r.install(t, All); err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(r.Layout.EnginesDir, "libx", "1.0")
	if read(t, filepath.Join(lib, "libx.so")) != "one" || read(t, filepath.Join(lib, "licences", "LICENSE")) != "free" {
		t.Error("not what was in the archive")
	}
	if _, err := os.Stat(filepath.Join(lib, "other")); err == nil {
		t.Error("a file was kept that is not pinned")
	}
	if c, _, err := r.Layout.Model("net"); err != nil || c.Task != engines.TaskInfer || c.Source != "npm pkg 1.0" {
		t.Errorf("the model is %+v, %v", c, err)
	}
	for _, e := range r.Catalogue {
		if err := r.Verify(e); err != nil {
			t.Errorf("%s: %v", e.ID(), err)
		}
	}
	if p, err := r.Plan(t.Context(), []string{All}); err != nil || !p.Empty() {
		t.Errorf("there is still something to do: %v, %v", p, err)
	}
	if left := r.leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAllMayReadWhatIsInstalledUnderAStrictUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	r := newRig(t)
	r.Catalogue = Catalogue{library(t, r, "1.0", "one")}
	if err := r.install(t, All); err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(r.Layout.EnginesDir)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == lockFile {
			return err
		}
		info, err := d.Info()
		want := fs.FileMode(0o644)
		if d.IsDir() || d.Name() == "x" {
			want = 0o755
		}
		if d.Name() != receiptFile && err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnArchiveThatIsNotThePinnedOneChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Catalogue = Catalogue{network(t, r, "1.0", "old")}
	if err := r.install(t, "net"); err != nil {
		t.Fatal(err)
	}
	newer := network(t, r, "2.0", "new")
	r.Catalogue = Catalogue{newer, library(t, r, "1.0", "one")}
	if s := r.State(newer); s.State != Other || !strings.Contains(s.Reason, "1.0") {
		t.Errorf("state %+v", s)
	}
	r.offer(t, "net-2.0.tgz", tarball(t, item{name: "package/net.onnx", content: "evil"}))
	wantError(t, r.install(t, All), "install net@2.0: net-2.0.tgz is not the file that the catalogue pins")
	if read(t, filepath.Join(r.Layout.ModelsDir, "net", "model.onnx")) != "old" {
		t.Error("the old model is gone")
	}
	if s := r.State(r.Catalogue[1]); s.State != Installed {
		t.Errorf("the rest was not installed: %+v", s)
	}
	network(t, r, "2.0", "new")
	if err := r.install(t, All); err != nil {
		t.Fatal(err)
	}
	if read(t, filepath.Join(r.Layout.ModelsDir, "net", "model.onnx")) != "new" || len(r.leftovers(t)) > 0 {
		t.Error("the new model is not in place")
	}
}

func TestDamageIsSeenAndRepaired(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := library(t, r, "1.0", "one")
	r.Catalogue = Catalogue{e}
	if err := r.install(t, "libx"); err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(r.target(e), "libx.so")
	for _, tt := range []struct {
		name     string
		damage   func() error
		quick    string // state after a quick look
		thorough string // part of what Verify says
	}{
		{"other bytes", func() error { return os.WriteFile(lib, []byte("ONE"), 0o600) }, Installed, "libx.so is not the file that was installed"},
		{"a cut file", func() error { return os.Truncate(lib, 1) }, Damaged, "libx.so has 1 bytes, 3 were installed"},
		{"a lost file", func() error { return os.Remove(lib) }, Damaged, "libx.so"},
		{"a lost receipt", func() error { return os.Remove(filepath.Join(r.target(e), receiptFile)) }, Damaged, "has no .installed.json"},
		{"a receipt that lies", func() error {
			return os.WriteFile(filepath.Join(r.target(e), receiptFile), []byte(`{"files":[{"name":"../../x"}]}`), 0o600)
		}, Damaged, "leaves the folder"},
		{"a stranger", func() error { return os.WriteFile(filepath.Join(r.target(e), "evil.so"), nil, 0o600) }, Installed, "evil.so does not belong there"},
	} {
		if err := tt.damage(); err != nil {
			t.Fatal(err)
		}
		if s := r.State(e); s.State != tt.quick {
			t.Errorf("%s: state %+v", tt.name, s)
		}
		wantError(t, r.Verify(e), tt.thorough)
		if tt.quick == Installed {
			if err := r.Remove(t.Context(), e, false); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.install(t, "libx"); err != nil {
			t.Fatal(err)
		}
		wantError(t, r.Verify(e), "")
	}
}

func TestAnInterruptedInstallationGoesOnWithWhatItHad(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Catalogue = Catalogue{library(t, r, "1.0", "one"), network(t, r, "1.0", "net")}
	p, err := r.Plan(t.Context(), []string{All})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	say := r.Say
	r.Say = func(s string) { // ends after the first entry
		say(s)
		cancel()
	}
	wantError(t, r.Install(ctx, p), "run it again")
	if s := r.State(r.Catalogue[0]); s.State != Installed {
		t.Errorf("the first is %+v", s)
	}
	if s := r.State(r.Catalogue[1]); s.State != Missing {
		t.Errorf("the second is %+v", s)
	}
	// What a run that was killed leaves is swept away.
	write(t, filepath.Join(r.Layout.ModelsDir, unfinished+"1", "model.onnx"), "half")
	r.Say = say
	if p, err = r.Plan(t.Context(), []string{All}); err != nil || len(p.Items) != 1 {
		t.Fatalf("planned again: %v, %v", p, err)
	}
	if err := r.Install(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if left := r.leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestTwoInstallersWaitForEachOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Catalogue = Catalogue{library(t, r, "1.0", "one"), network(t, r, "1.0", "net")}
	unlock, err := r.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan struct{}, 2)
	var wg sync.WaitGroup
	errs := make([]error, 2)
	var mu sync.Mutex
	installed := 0
	for i := range errs {
		other := *r.Installer
		other.Say = func(s string) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(s, "another installation") {
				waiting <- struct{}{}
			}
			if strings.Contains(s, ": installed in ") {
				installed++
			}
		}
		p, err := other.Plan(t.Context(), []string{All})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { errs[i] = other.Install(t.Context(), p) })
	}
	for range errs {
		select {
		case <-waiting:
		case <-time.After(time.Minute):
			t.Fatal("an installer does not wait for the lock")
		}
	}
	unlock()
	wg.Wait()
	if errs[0] != nil || errs[1] != nil || installed != 2 {
		t.Errorf("%v, %d entries were installed, want each of the 2 once", errs, installed)
	}
}

func TestWaitingForTheLockEndsWithTheContext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	unlock, err := r.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	r.Say = func(string) { cancel() }
	_, err = r.lock(ctx)
	wantError(t, err, "wait for the other installation")
}

func TestADiskThatIsTooSmallIsSaidBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := library(t, r, "1.0", "one")
	e.Sources[0].Files[0].Size = 1 << 60
	r.Catalogue = Catalogue{e}
	wantError(t, r.install(t, All), "are needed: free some space")
	if entries, err := os.ReadDir(r.Layout.EnginesDir); err != nil || len(entries) != 1 || entries[0].Name() != lockFile {
		t.Errorf("something was started: %v, %v", entries, err)
	}
}

func TestAModelAddedByHandIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := network(t, r, "1.0", "net")
	r.Catalogue = Catalogue{e}
	own := filepath.Join(r.Layout.ModelsDir, "net", "model.json")
	write(t, own, "{}")
	wantError(t, r.install(t, "net"), "was added by hand and is left alone")
	wantError(t, r.Remove(t.Context(), e, false), "autobot-agent models remove net")
	if read(t, own) != "{}" {
		t.Error("it was changed")
	}
}

func TestWhatIsRemovedIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := library(t, r, "1.0", "one"), library(t, r, "2.0", "two")
	two.All, two.Why = false, "a test"
	r.Catalogue = Catalogue{one, two}
	if err := r.install(t, "libx", "libx@2.0"); err != nil {
		t.Fatal(err)
	}
	if err := r.Remove(t.Context(), one, false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(r.target(one)); err == nil || r.State(two).State != Installed {
		t.Error("the wrong version was removed")
	}
	wantError(t, r.Remove(t.Context(), one, false), "libx@1.0 is not installed in")
	if err := r.Remove(t.Context(), two, false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(r.target(two))); err == nil {
		t.Error("an empty folder stays")
	}
	if got := r.InstallLine(two); got != "autobot-agent engines install libx@2.0" {
		t.Errorf("got %s", got)
	}
}

func TestWhatIsNotPublishedForAProcessor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := library(t, r, "1.0", "one")
	e.Sources[0].Arch = "s390x"
	r.Catalogue = Catalogue{e, network(t, r, "1.0", "net")}
	if runtime.GOARCH == "s390x" {
		r.Arch = "amd64"
	}
	wantError(t, r.install(t, "libx"), "is not published for")
	if err := r.install(t, All); err != nil {
		t.Errorf("all is what there is for this processor: %v", err)
	}
}

func TestABundleInstallsElsewhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := library(t, r, "1.0", "one")
	e.System = []System{{Package: "sh-package", Have: "sh", Disk: 1}}
	r.Catalogue = Catalogue{e, network(t, r, "1.0", "net")}
	file := filepath.Join(t.TempDir(), "engines.tar")
	system, err := r.Bundle(t.Context(), []string{All}, file)
	if err != nil || len(system) != 1 || system[0] != "sh-package" {
		t.Fatalf("got %v, %v", system, err)
	}
	other := newRig(t)
	other.Catalogue, other.From = r.Catalogue, file
	if err := other.install(t, All); err != nil {
		t.Fatal(err)
	}
	for _, e := range r.Catalogue {
		wantError(t, other.Verify(e), "")
	}
	// A bundle that was changed on its way installs nothing.
	raw := []byte(read(t, file))
	raw[600] ^= 1 // inside of the first archive
	write(t, file, string(raw))
	third := newRig(t)
	third.Catalogue, third.From = r.Catalogue, file
	wantError(t, third.install(t, All), "is not the file that the catalogue pins")
	if third.State(e).State != Missing {
		t.Error("it was installed")
	}
}

func TestAnOfflineFolderWithoutTheArchiveSaysHowToMakeOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Catalogue = Catalogue{library(t, r, "1.0", "one")}
	r.From = t.TempDir()
	wantError(t, r.install(t, All), "autobot-agent engines bundle FILE")
	e := r.Catalogue[0]
	e.System = []System{{Package: "no-such-package", Have: "no-such-command", Disk: 1}}
	r.Catalogue = Catalogue{e}
	wantError(t, r.install(t, All), "apt-get install no-such-package")
}
