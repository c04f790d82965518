package playwright

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	pw "github.com/mxschmitt/playwright-go"

	"github.com/autobot-fleet/autobot/executors"
)

const maxUpload = 32 * mib

// downloadStep keeps the file that a click, or an address, leads to.
type downloadStep struct {
	stepCommon
	target
	URL string `json:"url"`
}

func (s *downloadStep) check(c *stepCheck) error {
	if (s.Selector == "") == (s.URL == "") {
		return executors.Invalid(c.at("selector"), "give either selector or url")
	}
	if s.URL != "" {
		return c.url(c.at("url"), s.URL)
	}
	return c.target(s.target, true)
}

func (s *downloadStep) run(r *run) (any, error) {
	limit := r.limit(s)
	d, err := r.page().ExpectDownload(func() error {
		if s.Selector != "" {
			return r.locate(s.target).Click(pw.LocatorClickOptions{Timeout: limit})
		}
		_, err := r.page().Goto(s.URL, pw.PageGotoOptions{Timeout: limit})
		if isDownload(err) {
			return nil
		}
		if err != nil {
			return r.navigationError(s.URL, err)
		}
		return executors.Errorf(executors.CodeNavigationFailed, "%s is a page, not a file to download", r.secrets.message(s.URL))
	}, pw.PageExpectDownloadOptions{Timeout: limit})
	if err != nil {
		return nil, err
	}
	r.stage("upload")
	return r.rec.await(r.ctx, d)
}

// uploadStep gives a file to a file field.
type uploadStep struct {
	stepCommon
	target
	Path     string `json:"path"`
	Artifact string `json:"artifact"`
}

func (s *uploadStep) check(c *stepCheck) error {
	if s.Artifact != "" {
		e := executors.Errorf(executors.CodeUnsupported, "%s: an executor cannot fetch artifacts; put the file below an input root of the worker and name its path", c.at("artifact"))
		e.Field = c.at("artifact")
		e.Hint = fmt.Sprintf("executors.playwright.input_roots is %q", c.settings.InputRoots)
		return e
	}
	if err := first(c.target(s.target, true), when(s.Path == "", c.at("path"), "is required")); err != nil {
		return err
	}
	f, err := openInput(c.settings.InputRoots, c.at("path"), s.Path)
	if err != nil {
		return err
	}
	return f.Close()
}

func (s *uploadStep) run(r *run) (any, error) {
	f, err := openInput(r.ex.settings.InputRoots, r.where()+".path", s.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxUpload+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.Path, err)
	}
	if len(data) > maxUpload {
		return nil, executors.Errorf(executors.CodeTooLarge, "%s has more than %d bytes, the limit of an upload", s.Path, maxUpload)
	}
	name := filepath.Base(s.Path)
	media := mime.TypeByExtension(filepath.Ext(name))
	return nil, r.locate(s.target).SetInputFiles(
		[]pw.InputFile{{Name: name, MimeType: orElse(media, "application/octet-stream"), Buffer: data}},
		pw.LocatorSetInputFilesOptions{Timeout: r.limit(s)})
}

// openInput opens a regular file below one of the roots. Symbolic links are
// followed inside a root and never out of it.
func openInput(roots []string, field, path string) (*os.File, error) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return nil, executors.Invalid(field, "must be an absolute path, got %.200q", path)
	}
	clean := filepath.Clean(path)
	for _, folder := range roots {
		rel, err := filepath.Rel(folder, clean)
		if err == nil && filepath.IsLocal(rel) {
			return openBelow(field, path, folder, rel)
		}
	}
	e := executors.Errorf(executors.CodePermissionDenied, "%s: %.200q is not below an input root", field, path)
	e.Field = field
	e.Hint = fmt.Sprintf("executors.playwright.input_roots is %q", roots)
	return nil, e
}

func openBelow(field, path, folder, rel string) (*os.File, error) {
	failed := func(code executors.Code, err error) error {
		e := executors.Errorf(code, "%s: %v", field, err)
		e.Field = field
		return e
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, failed(executors.CodeNotFound, err)
	}
	defer func() { _ = root.Close() }() // only read
	// Without O_NONBLOCK a FIFO would block until somebody writes to it.
	f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, failed(executors.CodeNotFound, err)
	case err != nil:
		return nil, failed(executors.CodePermissionDenied, err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close() // only opened
		return nil, executors.Invalid(field, "%.200q is not a regular file", path)
	}
	return f, nil
}
