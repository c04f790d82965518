package spool

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/autobot-fleet/autobot/executors"
)

// DefaultTTL is how long an artifact is kept when the task does not say.
const DefaultTTL = 24 * time.Hour

const (
	// DefaultResultTTL is how long a result is kept when nobody says.
	DefaultResultTTL = time.Hour
	// MaxResultTTL is the longest time that the queue keeps a result.
	MaxResultTTL = 3650 * 24 * time.Hour

	// resultSlack is for the way from the end of an upload to the result.
	resultSlack = time.Minute
)

// Config says where artifacts go and how large they may be.
type Config struct {
	// Dir holds one directory per attempt while it runs. It belongs to the
	// spool alone: everything in it is removed by New.
	Dir string
	// StoreDir is the local content-addressed store. It is used when Upload
	// is nil.
	StoreDir string
	// Quotas limit sizes. Zero fields take their defaults.
	Quotas Quotas
	// FreeMin is how many bytes must stay free on the spool's file system
	// before a new task is taken. Default 1 GiB; negative turns it off.
	FreeMin int64
	// TTL is how long an artifact is kept when the task does not say.
	// Default 24h.
	TTL time.Duration
	// ResultTTL is how long a result is kept when its task does not say. No
	// artifact goes before the result that names it. Default 1h.
	ResultTTL time.Duration
	// Upload sends artifacts to the control plane; nil keeps them here.
	Upload Uploader
}

// Spool owns the spool directory and the local store. Its methods may be
// called from many goroutines.
type Spool struct {
	cfg   Config
	log   *zap.Logger
	store *store

	usage  usageCache
	counts bool // the file system counts subdirectories, see bare

	freeMin   atomic.Int64 // Config.FreeMin, which may change
	resultTTL atomic.Int64 // Config.ResultTTL, which may change
	free      func(dir string) (int64, error)

	uploadMu sync.RWMutex
	upload   Uploader
}

// New makes the directories (mode 0700) and sweeps what a former run left in
// the spool. No executor of a former run may still be writing there.
func New(cfg Config, log *zap.Logger) (*Spool, error) {
	if log == nil {
		log = zap.NewNop()
	}
	if cfg.Dir == "" || cfg.StoreDir == "" {
		return nil, errors.New("spool: both the spool and the store directory must be set (state_dir)")
	}
	var err error
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, fmt.Errorf("spool directory: %w", err)
	}
	if cfg.StoreDir, err = filepath.Abs(cfg.StoreDir); err != nil {
		return nil, fmt.Errorf("artifact store: %w", err)
	}
	if cfg.FreeMin == 0 {
		cfg.FreeMin = 1 << 30
	}
	if cfg.TTL <= 0 {
		cfg.TTL = DefaultTTL
	}
	if cfg.ResultTTL <= 0 {
		cfg.ResultTTL = DefaultResultTTL
	}
	cfg.Quotas = cfg.Quotas.withDefaults()
	s := &Spool{cfg: cfg, log: log.Named("spool"), free: freeBytes, upload: cfg.Upload}
	s.freeMin.Store(cfg.FreeMin)
	s.SetResultTTL(cfg.ResultTTL)
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make spool directory: %w", err)
	}
	if err := s.sweepLeftovers(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.holdDir(), 0o700); err != nil {
		return nil, fmt.Errorf("make spool directory: %w", err)
	}
	s.counts = countsFolders(cfg.Dir)
	if s.store, err = openStore(cfg.StoreDir, cfg.Quotas.Store, s.log); err != nil {
		return nil, err
	}
	return s, nil
}

// SetUploader changes where artifacts go from the next commit on; nil keeps
// them in the local store.
func (s *Spool) SetUploader(u Uploader) {
	s.uploadMu.Lock()
	s.upload = u
	s.uploadMu.Unlock()
}

// SetFreeMin changes Config.FreeMin; 0 or less turns the limit off.
func (s *Spool) SetFreeMin(bytes int64) { s.freeMin.Store(bytes) }

// SetResultTTL changes Config.ResultTTL from the next commit on.
func (s *Spool) SetResultTTL(d time.Duration) { s.resultTTL.Store(int64(d)) }

func (s *Spool) uploader() Uploader {
	s.uploadMu.RLock()
	defer s.uploadMu.RUnlock()
	return s.upload
}

