package engines

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// member is one regular file of an archive.
type member struct {
	name       string
	executable bool
	content    io.Reader
}

// Kept is one file that was unpacked.
type Kept struct {
	Name   string `json:"name"` // in the target folder, slash-separated
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// unpack writes what src keeps of an archive into dir, which must exist. Every
// file is compared with its size and checksum while it is written; nothing else
// of the archive is written, and no path of the archive is used as one.
func unpack(archive string, src Source, dir string) ([]Kept, error) {
	u := &unpacker{src: src, dir: dir, trees: make([][]Kept, len(src.Trees)), found: map[int]bool{}}
	walk := walkTgz
	if strings.HasSuffix(src.Archive, ".whl") {
		walk = walkZip
	}
	if err := walk(archive, u.take); err != nil {
		return nil, fmt.Errorf("unpack %s: %w", src.Archive, err)
	}
	if err := u.complete(); err != nil {
		return nil, fmt.Errorf("unpack %s: %w", src.Archive, err)
	}
	return u.kept, nil
}

type unpacker struct {
	src   Source
	dir   string
	kept  []Kept
	trees [][]Kept     // by tree, with names inside of it
	found map[int]bool // files, by index
}

// take writes a member if it is wanted. One member may be wanted in parts.
func (u *unpacker) take(m member) error {
	var parts []int
	for i, f := range u.src.Files {
		if f.From == m.name {
			parts = append(parts, i)
		}
	}
	if len(parts) > 0 {
		return u.parts(m, parts)
	}
	for i, t := range u.src.Trees {
		rel, ok := strings.CutPrefix(m.name, t.From)
		if !ok {
			continue
		}
		if !inside(rel) {
			return fmt.Errorf("%q leaves its folder", m.name)
		}
		left := t.Size
		for _, k := range u.trees[i] {
			left -= k.Size
		}
		if len(u.trees[i]) >= t.Count || left < 0 {
			return fmt.Errorf("%s has more than the %d files and %d bytes that the catalogue says", t.From, t.Count, t.Size)
		}
		k, err := u.write(t.To+rel, m.content, left, m.executable)
		if err != nil {
			return err
		}
		u.kept = append(u.kept, k)
		k.Name = rel
		u.trees[i] = append(u.trees[i], k)
		return nil
	}
	return nil
}

// parts writes the wanted parts of one member in one pass. Parts do not overlap.
func (u *unpacker) parts(m member, parts []int) error {
	slices.SortFunc(parts, func(a, b int) int { return int(u.src.Files[a].Offset - u.src.Files[b].Offset) })
	at := int64(0)
	for _, i := range parts {
		f := u.src.Files[i]
		if u.found[i] {
			return fmt.Errorf("%s is in it twice", f.From)
		}
		if _, err := io.CopyN(io.Discard, m.content, f.Offset-at); err != nil {
			return fmt.Errorf("%s ends before byte %d", f.From, f.Offset)
		}
		k, err := u.write(f.To, io.LimitReader(m.content, f.Size), f.Size, f.Executable)
		if err != nil {
			return err
		}
		if k.Size != f.Size || k.SHA256 != f.SHA256 {
			return fmt.Errorf("%s is not the file that the catalogue pins (%d bytes, sha256 %.12s…; wanted %d bytes, %.12s…)", f.From, k.Size, k.SHA256, f.Size, f.SHA256)
		}
		at = f.Offset + f.Size
		u.found[i] = true
		u.kept = append(u.kept, k)
	}
	return nil
}

// write writes at most limit bytes; more is an error.
func (u *unpacker) write(name string, content io.Reader, limit int64, executable bool) (Kept, error) {
	path := filepath.Join(u.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // the agent's user reads it, who may be another one
		return Kept{}, err
	}
	mode := fs.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return Kept{}, err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(content, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("%s has more than the %d bytes that are allowed", name, limit)
	}
	if err == nil {
		err = f.Chmod(mode) // the umask may have taken bits away
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return Kept{}, fmt.Errorf("write %s: %w", name, err)
	}
	return Kept{Name: name, Size: n, SHA256: sumText(sum)}, nil
}

// complete checks that everything wanted was there.
func (u *unpacker) complete() error {
	for i, f := range u.src.Files {
		if !u.found[i] {
			return fmt.Errorf("%s is not in it", f.From)
		}
	}
	for i, t := range u.src.Trees {
		size := int64(0)
		for _, k := range u.trees[i] {
			size += k.Size
		}
		if sum := treeSum(u.trees[i]); len(u.trees[i]) != t.Count || size != t.Size || sum != t.SHA256 {
			return fmt.Errorf("%s is not the folder that the catalogue pins (%d files, %d bytes, sha256 %.12s…)", t.From, len(u.trees[i]), size, sum)
		}
	}
	return nil
}

// treeSum is the checksum of the lines "SHA256  PATH" in order of path.
func treeSum(files []Kept) string {
	sorted := slices.SortedFunc(slices.Values(files), func(a, b Kept) int { return strings.Compare(a.Name, b.Name) })
	sum := sha256.New()
	for _, k := range sorted {
		_, _ = fmt.Fprintf(sum, "%s  %s\n", k.SHA256, k.Name) // a hash never fails
	}
	return sumText(sum)
}

func sumText(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// walkZip calls take for each regular file of a zip archive.
func walkZip(archive string, take func(member) error) error {
	r, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // only read
	for _, f := range r.File {
		if !f.Mode().IsRegular() {
			continue // folders are made as needed; links are never wanted
		}
		if err := takeZip(f, take); err != nil {
			return err
		}
	}
	return nil
}

func takeZip(f *zip.File, take func(member) error) error {
	content, err := f.Open()
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	defer func() { _ = content.Close() }() // only read
	return take(member{f.Name, f.Mode().Perm()&0o111 != 0, content})
}

// walkTgz calls take for each regular file of a gzipped tar archive.
func walkTgz(archive string, take func(member) error) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue // links are never wanted
		}
		if err := take(member{h.Name, h.FileInfo().Mode().Perm()&0o111 != 0, r}); err != nil {
			return err
		}
	}
}
