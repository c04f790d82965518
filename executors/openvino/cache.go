package openvino

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// pruneCache removes the compiled models that were written longest ago until
// the rest takes at most limit bytes. What cannot be read or removed is left:
// it only takes room.
func pruneCache(dir string, limit int64) {
	type folder struct {
		path string
		size int64
		used time.Time
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	var folders []folder
	total := int64(0)
	for _, entry := range entries {
		f := folder{path: filepath.Join(dir, entry.Name())}
		_ = filepath.WalkDir(f.path, func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
				f.size += info.Size()
				if info.ModTime().After(f.used) {
					f.used = info.ModTime()
				}
			}
			return nil
		})
		total += f.size
		folders = append(folders, f)
	}
	slices.SortFunc(folders, func(a, b folder) int { return cmp.Compare(a.used.UnixNano(), b.used.UnixNano()) })
	for _, f := range folders {
		if total <= limit {
			return
		}
		if os.RemoveAll(f.path) == nil {
			total -= f.size
		}
	}
}
