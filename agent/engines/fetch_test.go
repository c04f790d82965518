package engines

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// programs is a PATH with nothing but the given shell scripts and what they use.
func programs(t *testing.T, scripts map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"sh", "cat", "cp", "pwd"} {
		for _, from := range []string{"/bin/", "/usr/bin/"} {
			if _, err := os.Stat(from + name); err == nil {
				_ = os.Symlink(from+name, filepath.Join(dir, name))
			}
		}
	}
	for name, body := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	return dir
}

// online is a rig that fetches.
func online(t *testing.T) *rig {
	r := newRig(t)
	r.Catalogue = Catalogue{library(t, r, "1.0", "one"), network(t, r, "1.0", "net")}
	r.From = ""
	return r
}

func TestArchivesComeThroughPipAndNpmAndAreKept(t *testing.T) {
	r := online(t)
	log := filepath.Join(t.TempDir(), "calls")
	programs(t, map[string]string{
		"python3": `[ "$1" = -c ] && exit 0
echo "python3 $*" >>` + log + `
while [ $# -gt 1 ]; do [ "$1" = --dest ] && dest=$2; shift; done
cp ` + r.from + `/x-1.0.whl "$dest"`,
		"npm": `echo "npm $*" >>` + log + `
cp ` + r.from + `/net-1.0.tgz .`,
	})
	if err := r.install(t, All); err != nil {
		t.Fatal(err)
	}
	calls := read(t, log)
	for _, want := range []string{
		"python3 -m pip download", "--no-deps --only-binary=:all:", "--python-version 3.11", "--platform any", " pkg==1.0\n",
		"npm pack --silent --ignore-scripts pkg@1.0\n",
	} {
		if !strings.Contains(calls, want) {
			t.Errorf("%q is not in:\n%s", want, calls)
		}
	}
	if strings.Contains(calls, "://") || strings.Contains(calls, "index-url") || strings.Contains(calls, "registry") {
		t.Errorf("a registry is named:\n%s", calls)
	}
	// With the archives in the cache nothing is asked again.
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	for _, e := range r.Catalogue {
		if err := r.Remove(t.Context(), e, false); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := r.Plan(t.Context(), []string{All}); err != nil || p.Download() != 0 || p.Disk() == 0 {
		t.Errorf("planned %v, %v", p, err)
	}
	if err := r.install(t, All); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(log); err == nil {
		t.Errorf("asked again: %s", read(t, log))
	}
	// An archive that rots in the cache is fetched again.
	write(t, filepath.Join(r.Downloads, "x-1.0.whl"), "rotten")
	if err := r.Remove(t.Context(), r.Catalogue[0], false); err != nil {
		t.Fatal(err)
	}
	if err := r.install(t, All); err != nil || !containsText(r.said, "x-1.0.whl in the cache is not whole") {
		t.Errorf("got %v, said %v", err, r.said)
	}
	if err := r.Remove(t.Context(), r.Catalogue[0], true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(r.Downloads, "x-1.0.whl")); err == nil {
		t.Error("the archive was to be removed too")
	}
}

func TestWhatGoesWrongWhileFetchingIsSaid(t *testing.T) {
	for _, tt := range []struct {
		name    string
		scripts map[string]string
		want    []string
	}{
		{"no pip at all", map[string]string{"npm": "exit 1"}, []string{"pip is not on this machine (get it with: apt-get install python3-pip)"}},
		{"a Python without pip", map[string]string{"npm": "exit 1", "python3": "exit 1"}, []string{"apt-get install python3-pip"}},
		{"a registry that does not answer", map[string]string{"npm": "echo offline >&2; exit 7", "pip3": "echo no route >&2; exit 9"}, []string{"pip3 download --quiet: exit status 9:\n  no route", "npm pack --silent: exit status 7:\n  offline"}},
		{"another file of that name", map[string]string{"npm": "exit 0", "pip3": `while [ $# -gt 1 ]; do [ "$1" = --dest ] && dest=$2; shift; done; echo evil >"$dest/x-1.0.whl"`}, []string{"gave another file; nothing was installed", "npm brought pkg 1.0 without net-1.0.tgz"}},
		{"no npm", map[string]string{"pip3": "exit 1"}, []string{"npm is not on this machine"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := online(t)
			programs(t, tt.scripts)
			err := r.install(t, All)
			for _, want := range tt.want {
				wantError(t, err, want)
			}
			for _, e := range r.Catalogue {
				if r.State(e).State != Missing {
					t.Errorf("%s is %s", e.ID(), r.State(e).State)
				}
			}
			if left, err := filepath.Glob(filepath.Join(r.Downloads, "*")); err != nil || len(left) > 0 {
				t.Errorf("left in the cache: %v", left)
			}
		})
	}
}

func TestNodeIsInstalledOnlyWhereTheMachineHasNothingLikeIt(t *testing.T) {
	r := online(t)
	node := library(t, r, "24.0", "node")
	node.Name, node.All, node.Why = "node", false, "a test"
	engine := library(t, r, "3.0", "driver")
	engine.Name, engine.Needs = "driver", []string{"node"}
	model := r.Catalogue[1]
	model.Needs = []string{"node"}
	r.Catalogue = Catalogue{node, engine, model}
	names := func() string {
		p, err := r.Plan(t.Context(), []string{All})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(p.Names(), ", ")
	}
	new20 := "echo v20.1.0"
	programs(t, map[string]string{"node": new20, "npm": "exit 1"})
	if got := names(); got != "driver 3.0, net 1.0" {
		t.Errorf("with node and npm: %s", got)
	}
	programs(t, map[string]string{"node": "echo v18.1.0", "npm": "exit 1"})
	if got := names(); got != "node 24.0, driver 3.0, net 1.0" {
		t.Errorf("with an old node: %s", got)
	}
	programs(t, map[string]string{"node": new20})
	if got := names(); got != "driver 3.0, node 24.0, net 1.0" {
		t.Errorf("without npm: %s", got)
	}
}

func TestThePartOfNodeStandsInForNpm(t *testing.T) {
	r := online(t)
	programs(t, map[string]string{"pip3": "exit 1"})
	bin := filepath.Join(r.Layout.EnginesDir, "node", "24.0", "bin")
	write(t, filepath.Join(bin, "node"), "#!/bin/sh\n[ \"${1##*/}\" = npm-cli.js ] && [ \"$2\" = pack ] && cp "+r.from+"/net-1.0.tgz .\n")
	if err := os.Chmod(filepath.Join(bin, "node"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.install(t, "net"); err != nil {
		t.Error(err)
	}
}

func TestPackagesOfTheDistributionComeThroughAptGet(t *testing.T) {
	r := online(t)
	dir := programs(t, map[string]string{
		"sudo": `while [ "$1" != "" ]; do case "$1" in -n|env|*=*) shift;; *) break;; esac; done; [ "$1" = true ] && exit 0; exec "$@"`,
	})
	apt := filepath.Join(dir, "apt-get")
	write(t, apt, "#!/bin/sh\necho \"$*\" >>"+dir+"/calls\nif [ \"$1\" = install ]; then echo '#!/bin/sh' >"+dir+"/speak; fi\n")
	if err := os.Chmod(apt, 0o755); err != nil {
		t.Fatal(err)
	}
	r.Catalogue = Catalogue{{
		Name: "speech", Version: "distribution", Kind: KindEngine, About: "a", Licence: "GPL", Free: true, All: true,
		System: []System{{Package: "speak-package", Have: filepath.Join(dir, "speak"), Download: 1, Disk: 2}},
	}}
	if err := r.install(t, All); err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Join(dir, "calls")); !strings.Contains(got, "install -y -qq --no-install-recommends speak-package") {
		t.Errorf("called with %s", got)
	}
	if s := r.State(r.Catalogue[0]); s.State != Installed {
		t.Errorf("state %+v", s)
	}
	wantError(t, r.Remove(t.Context(), r.Catalogue[0], false), "leaves alone")
}

func TestAPackageThatCannotBeInstalledIsNamed(t *testing.T) {
	r := online(t)
	missing := []System{{Package: "speak-package", Have: "no-such-command", Disk: 1}}
	programs(t, nil)
	wantError(t, r.installSystem(t.Context(), missing), "no apt-get here")
	programs(t, map[string]string{"apt-get": "echo broken >&2; exit 100", "sudo": "exit 1"})
	err := r.installSystem(t.Context(), missing)
	if os.Geteuid() == 0 {
		wantError(t, err, "exit status 100:\n  broken")
	} else {
		wantError(t, err, "sudo wants a password: sudo apt-get install speak-package")
	}
	if os.Geteuid() == 0 {
		programs(t, map[string]string{"apt-get": "exit 0"})
		wantError(t, r.installSystem(t.Context(), missing), "no-such-command is still not there")
	}
}

func TestALongDownloadIsMentioned(t *testing.T) {
	r := online(t)
	r.every = time.Millisecond
	mentioned := make(chan struct{})
	var once sync.Once
	r.Say = func(s string) {
		if strings.Contains(s, "x-1.0.whl: 0.0 MB of 0.0 MB so far") {
			once.Do(func() { close(mentioned) })
		}
	}
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	programs(t, map[string]string{"pip3": `while [ $# -gt 1 ]; do [ "$1" = --dest ] && dest=$2; shift; done
cat ` + gate + `
cp ` + r.from + `/x-1.0.whl "$dest"`})
	opened := make(chan error, 1)
	go func() { // the download goes on once it was mentioned
		<-mentioned
		f, err := os.OpenFile(gate, os.O_WRONLY, 0)
		if err == nil {
			err = f.Close()
		}
		opened <- err
	}()
	if err := r.install(t, "libx"); err != nil {
		t.Error(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}
