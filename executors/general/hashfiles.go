package general

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

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
	f, err := e.settings.InputRoots.Open(Name, field, path)
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
		return hashedFile{}, executors.FileError(path, err)
	}
	return hashedFile{Path: path, Bytes: n, SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
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
