package engines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/autobot-fleet/autobot/executors/engines"
)

// archive returns the path of an archive whose checksum is right: from the
// offline folder, from the cache, or fetched.
func (in *Installer) archive(ctx context.Context, e Entry, s Source) (string, error) {
	cached := filepath.Join(in.downloads(), s.Archive)
	places := []string{cached}
	if in.From != "" {
		places = []string{filepath.Join(in.From, s.Archive), cached}
	}
	for _, path := range places {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		err = s.check(path)
		if err == nil {
			return path, nil
		}
		if path != cached {
			return "", err
		}
		in.say("%s in the cache is not whole, fetching it again", s.Archive)
		if err := os.Remove(path); err != nil {
			return "", err
		}
	}
	if in.From != "" {
		return "", fmt.Errorf("%s is not in %s (make it on a machine with a network: autobot-agent engines bundle FILE)", s.Archive, in.From)
	}
	return cached, in.fetch(ctx, e, s, cached)
}

// check compares size and checksum of an archive with the catalogue.
func (s Source) check(path string) error {
	sum, size, err := engines.HashFile(path)
	if err != nil {
		return err
	}
	if size != s.Size || sum != s.SHA256 {
		return fmt.Errorf("%s is not the file that the catalogue pins: it has %d bytes and sha256 %.12s…, pinned are %d and %.12s…", filepath.Base(path), size, sum, s.Size, s.SHA256)
	}
	return nil
}

// fetch gets an archive into the cache, where it appears only when it is whole.
func (in *Installer) fetch(ctx context.Context, e Entry, s Source, cached string) error {
	if err := mkdir(in.downloads()); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(in.downloads(), unfinished)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	in.say("%s %s: fetching %s (%s) with %s", e.Name, e.Version, s.Archive, Megabytes(s.Size), s.From)
	get := in.pip
	if s.From == FromNpm {
		get = in.npm
	}
	stop := in.watch(s, dir)
	err = get(ctx, s, dir)
	stop()
	if err != nil {
		return err
	}
	got := filepath.Join(dir, s.Archive)
	if _, err := os.Stat(got); err != nil {
		return fmt.Errorf("%s brought %s %s without %s: the registry of this machine has another build of it", s.From, s.Package, s.Version, s.Archive)
	}
	if err := s.check(got); err != nil {
		return fmt.Errorf("%w (the registry of this machine gave another file; nothing was installed)", err)
	}
	return os.Rename(got, cached)
}

// watch mentions a download that takes long, until it is stopped.
func (in *Installer) watch(s Source, dir string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(in.mention())
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				in.say("%s: %s of %s so far", s.Archive, Megabytes(dirSize(dir)), Megabytes(s.Size))
			}
		}
	}()
	return func() { close(done); <-ended }
}

// dirSize is the size of all files below dir that can be seen.
func dirSize(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil // what goes away meanwhile does not count
	})
	return total
}

// pip downloads a wheel for the catalogue's Python and platform, whatever
// Python this machine has: nothing of a wheel that is kept touches Python.
func (in *Installer) pip(ctx context.Context, s Source, dir string) error {
	command, err := pipCommand(ctx)
	if err != nil {
		return err
	}
	args := append(command[1:],
		"download", "--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-deps", "--only-binary=:all:",
		"--implementation", "cp", "--python-version", "3.11", "--abi", "cp311", "--abi", "abi3", "--abi", "none",
		"--platform", s.Platform, "--dest", dir, s.Package+"=="+s.Version)
	// Its temporary files are ours to count, and to remove. We keep the archive, it
	// need not keep another.
	return run(ctx, dir, []string{"TMPDIR=" + dir}, command[0], args...)
}

// pipCommand is how pip is called here.
func pipCommand(ctx context.Context) ([]string, error) {
	if python, err := exec.LookPath("python3"); err == nil {
		if exec.CommandContext(ctx, python, "-c", "import pip").Run() == nil {
			return []string{python, "-m", "pip"}, nil
		}
	}
	for _, name := range []string{"pip3", "pip"} {
		if pip, err := exec.LookPath(name); err == nil {
			return []string{pip}, nil
		}
	}
	return nil, errors.New("pip is not on this machine (get it with: apt-get install python3-pip)")
}

// npm packs a package as its registry has it. Scripts of the package do not run.
func (in *Installer) npm(ctx context.Context, s Source, dir string) error {
	args := []string{"pack", "--silent", "--ignore-scripts", s.Package + "@" + s.Version}
	if npm, err := exec.LookPath("npm"); err == nil {
		return run(ctx, dir, nil, npm, args...)
	}
	node, err := in.Layout.InstalledNode()
	if err != nil {
		return fmt.Errorf("npm is not on this machine: %w", err)
	}
	bin := filepath.Dir(node)
	cli := filepath.Join(filepath.Dir(bin), "lib", "node_modules", "npm", "bin", "npm-cli.js")
	return run(ctx, dir, []string{"PATH=" + bin + ":" + os.Getenv("PATH")}, node, append([]string{cli}, args...)...)
}

// run runs a program of the machine with the environment of the machine, in a
// process group of its own that ends with ctx. What it printed is in the error.
func run(ctx context.Context, dir string, env []string, name string, args ...string) error {
	var out tail
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env, c.Stdout, c.Stderr = dir, append(os.Environ(), env...), &out, &out
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = 5 * time.Second
	err := c.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w%s", strings.Join(append([]string{filepath.Base(name)}, args[:min(2, len(args))]...), " "), err, out.lines())
	}
	return nil
}

// tail keeps the end of what a program prints.
type tail struct{ buf bytes.Buffer }

var _ io.Writer = (*tail)(nil)

func (t *tail) Write(p []byte) (int, error) {
	const limit = 4 << 10
	t.buf.Write(p)
	if over := t.buf.Len() - limit; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

// lines returns the last lines, each on one of its own.
func (t *tail) lines() string {
	all := strings.Split(strings.TrimSpace(strings.ToValidUTF8(t.buf.String(), "�")), "\n")
	if all[0] == "" {
		return ""
	}
	return ":\n  " + strings.Join(all[max(0, len(all)-3):], "\n  ")
}
