package playwright

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	pw "github.com/mxschmitt/playwright-go"

	"github.com/autobot-fleet/autobot/executors"
)

const (
	maxDownloads = 10              // kept of one task
	linger       = 5 * time.Second // for downloads that are under way when the steps are done
)

// A downloadEntry tells a result about one file that a page sent.
type downloadEntry struct {
	URL      string `json:"url"`
	Name     string `json:"name"` // as the page suggests it, cleaned
	Artifact string `json:"artifact,omitempty"`
	Bytes    int64  `json:"bytes"`
	SHA256   string `json:"sha256,omitempty"`
	Error    string `json:"error,omitempty"`
}

// A file is a download under way.
type file struct {
	source pw.Download
	done   chan struct{}
	entry  downloadEntry
	err    error
}

// download begins to keep a file.
func (r *recorder) download(d pw.Download) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &file{source: d, done: make(chan struct{}), entry: downloadEntry{URL: cut(r.clean(d.URL()), maxURL), Name: safeName(d.SuggestedFilename())}}
	if len(r.files) >= maxDownloads {
		r.work.Go(func() { _ = d.Cancel() }) // ends with the context at the latest
		return
	}
	r.files = append(r.files, f)
	r.work.Go(func() {
		defer close(f.done)
		entry, err := r.keep(d)
		if err != nil {
			f.err = err
			f.entry.Error = cut(r.clean(err.Error()), maxMessage)
			return
		}
		entry.URL, entry.Name = f.entry.URL, f.entry.Name
		f.entry = entry
	})
}

// await returns what has become of a download. The news of it may still be on
// its way to the recorder.
func (r *recorder) await(ctx context.Context, d pw.Download) (any, error) {
	wanted := r.fileOf(d)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(fileNews); wanted == nil && time.Now().Before(deadline) && len(r.fileList()) < maxDownloads; wanted = r.fileOf(d) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if wanted == nil {
		return nil, executors.Errorf(executors.CodeTooLarge, "the task has %d downloads already, that is the limit", maxDownloads)
	}
	select {
	case <-wanted.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if wanted.err != nil {
		return nil, wanted.err
	}
	return wanted.entry, nil
}

// fileOf is the recorded download d, nil if it is none.
func (r *recorder) fileOf(d pw.Download) *file {
	for _, f := range r.fileList() {
		if f.source == d {
			return f
		}
	}
	return nil
}

// fileList is what has been downloaded so far.
func (r *recorder) fileList() []*file {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*file(nil), r.files...)
}

// settle waits a little for the downloads under way and lists all. The others
// are ended with the context.
func (r *recorder) settle(ctx context.Context) []downloadEntry {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	entries := []downloadEntry{}
	for _, f := range r.fileList() {
		select {
		case <-f.done:
			entries = append(entries, f.entry)
			continue
		case <-ctx.Done():
		case <-timer.C:
			timer.Reset(0)
		}
		select {
		case <-f.done:
			entries = append(entries, f.entry)
		default:
			e := f.entry
			e.Error = "it had not ended when the task did"
			r.work.Go(func() { _ = f.source.Cancel() }) // ends with the context at the latest
			entries = append(entries, e)
		}
	}
	return entries
}

// keepDownload moves a finished download into the task's spool folder.
func (r *run) keepDownload(d pw.Download) (downloadEntry, error) {
	var entry downloadEntry
	path, err := d.Path() // waits for its end
	if err != nil {
		if r.surface.lane.Exceeded() {
			return entry, executors.Errorf(executors.CodeTooLarge,
				"the download was ended: the task has received all it may (executors.playwright.max_page_bytes, with a step download max_download_bytes)")
		}
		return entry, executors.Errorf(executors.CodeNavigationFailed, "the download failed: %s", oneLine(err))
	}
	defer func() { _ = d.Delete() }() // goes with the context at the latest
	if filepath.Dir(path) != r.surface.browser.downloads {
		return entry, fmt.Errorf("the browser put a download at %s, outside of its folder", path)
	}
	source, err := r.openDownload(path)
	if err != nil {
		return entry, err
	}
	defer func() { _ = source.Close() }() // only read
	target, err := r.create(safeName(d.SuggestedFilename()))
	if err != nil {
		return entry, err
	}
	hash := sha256.New()
	limit := r.ex.settings.MaxDownloadBytes
	n, err := io.Copy(io.MultiWriter(target, hash), io.LimitReader(source, limit+1))
	err = errors.Join(err, target.Close())
	if err == nil && n > limit {
		err = executors.Errorf(executors.CodeTooLarge, "the download has more than %d bytes (executors.playwright.max_download_bytes)", limit)
	}
	if err != nil {
		return entry, errors.Join(err, os.Remove(target.Name()))
	}
	name := filepath.Base(target.Name())
	media := orElse(mime.TypeByExtension(filepath.Ext(name)), "application/octet-stream")
	r.announce(executors.Artifact{Name: name, Kind: "download", MediaType: media})
	return downloadEntry{Artifact: name, Bytes: n, SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}

// openDownload opens what the browser wrote. The browser may have been taken
// over by a page, so nothing but a plain file of its own is read.
func (r *run) openDownload(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open the download: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !info.Mode().IsRegular() || !ok || int(owner.Uid) != r.surface.browser.driver.user.uid || owner.Nlink != 1 {
			err = errors.New("what the browser calls a download is not a file of its own")
		}
	}
	if err != nil {
		_ = f.Close() // only opened
		return nil, err
	}
	return f, nil
}

// safeName turns the name that a page suggests into one for an artifact.
func safeName(suggested string) string {
	name := strings.Map(func(c rune) rune {
		if c < utf8.RuneSelf && (c == '.' || c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			return c
		}
		return '_'
	}, suggested)
	name = strings.TrimLeft(name, "._-")
	if len(name) > 80 {
		ext := filepath.Ext(name)
		if len(ext) > 16 {
			ext = ""
		}
		name = name[:80-len(ext)] + ext
	}
	if name == "" {
		return "download"
	}
	return name
}
