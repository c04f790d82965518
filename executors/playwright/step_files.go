package playwright

import (
	"io"
	"mime"
	"os"
	"path/filepath"
	"strings"

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

// uploadStep gives a file to a file field: an artifact, or one of the worker's.
type uploadStep struct {
	stepCommon
	target
	Artifact string `json:"artifact"`
	Path     string `json:"path"`
	Name     string `json:"name"` // that the page sees; default: of path, or upload
}

func (s *uploadStep) check(c *stepCheck) error {
	err := first(
		c.target(s.target, true),
		when((s.Path == "") == (s.Artifact == ""), c.at("artifact"), "give either artifact or path"),
		when(len(s.Name) > 200 || strings.ContainsAny(s.Name, "/\\\x00"), c.at("name"), "must be a file name of at most 200 bytes"),
	)
	if err != nil {
		return err
	}
	f, err := s.open(c.task, c.settings.InputRoots, c.path)
	if err != nil {
		return err
	}
	return f.Close()
}

// open opens the file; at is the JSON path of the step.
func (s *uploadStep) open(task executors.Task, roots executors.InputRoots, at string) (*os.File, error) {
	if s.Artifact == "" {
		return roots.Open(Name, at+".path", s.Path)
	}
	path, err := task.Input(at+".artifact", s.Artifact)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, executors.FileError(path, err)
	}
	return f, nil
}

func (s *uploadStep) run(r *run) (any, error) {
	f, err := s.open(r.task, r.ex.settings.InputRoots, r.where())
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	name := s.Name
	if name == "" && s.Path != "" {
		name = filepath.Base(s.Path)
	}
	name = orElse(name, "upload")
	data, err := io.ReadAll(io.LimitReader(f, maxUpload+1))
	if err != nil {
		return nil, executors.FileError(name, err)
	}
	if len(data) > maxUpload {
		return nil, executors.Errorf(executors.CodeTooLarge, "%s has more than %d bytes, the limit of an upload", name, maxUpload)
	}
	media := mime.TypeByExtension(filepath.Ext(name))
	return nil, r.locate(s.target).SetInputFiles(
		[]pw.InputFile{{Name: name, MimeType: orElse(media, "application/octet-stream"), Buffer: data}},
		pw.LocatorSetInputFilesOptions{Timeout: r.limit(s)})
}
