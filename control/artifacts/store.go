package artifacts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Limits and defaults.
const (
	DefaultTTL      = 24 * time.Hour
	MinTTL          = time.Minute
	MaxTTL          = 7 * 24 * time.Hour
	DefaultMaxBytes = 100 << 20
	DefaultQuota    = 10 << 30
	DefaultFreeMin  = 1 << 30

	// DefaultResultTTL is how long the result that names a file can be read,
	// if the upload does not say. So long the file is kept whatever the quota
	// says (or until its expiry, if that is earlier).
	DefaultResultTTL = time.Hour
	// MaxResultTTL is the longest time that the queue keeps a result.
	MaxResultTTL = 3650 * 24 * time.Hour

	// touchEvery limits how often a read is noted on disk.
	touchEvery = time.Minute
)

// Config of a store. Zero fields take the defaults above; a negative FreeMin
// turns the check off.
type Config struct {
	Dir        string
	TTL        time.Duration // of uploads that ask for none; clamped to MinTTL..MaxTTL
	QuotaBytes int64         // of all files together
	MaxBytes   int64         // of one file
	FreeMin    int64         // bytes that stay free on the file system
	SweepEvery time.Duration // default one minute
}

// Meta describes a file; it is the content of the sidecar.
type Meta struct {
	SHA256    string    `json:"sha256"`
	Name      string    `json:"name"`
	Kind      string    `json:"kind,omitempty"`
	MediaType string    `json:"media_type"`
	Bytes     int64     `json:"bytes"`
	Created   time.Time `json:"created_at"`
	Expires   time.Time `json:"expires_at"`
	// Promised is until when nothing removes the file. Descriptions of older
	// versions have none: an hour after the upload.
	Promised time.Time `json:"promised_until,omitzero"`
}

// promised is until when a result may name the file.
func (m Meta) promised() time.Time {
	if m.Promised.IsZero() {
		return m.Created.Add(DefaultResultTTL)
	}
	return m.Promised
}

// Store is a folder of files. One process may use a folder at a time.
type Store struct {
	cfg     Config
	log     *zap.Logger
	now     func() time.Time
	free    func(dir string) (int64, error)
	metrics metrics

	mu       sync.Mutex
	files    map[string]*file // by hex digest
	used     int64            // bytes of files
	reserved int64            // bytes of uploads that are under way
}

type file struct {
	Meta
	lastUse time.Time // also the sidecar's modification time, to a minute
}

var hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// New opens the folder, makes it if needed, and takes stock: leftovers of
// interrupted uploads and files whose length is wrong are removed.
func New(cfg Config, log *zap.Logger, reg prometheus.Registerer) (*Store, error) {
	if cfg.Dir == "" {
		return nil, errors.New("open artifact store: no folder is set (artifacts.dir)")
	}
	if cfg.TTL == 0 {
		cfg.TTL = DefaultTTL
	}
	cfg.TTL = clampTTL(cfg.TTL)
	if cfg.QuotaBytes <= 0 {
		cfg.QuotaBytes = DefaultQuota
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	if cfg.FreeMin == 0 {
		cfg.FreeMin = DefaultFreeMin
	}
	if cfg.SweepEvery <= 0 {
		cfg.SweepEvery = time.Minute
	}
	if log == nil {
		log = zap.NewNop()
	}
	s := &Store{cfg: cfg, log: log.Named("artifacts"), now: time.Now, free: freeBytes, files: map[string]*file{}}
	for _, dir := range []string{s.root(), s.tmp()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("open artifact store: %w", err)
		}
	}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("open artifact store %s: %w", cfg.Dir, err)
	}
	s.metrics = newMetrics(s, reg)
	return s, nil
}

func clampTTL(d time.Duration) time.Duration { return min(max(d, MinTTL), MaxTTL) }

func (s *Store) root() string { return filepath.Join(s.cfg.Dir, "sha256") }
func (s *Store) tmp() string  { return filepath.Join(s.cfg.Dir, "tmp") }

// path is where the file of a valid digest lives.
func (s *Store) path(sha string) string { return filepath.Join(s.root(), sha[:2], sha) }

func sidecar(path string) string { return path + ".json" }

// lookup returns the description of a file that has not expired.
func (s *Store) lookup(sha string) (Meta, error) {
	if !hexDigest.MatchString(sha) {
		return Meta{}, refuse(400, "sha256: must be 64 lower-case hex digits")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[sha]
	if f == nil || !s.now().Before(f.Expires) {
		return Meta{}, refuse(404, "no artifact %s: it has expired or was never uploaded here", sha)
	}
	return f.Meta, nil
}

// open returns a file and its description and notes the use.
func (s *Store) open(sha string) (*os.File, Meta, error) {
	m, err := s.lookup(sha)
	if err != nil {
		return nil, Meta{}, err
	}
	f, err := os.Open(s.path(sha))
	if errors.Is(err, fs.ErrNotExist) {
		s.forget(sha) // somebody tidied up by hand
		return nil, Meta{}, refuse(404, "no artifact %s: it has been removed", sha)
	}
	if err != nil {
		return nil, Meta{}, fmt.Errorf("open artifact: %w", err)
	}
	s.touch(sha)
	return f, m, nil
}

// touch notes a use in memory and, at most once a minute, on disk.
func (s *Store) touch(sha string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, now := s.files[sha], s.now()
	if f == nil || now.Sub(f.lastUse) < touchEvery {
		return
	}
	f.lastUse = now
	_ = os.Chtimes(sidecar(s.path(sha)), now, now) // only the order of eviction after a restart depends on it
}

func (s *Store) forget(sha string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(sha)
}

// drop removes a file and its books. The caller holds mu. An open reader
// keeps what it reads.
func (s *Store) drop(sha string) {
	f := s.files[sha]
	if f == nil {
		return
	}
	delete(s.files, sha)
	s.used -= f.Bytes
	for _, p := range []string{s.path(sha), sidecar(s.path(sha))} {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("an artifact cannot be removed", zap.String("path", p), zap.Error(err))
		}
	}
}
