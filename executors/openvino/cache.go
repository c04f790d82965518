package openvino

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// sumsFile holds the checksums of the other files of a cache folder. The
// library has none and takes weights with flipped bits for good ones.
const sumsFile = "sums.json"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// cache keeps the folders of compiled models in order: one for each release
// of the runtime (with the driver of an NPU) and content of a model, in which
// the library has a file for each device and set of options.
type cache struct {
	dir   string // "": nothing is kept
	limit int64  // bytes

	mu   sync.Mutex
	busy map[string]int // folder -> compilations in it
}

func newCache(dir string, limit int64) *cache {
	return &cache{dir: dir, limit: limit, busy: map[string]int{}}
}

// begin readies a folder for a compilation: files that are not what was
// written are removed, and counted. Call end afterwards.
func (c *cache) begin(folder string) (damaged int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy[folder]++
	if c.busy[folder] > 1 {
		return 0 // looked at by whoever came first
	}
	now := time.Now()
	_ = os.Chtimes(folder, now, now) // for prune; without it the folder only looks older
	sums, err := readSums(folder)
	if err != nil {
		return dropFiles(folder)
	}
	for name, want := range sums {
		got, err := sumOf(filepath.Join(folder, name))
		if err == nil && got == want || os.IsNotExist(err) {
			continue
		}
		damaged++
		_ = os.Remove(filepath.Join(folder, name)) // where that fails the library decides
	}
	return damaged
}

// dropFiles removes everything of a folder whose checksums are not readable.
func dropFiles(folder string) (n int) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if os.Remove(filepath.Join(folder, e.Name())) == nil {
			n++
		}
	}
	return n
}

// room says whether what was written into a folder just now can be whole. The
// library says nothing of a full disk and leaves half a file; it is removed.
func (c *cache) room(folder string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := os.CreateTemp(folder, ".room-*")
	if err == nil {
		_, err = f.Write(make([]byte, 1<<20))
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if err == nil {
		return nil
	}
	dropFiles(folder)
	return fmt.Errorf("%s is not kept: %w", folder, err)
}

// forget removes what was compiled of a model: it may be of another one.
func (c *cache) forget(sum string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	folders, err := filepath.Glob(filepath.Join(c.dir, "*", sum))
	if err != nil || c.dir == "" || sum == "" {
		return
	}
	for _, folder := range folders {
		dropFiles(folder)
	}
}

// end writes the checksums of a folder in which nobody compiles any more, and
// makes room on the disk.
func (c *cache) end(folder string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy[folder]--
	if c.busy[folder] > 0 {
		return
	}
	delete(c.busy, folder)
	if seal(folder) != nil {
		_ = os.Remove(filepath.Join(folder, sumsFile)) // without any is better than wrong ones
	}
	c.prune()
}

// seal writes the checksums of what lies in a folder.
func seal(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	sums := map[string]uint32{}
	for _, e := range entries {
		if !e.Type().IsRegular() || e.Name() == sumsFile {
			continue
		}
		if sums[e.Name()], err = sumOf(filepath.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(sums)
	if err != nil {
		return fmt.Errorf("encode the checksums: %w", err)
	}
	temp := filepath.Join(folder, "."+sumsFile)
	if err := os.WriteFile(temp, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(folder, sumsFile))
}

func readSums(folder string) (map[string]uint32, error) {
	raw, err := os.ReadFile(filepath.Join(folder, sumsFile))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var sums map[string]uint32
	if err := json.Unmarshal(raw, &sums); err != nil {
		return nil, fmt.Errorf("checksums of %s: %w", folder, err)
	}
	for name := range sums {
		if name != filepath.Base(name) {
			return nil, fmt.Errorf("checksums of %s: %q is not the name of a file", folder, name)
		}
	}
	return sums, nil
}

func sumOf(path string) (uint32, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read
	h := crc32.New(castagnoli)
	_, err = io.Copy(h, f)
	return h.Sum32(), err
}

// prune removes the folders used longest ago until the rest takes at most
// limit bytes. What cannot be read or removed is left: it only takes room.
// Call with mu held.
func (c *cache) prune() {
	type folder struct {
		path string
		size int64
		used time.Time
	}
	var folders []folder
	total := int64(0)
	paths, err := filepath.Glob(filepath.Join(c.dir, "*", "*"))
	if err != nil || c.dir == "" {
		return
	}
	for _, path := range paths {
		f := folder{path: path}
		_ = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			info, err := d.Info()
			switch {
			case err != nil:
			case at == path:
				f.used = info.ModTime()
			case info.Mode().IsRegular():
				f.size += info.Size()
			}
			return nil
		})
		total += f.size
		folders = append(folders, f)
	}
	slices.SortFunc(folders, func(a, b folder) int { return cmp.Compare(a.used.UnixNano(), b.used.UnixNano()) })
	for _, f := range folders {
		if total <= c.limit {
			return
		}
		if c.busy[f.path] == 0 && os.RemoveAll(f.path) == nil {
			total -= f.size
			_ = os.Remove(filepath.Dir(f.path)) // of a release: only if it is empty now
		}
	}
}
