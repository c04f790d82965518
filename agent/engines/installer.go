package engines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/autobot-fleet/autobot/executors/engines"
)

// Installer installs what its catalogue names into the folders of a layout.
// Its methods may be called by one goroutine at a time; other processes are
// kept out by a lock.
type Installer struct {
	Catalogue Catalogue
	Layout    engines.Layout

	// Downloads is where archives are kept. Default: downloads/ in the user's
	// cache.
	Downloads string

	// From is a folder with archives, or a bundle. Where it is set nothing is
	// fetched from anywhere else.
	From string

	// Arch is Go's name of the processor to install for. Default: this one.
	Arch string

	// Say gets one sentence for each thing that happens, one at a time. May be
	// nil.
	Say func(sentence string)

	every time.Duration // that a long download is mentioned; 0 is 10 s
}

// prefix of folders that are being filled or emptied; nobody reads them.
const unfinished = ".new-"

// New returns an installer of the pinned catalogue.
func New(layout engines.Layout) (*Installer, error) {
	c, err := Pinned()
	if err != nil {
		return nil, err
	}
	return &Installer{Catalogue: c, Layout: layout}, nil
}

func (in *Installer) say(format string, args ...any) {
	if in.Say != nil {
		in.Say(fmt.Sprintf(format, args...))
	}
}

func (in *Installer) mention() time.Duration {
	if in.every > 0 {
		return in.every
	}
	return 10 * time.Second
}

func (in *Installer) arch() string {
	if in.Arch != "" {
		return in.Arch
	}
	return runtime.GOARCH
}

func (in *Installer) downloads() string {
	if in.Downloads != "" {
		return in.Downloads
	}
	return filepath.Join(engines.CacheDir(), "downloads")
}

// target is the folder of an entry.
func (in *Installer) target(e Entry) string {
	switch e.Kind {
	case KindModel:
		return filepath.Join(in.Layout.ModelsDir, e.Name)
	case KindData:
		return filepath.Join(in.Layout.DataDir, e.Name)
	}
	return filepath.Join(in.Layout.EnginesDir, e.Name, e.Version)
}

// Install installs everything of a plan that is still missing. What fails is
// reported at the end and does not keep the rest from being installed; what was
// there before stays where the new one cannot be had.
func (in *Installer) Install(ctx context.Context, p *Plan) error {
	if p.Empty() {
		return nil
	}
	unlock, err := in.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	in.sweep()
	if err := in.room(p); err != nil {
		return err
	}
	var problems []error
	if err := in.installSystem(ctx, p.System); err != nil {
		problems = append(problems, err)
	}
	if err := in.importBundle(ctx, p); err != nil {
		return errors.Join(append(problems, err)...)
	}
	for _, item := range p.Items {
		if ctx.Err() != nil {
			break
		}
		if err := in.installEntry(ctx, item.Entry); err != nil {
			problems = append(problems, fmt.Errorf("install %s: %w", item.Entry.ID(), err))
		}
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("installation ended: %w (run it again: it goes on with what is there)", err)
	}
	return errors.Join(problems...)
}

// installEntry fetches, unpacks beside the target and puts into place.
func (in *Installer) installEntry(ctx context.Context, e Entry) error {
	if s := in.State(e); s.State == Installed {
		return nil // another run was faster
	} else if s.State == ByHand {
		return errors.New(s.Reason)
	}
	sources, err := e.sources(in.arch())
	if err != nil {
		return err
	}
	start := time.Now()
	archives := make([]string, len(sources))
	for i, src := range sources {
		if archives[i], err = in.archive(ctx, e, src); err != nil {
			return err
		}
	}
	target := in.target(e)
	if err := mkdir(filepath.Dir(target)); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(target), unfinished)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // empty names after the exchange: what was there before
	r := receipt{Name: e.Name, Version: e.Version, Digest: e.digest(in.arch())}
	for i, src := range sources {
		kept, err := unpack(archives[i], src, dir)
		if err != nil {
			return err
		}
		r.Files = append(r.Files, kept...)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if e.Kind == KindModel {
		if err := writeCard(e, dir); err != nil {
			return err
		}
	}
	if err := r.write(dir); err != nil {
		return err
	}
	if err := place(dir, target); err != nil {
		return err
	}
	in.say("%s %s: installed in %s (%s, %.1f s)", e.Name, e.Version, target, Megabytes(r.size()), time.Since(start).Seconds())
	return nil
}

