package general

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/autobot-fleet/autobot/executors"
)

const maxPaths = 1000

// A hashedFile is one file of the output of hash_files.
type hashedFile struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// hashFiles hashes files below the input roots.
func (e *Executor) hashFiles(ctx context.Context, task executors.Task) (any, error) {
	var p struct {
		Paths []string `json:"paths"`
	}
	if err := executors.DecodePayload(task, &p); err != nil {
		return nil, err
	}
	if len(p.Paths) == 0 || len(p.Paths) > maxPaths {
		return nil, executors.Invalid("paths", "must list 1 to %d files, got %d", maxPaths, len(p.Paths))
	}
	files := make([]hashedFile, 0, len(p.Paths))
	for i, path := range p.Paths {
		f, err := e.hashFile(ctx, fmt.Sprintf("paths[%d]", i), path)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
		task.Progress(executors.Progress{
			Percent: 100 * (i + 1) / len(p.Paths), Stage: "hash", Done: int64(i + 1), Total: int64(len(p.Paths)), Unit: "file",
		})
	}
	return map[string]any{"files": files}, nil
}

func (e *Executor) hashFile(ctx context.Context, field, path string) (hashedFile, error) {
	f, err := e.openInput(field, path)
	if err != nil {
		return hashedFile{}, err
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	n, err := io.Copy(hash, contextReader{ctx, f})
	if ctx.Err() != nil {
		return hashedFile{}, ctx.Err()
	}
	if err != nil {
		return hashedFile{}, fileError(path, err)
	}
	return hashedFile{Path: path, Bytes: n, SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}

// openInput opens a regular file below one of the input roots. Symlinks are
// followed inside the root and never out of it, checked while opening.
func (e *Executor) openInput(field, path string) (*os.File, error) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return nil, executors.Invalid(field, "must be an absolute path, got %q", path)
	}
	clean := filepath.Clean(path)
	for _, folder := range e.settings.InputRoots {
		rel, err := filepath.Rel(folder, clean)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		return openBelow(field, path, folder, rel)
	}
	denied := executors.Errorf(executors.CodePermissionDenied, "%s: %q is not below an input root", field, path)
	denied.Field = field
	denied.Hint = fmt.Sprintf("executors.general.input_roots is %q", e.settings.InputRoots)
	return nil, denied
}

func openBelow(field, path, folder, rel string) (*os.File, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fileError(path, err)
	}
	defer func() { _ = root.Close() }()
	// Without O_NONBLOCK a FIFO would block the open until somebody writes.
	f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if strings.Contains(err.Error(), "escapes") {
			denied := executors.Errorf(executors.CodePermissionDenied, "%s: %q leads out of the input root %s", field, path, folder)
			denied.Field = field
			return nil, denied
		}
		return nil, fileError(path, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = executors.Invalid(field, "%q is not a regular file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// A contextReader stops reading when its context is done.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
