package spool

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/executors"
)

// MaxInline is the largest artifact that a record may carry itself.
const MaxInline = 64 << 10

// Record is an artifact as a task's result shows it.
type Record struct {
	Name         string            `json:"name"`
	Kind         string            `json:"kind"`
	MediaType    string            `json:"media_type"`
	Bytes        int64             `json:"bytes"`
	SHA256       string            `json:"sha256"`
	Meta         map[string]string `json:"meta,omitempty"`
	URL          string            `json:"url"`
	ExpiresAt    time.Time         `json:"expires_at"`
	InlineBase64 string            `json:"inline_base64,omitempty"`
}

// CommitOptions are what the task asked for.
type CommitOptions struct {
	// TTL is how long the artifacts are kept, 1 minute to 7 days. 0 takes
	// Config.TTL.
	TTL time.Duration
	// AtLeast is how long the task's result is kept, if the task says: its
	// artifacts do not go before it, whatever TTL says. Less than a second,
	// or more than MaxResultTTL, takes the setting for all tasks, as the
	// queue does.
	AtLeast time.Duration
	// InlineMax is the largest artifact, in bytes, that its record carries
	// as base64 too. At most MaxInline; 0 inlines nothing.
	InlineMax int64
}

// Upload describes an artifact on its way to where it is kept.
type Upload struct {
	Name      string
	Kind      string
	MediaType string
	TTL       time.Duration
	// ResultTTL is the part of TTL for which a result may name the file: it
	// is not removed before, however full the store is.
	ResultTTL time.Duration
	Meta      map[string]string
}

// An Uploader brings one file to the control plane. It tries again until ctx
// is done, returns only after the other side has acknowledged the content, and
// may be called for content that is already there.
type Uploader interface {
	Upload(ctx context.Context, path, sha256 string, size int64, meta Upload) (url string, expires time.Time, err error)
}

// Commit checks the announced files of an attempt, then syncs, hashes and
// keeps each one, and returns their records in the order of announcement. Only
// after it has returned nil may the task be reported as completed.
//
// ctx carries the task's deadline: when it passes during an upload the error is
// ARTIFACT_UPLOAD_FAILED. What no correct executor does (a name with a
// directory, a symbolic link, a missing file) is a final ENGINE_ERROR, a file
// over its quota TOO_LARGE, a full disk RESOURCE_EXHAUSTED.
func (s *Spool) Commit(ctx context.Context, taskID string, attempt int64, announced []executors.Artifact, opt CommitOptions) ([]Record, error) {
	if len(announced) == 0 {
		return nil, nil
	}
	opt = s.clamp(ctx, opt)
	dir, err := s.openAttempt(taskID, attempt)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notLeft(announced[0].Name)
	}
	if err != nil {
		return nil, diskError(err, "open the spool directory of task "+taskID)
	}
	defer func() { _ = dir.Close() }()
	files, err := s.admit(dir, announced)
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	records := make([]Record, 0, len(files))
	for i, f := range files {
		record, err := s.keep(ctx, dir, f, announced[i], opt)
		if err != nil {
			return nil, err
		}
		records = append(records, record)
	}
	s.usage.forget()
	return records, nil
}

// clamp fills in the settings and applies the limits. The result is written
// after its artifacts, at the task's deadline at the latest, and its time
// counts from then.
func (s *Spool) clamp(ctx context.Context, opt CommitOptions) CommitOptions {
	if opt.TTL == 0 {
		opt.TTL = s.cfg.TTL
	}
	if opt.AtLeast < time.Second || opt.AtLeast > MaxResultTTL {
		opt.AtLeast = time.Duration(s.resultTTL.Load())
	}
	opt.AtLeast += resultSlack
	if deadline, ok := ctx.Deadline(); ok {
		opt.AtLeast += max(time.Until(deadline), 0)
	}
	opt.TTL = max(min(max(opt.TTL, time.Minute), 7*24*time.Hour), opt.AtLeast)
	opt.InlineMax = min(max(opt.InlineMax, 0), MaxInline)
	return opt
}

// admit opens all announced files and checks them against the rules and the
// quotas, before any of them is sent anywhere.
func (s *Spool) admit(dir *os.File, announced []executors.Artifact) (files []*os.File, err error) {
	seen := make(map[string]bool, len(announced))
	var total int64
	for _, a := range announced {
		if err := checkAnnounced(a); err != nil {
			return files, err
		}
		if seen[a.Name] {
			return files, refused("artifact %s was announced twice", a.Name)
		}
		seen[a.Name] = true
		f, info, err := openArtifact(dir, a.Name)
		if err != nil {
			return files, err
		}
		files = append(files, f)
		if limit := s.cfg.Quotas.artifact(a.Kind); info.Size() > limit {
			return files, tooLarge("artifact "+a.Name, info.Size(), limit, "ask for less at once")
		}
		if total += info.Size(); total > s.cfg.Quotas.Task {
			return files, tooLarge("all artifacts of the task together", total, s.cfg.Quotas.Task, "raise artifacts.task_mb")
		}
	}
	return files, nil
}

func tooLarge(what string, n, limit int64, hint string) *executors.Error {
	e := executors.Errorf(executors.CodeTooLarge, "%s: %d bytes, the limit is %d", what, n, limit)
	e.Hint = hint
	return e
}

// keep brings one admitted file to where it stays.
func (s *Spool) keep(ctx context.Context, dir, f *os.File, a executors.Artifact, opt CommitOptions) (Record, error) {
	info, err := f.Stat()
	if err != nil {
		return Record{}, diskError(err, "look at artifact "+a.Name)
	}
	held, err := s.hold(dir, f, info)
	if err != nil {
		return Record{}, diskError(err, "commit artifact "+a.Name)
	}
	defer func() { _ = os.Remove(held) }() // gone already when the store took it
	sum, content, err := hashFile(ctx, held, info.Size(), opt.InlineMax)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return Record{}, executors.AsError(cause)
		}
		return Record{}, diskError(err, "hash artifact "+a.Name)
	}
	if a.Kind == "" {
		a.Kind = "document"
	}
	if a.MediaType == "" {
		a.MediaType = "application/octet-stream"
	}
	record := Record{
		Name: a.Name, Kind: a.Kind, MediaType: a.MediaType, Bytes: info.Size(), SHA256: sum, Meta: a.Meta,
	}
	if content != nil {
		record.InlineBase64 = base64.StdEncoding.EncodeToString(content)
	}
	up := Upload{Name: a.Name, Kind: a.Kind, MediaType: a.MediaType, TTL: opt.TTL, ResultTTL: opt.AtLeast, Meta: a.Meta}
	if uploader := s.uploader(); uploader != nil {
		record.URL, record.ExpiresAt, err = uploader.Upload(ctx, held, sum, info.Size(), up)
		if err != nil {
			return Record{}, uploadFailed(a.Name, err)
		}
	} else if record.URL, record.ExpiresAt, err = s.store.put(held, sum, info.Size(), up); err != nil {
		return Record{}, diskError(err, "keep artifact "+a.Name)
	}
	record.ExpiresAt = record.ExpiresAt.UTC().Truncate(time.Second)
	s.log.Debug("artifact kept", zap.String("name", a.Name), zap.String("sha256", sum), zap.Int64("bytes", record.Bytes))
	return record, nil
}

func uploadFailed(name string, err error) error {
	var e *executors.Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, context.Canceled) {
		return executors.AsError(err)
	}
	return executors.Errorf(executors.CodeArtifactUploadFailed, "%s", fmt.Sprintf("artifact %s: %v", name, err))
}
