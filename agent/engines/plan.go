package engines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/autobot-fleet/autobot/executors/engines"
)

// All is the name that means every entry that is installed unasked.
const All = "all"

// spare is what must be left on a file system after an installation, in bytes.
const spare = 64 << 20

// Plan is what has to be done, and what it costs.
type Plan struct {
	Items  []Item
	System []System // packages of the distribution that are missing
}

// Item is one entry that is not installed yet.
type Item struct {
	Entry    Entry
	Download int64 // bytes that are not here yet
	Disk     int64 // bytes it will take
}

// Empty reports whether there is nothing to do.
func (p *Plan) Empty() bool { return len(p.Items) == 0 && len(p.System) == 0 }

// Download is how many bytes have to be fetched.
func (p *Plan) Download() (total int64) {
	for _, i := range p.Items {
		total += i.Download
	}
	for _, s := range p.System {
		total += s.Download
	}
	return total
}

// Disk is how many bytes the installation takes, archives included.
func (p *Plan) Disk() (total int64) {
	for _, i := range p.Items {
		total += i.Disk + i.Download
	}
	for _, s := range p.System {
		total += s.Disk
	}
	return total
}

// Names are the names and versions of everything in the plan.
func (p *Plan) Names() (names []string) {
	for _, s := range p.System {
		names = append(names, "package "+s.Package)
	}
	for _, i := range p.Items {
		names = append(names, i.Entry.Name+" "+i.Entry.Version)
	}
	return names
}

// Select returns the entries that names mean; "all" is everything that is
// installed unasked and is published for this processor.
func (in *Installer) Select(names []string) ([]Entry, error) {
	var out []Entry
	add := func(e Entry) {
		if !slices.ContainsFunc(out, func(o Entry) bool { return o.ID() == e.ID() }) {
			out = append(out, e)
		}
	}
	for _, name := range names {
		if name == All {
			for _, e := range in.Catalogue {
				if _, err := e.sources(in.arch()); e.All && err == nil {
					add(e)
				}
			}
			continue
		}
		e, err := in.Catalogue.Find(name)
		if err != nil {
			return nil, err
		}
		add(e)
	}
	return out, nil
}

// Plan says what is missing of the named entries, those included that they need
// and the machine has nothing like.
func (in *Installer) Plan(ctx context.Context, names []string) (*Plan, error) {
	entries, err := in.Select(names)
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	for _, e := range entries {
		if err := in.plan(ctx, p, e); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (in *Installer) plan(ctx context.Context, p *Plan, e Entry) error {
	for _, s := range e.System {
		if !s.there() && !slices.ContainsFunc(p.System, func(o System) bool { return o.Package == s.Package }) {
			p.System = append(p.System, s)
		}
	}
	sources, err := e.sources(in.arch())
	if err != nil {
		return err
	}
	files := e
	files.System = nil
	if in.State(files).State != Installed && !slices.ContainsFunc(p.Items, func(o Item) bool { return o.Entry.ID() == e.ID() }) {
		item := Item{Entry: e}
		for _, s := range sources {
			if in.From == "" && !in.cached(s) {
				item.Download += s.Size
			}
			item.Disk += s.kept()
		}
		for _, need := range e.Needs {
			if err := in.planNeed(ctx, p, e, item, need); err != nil {
				return err
			}
		}
		p.Items = append(p.Items, item)
		return nil
	}
	for _, need := range e.Needs { // it may have been removed since
		if err := in.planNeed(ctx, p, e, Item{Entry: e}, need); err != nil {
			return err
		}
	}
	return nil
}

// planNeed adds the entry that another needs. The only need there is so far is
// node: an engine runs on it, and npm is a part of it.
func (in *Installer) planNeed(ctx context.Context, p *Plan, e Entry, item Item, need string) error {
	wanted, err := in.Catalogue.Find(need)
	if err != nil {
		return err
	}
	missing := false
	if e.Kind == KindEngine {
		_, err := engines.MachineNode(ctx)
		missing = err != nil
	}
	if item.Download > 0 && slices.ContainsFunc(e.Sources, func(s Source) bool { return s.From == FromNpm }) {
		_, err := exec.LookPath("npm")
		missing = missing || err != nil
	}
	if !missing {
		return nil
	}
	return in.plan(ctx, p, wanted)
}

// kept is how many bytes are kept of an archive.
func (s Source) kept() (total int64) {
	for _, f := range s.Files {
		total += f.Size
	}
	for _, t := range s.Trees {
		total += t.Size
	}
	return total
}

// cached reports whether the archive seems to be here; its checksum is compared
// when it is used.
func (in *Installer) cached(s Source) bool {
	info, err := os.Stat(filepath.Join(in.downloads(), s.Archive))
	return err == nil && info.Size() == s.Size
}

// room refuses a plan for which the disk is too small, before anything starts.
func (in *Installer) room(p *Plan) error {
	var files, downloads int64
	for _, i := range p.Items {
		files += i.Disk
		downloads += i.Download
	}
	type need struct {
		dir   string
		bytes int64
	}
	needs := map[uint64]*need{}
	for _, n := range []need{{in.Layout.EnginesDir, files}, {in.downloads(), downloads}} {
		if n.bytes == 0 {
			continue
		}
		if err := mkdir(n.dir); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Stat(n.dir, &st); err != nil {
			return fmt.Errorf("look at the disk of %s: %w", n.dir, err)
		}
		if have := needs[uint64(st.Dev)]; have != nil { //nolint:unconvert // not everywhere of this type
			have.bytes += n.bytes
			continue
		}
		needs[uint64(st.Dev)] = &need{n.dir, n.bytes} //nolint:unconvert // not everywhere of this type
	}
	var problems []error
	for _, n := range needs {
		free, err := freeBytes(n.dir)
		if err != nil {
			return err
		}
		if free < n.bytes+spare {
			problems = append(problems, fmt.Errorf("%s has %s free, %s are needed: free some space, or choose another disk with --into DIR", n.dir, Megabytes(free), Megabytes(n.bytes+spare)))
		}
	}
	return errors.Join(problems...)
}

// freeBytes is what an ordinary user may still write.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("look at the disk of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // not everywhere of this type
}
