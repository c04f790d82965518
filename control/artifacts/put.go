package artifacts

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Upload is one file on its way in.
type Upload struct {
	SHA256    string
	Bytes     int64 // must be the length of Body
	Body      io.Reader
	Name      string // "" for one made from the digest
	Kind      string // "" or one of the kinds of artifacts
	MediaType string
	TTL       time.Duration // 0: the store's; clamped to MinTTL..MaxTTL
	// ResultTTL is how long the result that names the file can be read. 0 is
	// DefaultResultTTL, without effect on the expiry; more is the least for
	// TTL, beyond MaxTTL too. Clamped to MaxResultTTL.
	ResultTTL time.Duration
}

// Store keeps a file. It returns its description and whether it is new; a
// file that is there already only has its expiry moved forward. An *Error
// says that the upload is refused, and why.
func (s *Store) Store(u Upload) (Meta, bool, error) {
	if err := s.check(&u); err != nil {
		return Meta{}, false, err
	}
	if have, err := s.lookup(u.SHA256); err == nil {
		return s.again(u, have)
	}
	release, err := s.reserve(u.Bytes)
	if err != nil {
		return Meta{}, false, err
	}
	defer release()
	temp, err := s.receive(u)
	if err != nil {
		return Meta{}, false, err
	}
	m, err := s.commit(u, temp)
	if err != nil {
		_ = os.Remove(temp) // when this fails too, the next start removes it
		return Meta{}, false, fmt.Errorf("store artifact: %w", err)
	}
	return m, true, nil
}

func (s *Store) check(u *Upload) error {
	if !hexDigest.MatchString(u.SHA256) {
		return refuse(http.StatusBadRequest, "sha256: must be 64 lower-case hex digits")
	}
	if u.Bytes < 0 {
		return refuse(http.StatusLengthRequired, "the length of the file is needed (Content-Length)")
	}
	if u.Bytes > s.cfg.MaxBytes {
		return refuse(http.StatusRequestEntityTooLarge, "TOO_LARGE: the file has %d bytes, the limit is %d", u.Bytes, s.cfg.MaxBytes)
	}
	if u.Kind != "" && !slices.Contains(kinds, u.Kind) {
		return refuse(http.StatusBadRequest, "kind: must be one of %s", strings.Join(kinds, ", "))
	}
	u.MediaType = cleanMediaType(u.MediaType)
	if u.Name == "" {
		u.Name = defaultName(u.SHA256, u.MediaType)
	} else if err := checkName(u.Name); err != nil {
		return err
	}
	if u.TTL == 0 {
		u.TTL = s.cfg.TTL
	}
	u.TTL = max(clampTTL(u.TTL), min(u.ResultTTL, MaxResultTTL))
	if u.ResultTTL <= 0 {
		u.ResultTTL = DefaultResultTTL
	}
	u.ResultTTL = min(u.ResultTTL, u.TTL)
	return nil
}

// again answers an upload of a file that is there: the claim is checked all
// the same, and neither expiry nor promise moves back.
func (s *Store) again(u Upload, m Meta) (Meta, bool, error) {
	if err := copyVerified(io.Discard, u); err != nil {
		return Meta{}, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[u.SHA256]
	if f == nil { // expired or evicted while the body came in: the caller sends it once more
		return Meta{}, false, refuse(http.StatusServiceUnavailable, "the artifact was removed during the upload: send it again")
	}
	now := s.now().UTC()
	m = f.Meta
	m.Expires, m.Promised = later(m.Expires, now.Add(u.TTL)), later(m.promised(), now.Add(u.ResultTTL))
	if m != f.Meta {
		if err := s.writeMeta(m); err != nil {
			return Meta{}, false, fmt.Errorf("extend artifact: %w", err)
		}
		f.Meta = m
	}
	f.lastUse = now
	return f.Meta, false, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// receive writes the body to a temporary file and returns its path once
// length and digest are right and the bytes are on disk.
func (s *Store) receive(u Upload) (path string, err error) {
	f, err := os.CreateTemp(s.tmp(), "upload-*")
	if err != nil {
		return "", fmt.Errorf("store artifact: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the error that matters is err; leftovers go at the next start
		}
	}()
	if err := copyVerified(f, u); err != nil {
		_ = f.Close() // nothing of it is kept
		return "", err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("store artifact: %w", err)
	}
	return f.Name(), nil
}

// copyVerified copies the body and checks it against its claim.
func copyVerified(dst io.Writer, u Upload) error {
	sum := sha256.New()
	body := &bodyReader{r: io.LimitReader(u.Body, u.Bytes+1)}
	n, err := io.Copy(io.MultiWriter(dst, sum), body)
	switch {
	case body.err != nil:
		return refuse(http.StatusBadRequest, "the upload broke off after %d of %d bytes: %v", n, u.Bytes, body.err)
	case err != nil:
		return fmt.Errorf("store artifact: %w", err)
	case n != u.Bytes:
		return refuse(http.StatusBadRequest, "the body has %s bytes, %d were announced", atLeast(n, u.Bytes), u.Bytes)
	}
	if got := digest(sum); got != u.SHA256 {
		return refuse(http.StatusBadRequest, "the SHA-256 of the body is %s, not the one in the path", got)
	}
	return nil
}

// bodyReader remembers read errors, which are the sender's and not ours.
type bodyReader struct {
	r   io.Reader
	err error
}

func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		b.err = err
	}
	return n, err
}

func atLeast(n, want int64) string {
	if n > want {
		return fmt.Sprintf("more than %d", want)
	}
	return fmt.Sprint(n)
}

func digest(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// commit moves a received file into place: description first, so that a file
// without one is never ours, then the file, then both names to disk.
func (s *Store) commit(u Upload, temp string) (Meta, error) {
	now := s.now().UTC()
	m := Meta{SHA256: u.SHA256, Name: u.Name, Kind: u.Kind, MediaType: u.MediaType, Bytes: u.Bytes, Created: now,
		Expires: now.Add(u.TTL), Promised: now.Add(u.ResultTTL)}
	dir := filepath.Dir(s.path(u.SHA256))
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[u.SHA256]; f != nil { // the same file came in twice at the same time
		m.Expires, m.Promised = later(m.Expires, f.Expires), later(m.Promised, f.promised())
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Meta{}, err
	}
	if err := s.writeMeta(m); err != nil {
		return Meta{}, err
	}
	if err := os.Rename(temp, s.path(u.SHA256)); err != nil {
		return Meta{}, err
	}
	if err := syncDir(dir); err != nil {
		return Meta{}, err
	}
	if s.files[u.SHA256] == nil {
		s.used += u.Bytes
	}
	s.files[u.SHA256] = &file{Meta: m, lastUse: now}
	return m, nil
}