// Locate returns the absolute path of an attempt's directory without making
// it, for an executor that makes it when it has a file to leave. Nothing is
// there. It fails with RESOURCE_EXHAUSTED when the disk or the spool is full.
func (s *Spool) Locate(taskID string, attempt int64) (string, error) {
	if err := s.Preflight(); err != nil {
		return "", err
	}
	dir := s.attemptDir(taskID, attempt)
	if s.bare() {
		return dir, nil
	}
	if err := removeTree(dir); err != nil {
		return "", diskError(err, "clear the spool directory of task "+taskID)
	}
	return dir, nil
}

// Prepare is Locate that makes the directory.
func (s *Spool) Prepare(taskID string, attempt int64) (string, error) {
	if err := s.Preflight(); err != nil {
		return "", err
	}
	dir := s.attemptDir(taskID, attempt)
	// Discard of another attempt may remove the task's directory between the
	// two steps.
	var err error
	for range 10 {
		if err = os.Mkdir(filepath.Dir(dir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			break
		}
		err = os.Mkdir(dir, 0o700)
		if errors.Is(err, fs.ErrExist) { // left by a former run
			if err = removeTree(dir); err != nil {
				return "", diskError(err, "clear the spool directory of task "+taskID)
			}
			err = os.Mkdir(dir, 0o700)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return "", diskError(err, "make the spool directory of task "+taskID)
	}
	return dir, nil
}

// Discard removes what an attempt left in the spool. Committed artifacts stay.
func (s *Spool) Discard(taskID string, attempt int64) {
	if s.bare() {
		return // it was never made
	}
	dir := s.attemptDir(taskID, attempt)
	if err := unix.Rmdir(dir); errors.Is(err, unix.ENOENT) {
		return
	}
	if err := removeTree(dir); err != nil {
		s.log.Warn("could not remove the spool directory of a task; the next start of the agent will",
			zap.String("task", taskID), zap.Int64("attempt", attempt), zap.Error(err))
		return
	}
	_ = unix.Rmdir(filepath.Dir(dir)) // fails, as it should, while other attempts are there
	s.usage.forget()
}

// Holding directory of files that are being committed: out of the reach of
// the executor that knows only its own directory.
func (s *Spool) holdDir() string { return filepath.Join(s.cfg.Dir, ".commit") }

func (s *Spool) attemptDir(taskID string, attempt int64) string {
	return filepath.Join(s.cfg.Dir, taskDir(taskID), strconv.FormatInt(attempt, 10))
}

// taskDir is the directory name of a task: its id where that is a harmless
// file name, else a digest of it (foreign producers may use any bytes).
func taskDir(id string) string {
	if safeID(id) && !strings.HasPrefix(id, "sha256-") {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256-" + hex.EncodeToString(sum[:])
}

// safeID reports whether id is 1-200 of [A-Za-z0-9._-] that begin with no dot.
func safeID(id string) bool {
	if id == "" || len(id) > 200 || id[0] == '.' {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// sweepLeftovers empties the spool: whatever is there belongs to attempts of
// a former run, which are never continued.
func (s *Spool) sweepLeftovers() error {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return fmt.Errorf("read spool directory: %w", err)
	}
	tasks := 0
	for _, e := range entries {
		path := filepath.Join(s.cfg.Dir, e.Name())
		if err := removeTree(path); err != nil {
			return fmt.Errorf("sweep spool directory: %w", err)
		}
		if path != s.holdDir() { // which is always there
			tasks++
		}
	}
	if tasks > 0 {
		s.log.Info("swept what a former run left in the spool", zap.Int("tasks", tasks))
	}
	return nil
}

// removeTree is os.RemoveAll that also gets rid of directories which an
// executor has made read-only.
func removeTree(dir string) error {
	if err := unix.Rmdir(dir); err == nil || errors.Is(err, unix.ENOENT) {
		return nil // empty, as most are
	}
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // a directory needs x to be emptied
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// diskError tells a full disk, which passes, from any other fault.
func diskError(err error, what string) error {
	var known *executors.Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		e := executors.Errorf(executors.CodeResourceExhausted, "%s: %v", what, err)
		e.Hint = "free space on the file system of the spool"
		e.Delay = fullDelay
		return e
	}
	e := executors.Errorf(executors.CodeEngineError, "%s: %v", what, err)
	return e
}
