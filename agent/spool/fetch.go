package spool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/internal/backoff"
)

// inputsDir is the folder in an attempt's directory for what the task refers to.
const inputsDir = ".inputs"

// A Fetcher is an Uploader that also brings content back.
type Fetcher interface {
	// Fetch writes the content with this sha256 to w, at most limit bytes. It
	// tries again until ctx is done, unless the content is not there (NOT_FOUND)
	// or too large (TOO_LARGE).
	Fetch(ctx context.Context, sha256 string, limit int64, w *os.File) error
}

// Fetch brings the content with this sha256 into dir, the directory of an
// attempt, and returns its path: from the agent's own store, else from the
// control plane. The checksum is compared. It is removed with dir.
func (s *Spool) Fetch(ctx context.Context, dir, sum string) (string, error) {
	if !hexDigest.MatchString(sum) {
		return "", executors.Invalid("artifact", "is not a sha256 in hexadecimal")
	}
	folder := filepath.Join(dir, inputsDir)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", diskError(err, "make the folder for input")
	}
	path := filepath.Join(folder, sum)
	if err := s.copyOwn(sum, path); err == nil {
		return path, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", diskError(err, "copy an artifact")
	}
	fetcher, ok := s.uploader().(Fetcher)
	if !ok {
		return "", unreachableHere(sum)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", diskError(err, "write an artifact")
	}
	err = fetcher.Fetch(ctx, sum, s.cfg.Quotas.artifact("download"), f)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path) // goes with the directory anyway
		return "", err
	}
	return path, nil
}

// copyOwn takes the content out of the agent's own store.
func (s *Spool) copyOwn(sum, path string) error {
	own := s.store.path(sum)
	if err := os.Link(own, path); err == nil || errors.Is(err, os.ErrNotExist) {
		return err
	}
	in, err := os.Open(own)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func notThere(sum, where string) error {
	e := executors.Errorf(executors.CodeNotFound, "artifact sha256:%.12s… is not in %s", sum, where)
	e.Hint = "it has expired or was never uploaded: upload it again (PUT /api/artifacts/{sha256}, or tasks submit --attach) and submit a new task"
	return e
}

// unreachableHere is the answer of an agent that knows no control plane:
// uploading the input again would not bring it here.
func unreachableHere(sum string) error {
	e := executors.Errorf(executors.CodeNotFound, "artifact sha256:%.12s… is not in this agent's store, and it cannot ask the control plane (it has no control.url)", sum)
	e.Hint = "set control.url, control.ca_file and control.key_file on the agents, then submit a new task"
	return e
}

// Fetch implements Fetcher with GET /api/artifacts/{sha256}.
func (u *HTTPUploader) Fetch(ctx context.Context, sum string, limit int64, w *os.File) error {
	select {
	case u.slots <- struct{}{}:
		defer func() { <-u.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	wait := backoff.New(u.cfg.RetryMin, u.cfg.RetryMax)
	for {
		err := u.fetchOnce(ctx, sum, limit, w)
		var known *executors.Error
		switch {
		case err == nil:
			return nil
		case errors.As(err, &known):
			return err
		case ctx.Err() != nil || !backoff.Sleep(ctx, wait.Next()):
			return u.noFetch(ctx, err)
		}
	}
}

// noFetch is what a task fails with when its time is over.
func (u *HTTPUploader) noFetch(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	e := executors.Errorf(executors.CodeResourceExhausted, "the control plane at %s did not give the task's input before its deadline: %v", u.base.Host, err)
	e.Hint = "check control.url, control.ca_file and control.key_file, and that the control plane runs"
	return e
}

func (u *HTTPUploader) fetchOnce(ctx context.Context, sum string, limit int64, w *os.File) error {
	key, err := readKey(u.cfg.KeyFile)
	if err != nil {
		return err
	}
	client, err := u.trust.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.target(sum).String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("X-Internal-API-Key", key)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusGone:
		return notThere(sum, "the control plane's store at "+u.base.Host)
	case resp.StatusCode != http.StatusOK:
		return &statusError{status: resp.StatusCode}
	}
	if err := rewind(w); err != nil {
		return diskError(err, "write an artifact")
	}
	body := watchStall(resp.Body, u.cfg.Stall, cancel)
	defer body.stop()
	return receive(body, sum, limit, w)
}

func rewind(w *os.File) error {
	if err := w.Truncate(0); err != nil {
		return err
	}
	_, err := w.Seek(0, io.SeekStart)
	return err
}

// receive writes content whose checksum must be sum.
func receive(r io.Reader, sum string, limit int64, w *os.File) error {
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, h), io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return fmt.Errorf("receive an artifact: %w", err)
	case n > limit:
		e := executors.Errorf(executors.CodeTooLarge, "artifact sha256:%.12s… is larger than the %d bytes that an input may have", sum, limit)
		e.Hint = "send less: a smaller picture, or the file in parts"
		return e
	case hex.EncodeToString(h.Sum(nil)) != sum:
		return fmt.Errorf("artifact sha256:%.12s… arrived damaged: its content has another checksum", sum)
	}
	return nil
}
