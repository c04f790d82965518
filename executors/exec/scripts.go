package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

var typePattern = regexp.MustCompile(`^[a-z0-9_.-]{1,64}$`)

// ignoredEndings mark files that package managers and editors leave.
var ignoredEndings = []string{"~", ".tmp", ".swp", ".bak", ".dpkg-new", ".dpkg-old", ".dpkg-tmp", ".rpmnew", ".rpmsave"}

// A script serves one task type.
type script struct {
	typ  string
	path string
}

// scan lists the usable scripts of dir, by type, and says for every other file
// why it is not one.
func scan(dir string) (scripts []script, problems []string, err error) {
	if err := checkFolder(dir); err != nil {
		return nil, nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read the folder of scripts: %w", err)
	}
	byType := make(map[string][]string)
	for _, entry := range entries {
		name := entry.Name()
		if ignored(name) || entry.IsDir() {
			continue
		}
		path := filepath.Join(dir, name)
		typ := strings.TrimSuffix(name, filepath.Ext(name))
		if !typePattern.MatchString(typ) || typ == "processing" {
			problems = append(problems, fmt.Sprintf("%s: %q cannot be a task type, use 1-64 of [a-z0-9_.-]", path, typ))
			continue
		}
		if err := checkScript(path); err != nil {
			problems = append(problems, err.Error())
			continue
		}
		byType[typ] = append(byType[typ], path)
	}
	for typ, paths := range byType {
		if len(paths) > 1 {
			problems = append(problems, fmt.Sprintf("type %q is claimed by %s: keep one", typ, strings.Join(paths, " and ")))
			continue
		}
		scripts = append(scripts, script{typ, paths[0]})
	}
	slices.SortFunc(scripts, func(a, b script) int { return strings.Compare(a.typ, b.typ) })
	slices.Sort(problems)
	return scripts, problems, nil
}

func ignored(name string) bool {
	return strings.HasPrefix(name, ".") ||
		slices.ContainsFunc(ignoredEndings, func(end string) bool { return strings.HasSuffix(name, end) })
}

// checkFolder makes sure that only the owner of the machine or of this process
// decides what is in the folder: neither it nor a folder above may be changed
// by others.
func checkFolder(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("folder of scripts: %w", err)
	}
	for path := real; ; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("folder of scripts: %w", err)
		}
		if !info.IsDir() {
			return fmt.Errorf("folder of scripts: %s is not a folder", path)
		}
		// Others may add to a folder with the sticky bit, but not replace.
		if path == real || info.Mode()&fs.ModeSticky == 0 {
			if err := checkOwner(path, info); err != nil {
				return err
			}
		}
		if path == "/" {
			return nil
		}
	}
}

// checkScript accepts a regular executable file that others cannot change.
func checkScript(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	if err := checkOwner(path, info); err != nil {
		return err
	}
	if info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("%s is not executable (chmod +x %s)", path, path)
	}
	return nil
}

func checkOwner(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("cannot tell who owns " + path)
	}
	if stat.Uid != 0 && int(stat.Uid) != os.Getuid() {
		return fmt.Errorf("%s belongs to user %d, it must belong to root or to user %d (chown it)", path, stat.Uid, os.Getuid())
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s can be written by others, its mode is %#o (chmod go-w %s)", path, info.Mode().Perm(), path)
	}
	return nil
}
