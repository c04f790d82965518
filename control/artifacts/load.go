package artifacts

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/zap"
)

// load takes stock of the folder.
func (s *Store) load() error {
	if err := s.clearTemporary(); err != nil {
		return err
	}
	shards, err := os.ReadDir(s.root())
	if err != nil {
		return err
	}
	for _, shard := range shards {
		if !shard.IsDir() {
			continue
		}
		dir := filepath.Join(s.root(), shard.Name())
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := s.loadEntry(dir, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// clearTemporary removes uploads that a former run did not finish.
func (s *Store) clearTemporary() error {
	left, err := os.ReadDir(s.tmp())
	if err != nil {
		return err
	}
	for _, e := range left {
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.tmp(), e.Name())))
	}
	return err
}

// loadEntry registers one file. A sidecar without its file and a file of the
// wrong length are what a crash or a full disk leave: they go.
func (s *Store) loadEntry(dir string, e os.DirEntry) error {
	path := filepath.Join(dir, e.Name())
	if sha, ok := strings.CutSuffix(e.Name(), ".json"); ok {
		if _, err := os.Lstat(filepath.Join(dir, sha)); hexDigest.MatchString(sha) && errors.Is(err, os.ErrNotExist) {
			return os.RemoveAll(path) // may have gone with its file just now
		}
		return nil
	}
	if !hexDigest.MatchString(e.Name()) || !e.Type().IsRegular() || path != s.path(e.Name()) {
		s.log.Warn("a file in the artifact store is none of ours and is left alone", zap.String("path", path))
		return nil
	}
	info, err := e.Info()
	if err != nil {
		return err
	}
	f := &file{Meta: readMeta(sidecar(path)), lastUse: info.ModTime()}
	if f.SHA256 != e.Name() { // the sidecar is missing or broken: the file is still what its name says
		f.Meta = Meta{SHA256: e.Name(), Bytes: info.Size(), Created: info.ModTime(), Expires: info.ModTime().Add(s.cfg.TTL)}
		f.Name, f.MediaType = defaultName(e.Name(), ""), defaultMediaType
	}
	if f.Bytes != info.Size() {
		s.log.Warn("an artifact has the wrong length and is removed", zap.String("path", path),
			zap.Int64("bytes", info.Size()), zap.Int64("want", f.Bytes))
		return errors.Join(os.Remove(path), os.RemoveAll(sidecar(path)))
	}
	if used, err := os.Stat(sidecar(path)); err == nil {
		f.lastUse = used.ModTime()
	}
	s.files[f.SHA256] = f
	s.used += f.Bytes
	return nil
}

func readMeta(path string) Meta {
	var m Meta
	raw, err := os.ReadFile(filepath.Clean(path))
	if err != nil || json.Unmarshal(raw, &m) != nil {
		return Meta{}
	}
	return m
}

// writeMeta replaces the sidecar of a file in one step.
func (s *Store) writeMeta(m Meta) (err error) {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.tmp(), "meta-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, err := f.Write(raw); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), sidecar(s.path(m.SHA256))); err != nil {
		return fmt.Errorf("write description: %w", err)
	}
	return nil
}

// syncDir makes renames in a folder survive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
