package executors

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// InputRoots are the folders below which an executor may read files that a
// payload names; a setting of the administrator. Absolute paths.
type InputRoots []string

// Validate says which root is not usable.
func (r InputRoots) Validate() error {
	var problems []error
	for i, root := range r {
		if !filepath.IsAbs(root) {
			problems = append(problems, fmt.Errorf("input_roots[%d]: %q must be an absolute path", i, root))
		}
	}
	return errors.Join(problems...)
}

// Open opens a regular file below one of the roots for reading. Symbolic links
// are followed inside of the root and never out of it, checked while opening.
// field is where the payload names the path, executor whose setting decides.
func (r InputRoots) Open(executor, field, path string) (*os.File, error) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return nil, Invalid(field, "must be an absolute path, got %q", cutRunes(path, 200))
	}
	clean := filepath.Clean(path)
	for _, folder := range r {
		rel, err := filepath.Rel(folder, clean)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		return openBelow(field, path, folder, rel)
	}
	denied := Errorf(CodePermissionDenied, "%s: %q is not below an input root", field, path)
	denied.Field = field
	denied.Hint = fmt.Sprintf("executors.%s.input_roots is %q", executor, []string(r))
	return nil, denied
}

func openBelow(field, path, folder, rel string) (*os.File, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, FileError(path, err)
	}
	defer func() { _ = root.Close() }()
	// Without O_NONBLOCK a FIFO would block the open until somebody writes.
	f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if strings.Contains(err.Error(), "escapes") {
			denied := Errorf(CodePermissionDenied, "%s: %q leads out of the input root %s", field, path, folder)
			denied.Field = field
			return nil, denied
		}
		return nil, FileError(path, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = Invalid(field, "%q is not a regular file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// FileError gives a failure to open or read path its code.
func FileError(path string, err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return Errorf(CodeNotFound, "file %q does not exist", path)
	case errors.Is(err, os.ErrPermission):
		return Errorf(CodePermissionDenied, "file %q may not be read by this worker: %v", path, err)
	}
	return Errorf(CodeEngineError, "read %q: %v", path, err)
}
