package engines

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Bundle writes a tar with the archives of the named entries, of those too that
// they need, for machines without a network. It returns the packages of the
// distribution, which are not in it. The file appears when it is whole.
func (in *Installer) Bundle(ctx context.Context, names []string, file string) (system []string, err error) {
	entries, err := in.Select(names)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		for _, need := range e.Needs {
			more, err := in.Select([]string{need})
			if err != nil {
				return nil, err
			}
			for _, m := range more {
				if !slices.ContainsFunc(entries, func(o Entry) bool { return o.ID() == m.ID() }) {
					entries = append(entries, m)
				}
			}
		}
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".bundle-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone after the rename
	w := tar.NewWriter(f)
	for _, e := range entries {
		for _, s := range e.System {
			system = append(system, s.Package)
		}
		if err == nil {
			err = in.bundleEntry(ctx, w, e)
		}
	}
	err = errors.Join(err, w.Close(), f.Chmod(0o644), f.Close())
	if err != nil {
		return nil, err
	}
	return system, os.Rename(f.Name(), file)
}

func (in *Installer) bundleEntry(ctx context.Context, w *tar.Writer, e Entry) error {
	sources, err := e.sources(in.arch())
	if err != nil {
		return err
	}
	for _, s := range sources {
		path, err := in.archive(ctx, e, s)
		if err != nil {
			return fmt.Errorf("bundle %s: %w", e.ID(), err)
		}
		if err := addFile(w, path, s); err != nil {
			return fmt.Errorf("bundle %s: %w", e.ID(), err)
		}
	}
	return nil
}

func addFile(w *tar.Writer, path string, s Source) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	if err := w.WriteHeader(&tar.Header{Name: s.Archive, Mode: 0o644, Size: s.Size, Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// importBundle takes the archives that a plan needs out of a bundle into the
// cache, where From is a file. Each is checked before it appears.
func (in *Installer) importBundle(ctx context.Context, p *Plan) error {
	info, err := os.Stat(in.From)
	if in.From == "" || err == nil && info.IsDir() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the bundle: %w", err)
	}
	wanted := map[string]Source{}
	for _, item := range p.Items {
		sources, err := item.Entry.sources(in.arch())
		if err != nil {
			return err
		}
		for _, s := range sources {
			wanted[s.Archive] = s
		}
	}
	f, err := os.Open(in.From)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	if err := mkdir(in.downloads()); err != nil {
		return err
	}
	r := tar.NewReader(f)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the bundle %s: %w", in.From, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if s, ok := wanted[h.Name]; ok && h.Typeflag == tar.TypeReg && h.Size == s.Size {
			if err := in.importArchive(r, s); err != nil {
				return fmt.Errorf("read the bundle %s: %w", in.From, err)
			}
		}
	}
}

func (in *Installer) importArchive(r io.Reader, s Source) error {
	tmp, err := os.CreateTemp(in.downloads(), unfinished)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone after the rename
	_, err = io.Copy(tmp, io.LimitReader(r, s.Size))
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	if err := s.check(tmp.Name()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), filepath.Join(in.downloads(), s.Archive))
}
