package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/executors"
)

// store is a content-addressed directory: sha256/ab/<hex> is the content,
// <hex>.json beside it says what it is and how long it is kept. The sidecar is
// written first, so that content without one is never older than a crash.
type store struct {
	dir   string
	quota int64
	log   *zap.Logger

	mu   sync.Mutex // put, touch and sweep exclude each other; reads need no lock
	used int64      // bytes of content, as of the last sweep and the puts since
}

// sidecar is the JSON beside the content.
type sidecar struct {
	Name      string            `json:"name"`
	Kind      string            `json:"kind"`
	MediaType string            `json:"media_type"`
	Bytes     int64             `json:"bytes"`
	Meta      map[string]string `json:"meta,omitempty"`
	Created   time.Time         `json:"created_at"`
	Expires   time.Time         `json:"expires_at"`
	// Promised is until when a result may name the content: it stays, however
	// full the store is.
	Promised time.Time `json:"promised_until,omitzero"`
}

var hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

func openStore(dir string, quota int64, log *zap.Logger) (*store, error) {
	s := &store{dir: dir, quota: quota, log: log}
	if err := os.RemoveAll(s.tmpDir()); err != nil {
		return nil, fmt.Errorf("sweep artifact store: %w", err)
	}
	for _, d := range []string{s.tmpDir(), filepath.Join(dir, "sha256")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("make artifact store: %w", err)
		}
	}
	_, err := s.sweep(time.Now()) // takes stock
	return s, err
}

func (s *store) tmpDir() string { return filepath.Join(s.dir, "tmp") }

func (s *store) path(sum string) string {
	return filepath.Join(s.dir, "sha256", sum[:2], sum)
}

// put moves the file at path into the store, or only extends the life of the
// same content that is already there.
func (s *store) put(path, sum string, size int64, up Upload) (url string, expires time.Time, err error) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	meta := sidecar{
		Name: up.Name, Kind: up.Kind, MediaType: up.MediaType, Bytes: size, Meta: up.Meta,
		Created: now.UTC(), Expires: now.Add(up.TTL).UTC(), Promised: now.Add(up.ResultTTL).UTC(),
	}
	dst := s.path(sum)
	old, err := s.read(sum)
	if err == nil {
		meta.Expires = later(meta.Expires, old.Expires)
		meta.Promised = later(meta.Promised, old.Promised)
	}
	info, err := os.Lstat(dst)
	here := err == nil && info.Size() == size
	if !here {
		if err := s.makeRoom(size, now); err != nil {
			return "", time.Time{}, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(dst), 0o700); err != nil {
		return "", time.Time{}, err
	}
	if err := s.write(sum, meta); err != nil {
		return "", time.Time{}, err
	}
	if !here {
		if err := s.move(path, dst); err != nil {
			return "", time.Time{}, err
		}
		s.used += size
	}
	if err := syncDir(filepath.Dir(dst)); err != nil {
		return "", time.Time{}, err
	}
	return "/api/artifacts/" + sum, meta.Expires, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// makeRoom removes what no result can name any more until n more bytes fit. It
// fails with RESOURCE_EXHAUSTED where that is not enough: a task that fails is
// better than one whose result names a file that is gone. The caller holds mu.
func (s *store) makeRoom(n int64, now time.Time) error {
	if s.used+n <= s.quota {
		return nil
	}
	if _, err := s.tidy(now, s.quota-n); err != nil {
		return err
	}
	if s.used+n <= s.quota {
		return nil
	}
	e := executors.Errorf(executors.CodeResourceExhausted,
		"the artifact store of this agent holds %d of %d bytes that results may still name, and cannot take %d more", s.used, s.quota, n)
	e.Hint = "raise artifacts.store_mb, or keep results for less time (failover.result_ttl)"
	e.Delay = fullDelay
	return e
}

// move renames, or copies when the store is on another file system.
func (s *store) move(src, dst string) error {
	err := os.Rename(src, dst)
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	in, err := os.Open(filepath.Clean(src))
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	tmp, err := os.CreateTemp(s.tmpDir(), "content-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = io.Copy(tmp, in)
	if err = errors.Join(err, tmp.Chmod(0o400), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), dst)
}

func (s *store) read(sum string) (sidecar, error) {
	var meta sidecar
	raw, err := os.ReadFile(s.path(sum) + ".json")
	if err != nil {
		return meta, err
	}
	return meta, json.Unmarshal(raw, &meta)
}

func (s *store) write(sum string, meta sidecar) error {
	raw, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(s.tmpDir(), "meta-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(raw)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), s.path(sum)+".json")
}

// open returns the content and what is known about it. The error is
// fs.ErrNotExist when it is not there and errExpired when its time is over.
func (s *store) open(sum string) (*os.File, sidecar, error) {
	if !hexDigest.MatchString(sum) {
		return nil, sidecar{}, fs.ErrNotExist
	}
	f, err := os.Open(s.path(sum))
	if err != nil {
		return nil, sidecar{}, err
	}
	meta, err := s.read(sum)
	if err != nil {
		meta = sidecar{Name: sum, MediaType: "application/octet-stream"}
	}
	if !meta.Expires.IsZero() && time.Now().After(meta.Expires) {
		_ = f.Close()
		return nil, meta, errExpired
	}
	return f, meta, nil
}

var errExpired = errors.New("the artifact has expired")

// touch notes that the content was read, for the sweeper.
func (s *store) touch(sum string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	_ = os.Chtimes(s.path(sum)+".json", now, now) // swept meanwhile: nothing to note
}

func syncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