func writeCard(e Entry, dir string) error {
	c, err := e.card()
	if err != nil {
		return err
	}
	raw, err := c.Encode()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, engines.CardFile), raw, 0o644) //nolint:gosec // the agent's user reads it, who may be another one
}

// place puts a finished folder where target is; what was there before is left
// in dir. There is no moment without a target where the system can exchange two
// folders.
func place(dir, target string) error {
	if err := shared(dir); err != nil {
		return err
	}
	err := unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, target, unix.RENAME_EXCHANGE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOENT):
		return os.Rename(dir, target)
	}
	old := dir + ".old" // a file system that cannot exchange
	if err := os.Rename(target, old); err != nil {
		return err
	}
	if err := os.Rename(dir, target); err != nil {
		return errors.Join(err, os.Rename(old, target))
	}
	return os.RemoveAll(old)
}

// shared lets everybody read the folders of a tree; files have their modes.
func shared(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o755) //nolint:gosec // the agent's user reads it, who may be another one
	})
}

// mkdir makes a folder that everybody can read, and those above it.
func mkdir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := mkdir(parent); err != nil {
			return err
		}
	}
	err := os.Mkdir(dir, 0o755) //nolint:gosec // the agent's user reads it, who may be another one
	switch {
	case err == nil:
		return os.Chmod(dir, 0o755) //nolint:gosec // the umask may have taken bits away
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		return fmt.Errorf("make %s: %w (run this as root, or choose a folder with --into DIR)", dir, err)
	}
	return fmt.Errorf("make %s: %w", dir, err)
}

// sweep removes what runs that were interrupted left. The lock is held.
func (in *Installer) sweep() {
	for _, pattern := range []string{
		filepath.Join(in.Layout.EnginesDir, "*", unfinished+"*"),
		filepath.Join(in.Layout.ModelsDir, unfinished+"*"),
		filepath.Join(in.Layout.DataDir, unfinished+"*"),
	} {
		left, _ := filepath.Glob(pattern) // the pattern is well formed
		for _, dir := range left {
			_ = os.RemoveAll(dir) // else the next run does
		}
	}
	left, _ := filepath.Glob(filepath.Join(in.downloads(), unfinished+"*"))
	for _, dir := range left { // other layouts may be using the cache now
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(dir)
		}
	}
}

// Remove removes an installed entry, with its archives in the cache if wanted.
// Packages of the distribution stay.
func (in *Installer) Remove(ctx context.Context, e Entry, downloads bool) error {
	if len(e.Sources) == 0 {
		return fmt.Errorf("%s is only packages of the distribution, which this command leaves alone", e.Name)
	}
	unlock, err := in.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if downloads {
		for _, s := range e.Sources {
			if err := os.Remove(filepath.Join(in.downloads(), s.Archive)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	files := e
	files.System = nil
	switch s := in.State(files); s.State {
	case Missing:
		if downloads {
			return nil
		}
		return fmt.Errorf("%s is not installed in %s", e.ID(), in.target(e))
	case ByHand:
		return fmt.Errorf("%s (autobot-agent models remove %s)", s.Reason, e.Name)
	}
	if err := removeDir(in.target(e)); err != nil {
		return err
	}
	if e.Kind == KindEngine {
		_ = os.Remove(filepath.Dir(in.target(e))) // fails while other versions are there
	}
	return nil
}

// removeDir takes a folder away at once and then empties it.
func removeDir(dir string) error {
	aside, err := os.MkdirTemp(filepath.Dir(dir), unfinished)
	if err != nil {
		return err
	}
	gone := filepath.Join(aside, "removed")
	if err := os.Rename(dir, gone); err != nil {
		return errors.Join(err, os.Remove(aside))
	}
	return os.RemoveAll(aside)
}

// Megabytes is a size for people.
func Megabytes(bytes int64) string {
	if bytes < 10e6 {
		return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.0f MB", float64(bytes)/1e6)
}
