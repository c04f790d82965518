package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/internal/apiwire"
)

// How long the input of a task is kept: the longest that a control plane
// promises, as nobody knows how long the task will wait. A file that is there
// is sent again when less than InputRenew of it is left.
const (
	InputLifetime = 7 * 24 * time.Hour
	InputRenew    = 6 * 24 * time.Hour
)

// PutArtifact brings a file to the control plane, so that the payload of a task
// can refer to it as {"artifact": "sha256:…"}, and returns its sha256 (64 hex
// digits). Nothing removes it for at least InputRenew. A file that is there
// already is not sent again. The file is read twice and never held in memory;
// it must not change meanwhile. A file above the control plane's limit is a
// *queue.InvalidError. Only with Dial.
func (c *Client) PutArtifact(ctx context.Context, path string) (sha256 string, err error) {
	f, err := openRegular(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read from
	sum, size, err := digestOf(ctx, f)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return sum, away(c.link.putArtifact(ctx, upload{file: f, path: path, sum: sum, size: size}))
}

// openRegular opens a file for reading; a pipe would block, and a folder has no
// content.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	return os.Open(filepath.Clean(path))
}

// digestOf reads the file once.
func digestOf(ctx context.Context, f *os.File) (sum string, size int64, err error) {
	h := sha256.New()
	size, err = io.Copy(h, contextReader{ctx, f})
	return hex.EncodeToString(h.Sum(nil)), size, err
}

// contextReader ends with the context, for files that take long to read.
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

// upload is a file on its way to the control plane.
type upload struct {
	file      *os.File
	path, sum string
	size      int64
}

// name is the file's own where an artifact may be called so, else "" for one
// that the control plane makes.
func (u upload) name() string {
	if base := filepath.Base(u.path); goodName.MatchString(base) {
		return base
	}
	return ""
}

// putArtifact implements link.
func (r *remote) putArtifact(ctx context.Context, u upload) error {
	path := "/api/artifacts/" + u.sum
	kept, err := r.promised(ctx, path)
	if err != nil || time.Until(kept) >= InputRenew {
		return err
	}
	if _, err := u.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read %s: %w", u.path, err)
	}
	seconds := strconv.Itoa(int(InputLifetime / time.Second))
	q := url.Values{}
	q.Set(apiwire.ParamArtifactTTL, seconds)
	q.Set(apiwire.ParamArtifactResultTTL, seconds)
	if name := u.name(); name != "" {
		q.Set(apiwire.ParamArtifactName, name)
	}
	h, err := r.request(ctx, http.MethodPut, path, q, io.NopCloser(u.file))
	if err != nil {
		return err
	}
	h.ContentLength = u.size
	if u.size == 0 {
		h.Body = http.NoBody // a length of 0 with a body means unknown
	}
	h.Header.Set("Content-Type", mediaType(u.path))
	h.Header.Set("Expect", "100-continue") // a refusal arrives before the file is sent
	resp, err := r.exchange(request{method: http.MethodPut, path: path}, h)
	if err != nil {
		return fmt.Errorf("upload %s: %w", u.path, err)
	}
	return resp.Body.Close()
}

// promised returns until when the control plane keeps an artifact for sure; the
// zero time when it does not have it.
func (r *remote) promised(ctx context.Context, path string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	h, err := r.request(ctx, http.MethodHead, path, nil, http.NoBody)
	if err != nil {
		return time.Time{}, err
	}
	resp, err := r.http.Do(h)
	if err != nil {
		return time.Time{}, r.unreachable(ctx, err)
	}
	_ = resp.Body.Close() // an answer to HEAD has none
	if resp.StatusCode != http.StatusOK {
		return time.Time{}, nil // the upload hears the reason, with a body that tells it
	}
	until, err := http.ParseTime(resp.Header.Get(apiwire.HeaderPromised))
	if err != nil {
		return time.Time{}, nil // it is not known to be kept: send it
	}
	return until, nil
}

// mediaType goes by the name of the file; executors look at the content.
func mediaType(path string) string {
	if t := mime.TypeByExtension(strings.ToLower(filepath.Ext(path))); t != "" {
		return t
	}
	return "application/octet-stream"
}
