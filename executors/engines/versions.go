package engines

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Versions returns the installed versions of an engine, highest first. A folder
// whose name does not start with a digit is not one: installations in progress
// begin with a dot.
func (l Layout) Versions(engine string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(l.EnginesDir, engine))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for versions of %s: %w", engine, err)
	}
	var versions []string
	for _, e := range entries {
		if name := e.Name(); name[0] >= '0' && name[0] <= '9' && isDir(filepath.Join(l.EnginesDir, engine, name)) {
			versions = append(versions, name)
		}
	}
	slices.SortFunc(versions, func(a, b string) int { return CompareVersions(b, a) })
	return versions, nil
}

// CompareVersions orders versions by their numbers: 2026.4.1 is below 2026.10.
// Parts that are no numbers are compared as texts, and come below numbers.
func CompareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, errX := strconv.ParseUint(as[i], 10, 64)
		y, errY := strconv.ParseUint(bs[i], 10, 64)
		var c int
		switch {
		case errX == nil && errY == nil:
			c = cmp.Compare(x, y)
		case errX == nil:
			c = 1
		case errY == nil:
			c = -1
		default:
			c = strings.Compare(as[i], bs[i])
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(as), len(bs))
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
