package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/internal/backoff"
)

// closeEnough is how much of its time a file that is there already may have
// lost since it was asked for; Commit asks for that much more.
const closeEnough = resultSlack

// HTTPConfig says where the control plane is and how to speak to it.
type HTTPConfig struct {
	// URL is the control plane, https only, for example
	// https://control.lan:8443. A path is kept as a prefix.
	URL string
	// CAFile holds the only certificates (PEM) that are trusted. Empty:
	// those of the system.
	CAFile string
	// KeyFile holds the internal API key. It is read for each request, so
	// that a new key needs no restart.
	KeyFile string
	// Parallel is how many uploads run at once. Default 4.
	Parallel int
	// Stall ends an attempt that moves no byte for this long. Default 30s.
	Stall time.Duration
	// RetryMin and RetryMax bound the back-off. Default 1s and 60s.
	RetryMin, RetryMax time.Duration
}

// HTTPUploader is an Uploader that speaks HTTPS to the control plane's
// PUT /api/artifacts/{sha256}. Close frees its connections.
type HTTPUploader struct {
	cfg   HTTPConfig
	base  *url.URL
	log   *zap.Logger
	slots chan struct{}
	trust trustedClient
}

// NewHTTPUploader checks the settings; it connects and reads files only when
// something is uploaded, so the control plane may start later.
func NewHTTPUploader(cfg HTTPConfig, log *zap.Logger) (*HTTPUploader, error) {
	base, err := url.Parse(cfg.URL)
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("control.url: %q is not a URL (write it as https://host:8443)", cfg.URL)
	}
	if base.Scheme != "https" {
		return nil, fmt.Errorf("control.url: %q must be https, because the internal key is sent with each upload", cfg.URL)
	}
	if cfg.KeyFile == "" {
		return nil, errors.New("control.key_file: the file with the internal API key is needed for uploads")
	}
	if cfg.Parallel <= 0 {
		cfg.Parallel = 4
	}
	if cfg.Stall <= 0 {
		cfg.Stall = 30 * time.Second
	}
	if cfg.RetryMin <= 0 {
		cfg.RetryMin = time.Second
	}
	if cfg.RetryMax <= 0 {
		cfg.RetryMax = time.Minute
	}
	if log == nil {
		log = zap.NewNop()
	}
	return &HTTPUploader{
		cfg: cfg, base: base, log: log.Named("upload"),
		slots: make(chan struct{}, cfg.Parallel),
		trust: trustedClient{caFile: cfg.CAFile, stall: cfg.Stall},
	}, nil
}

// Close closes idle connections.
func (u *HTTPUploader) Close() { u.trust.close() }

// kept is the control plane's answer to an upload.
type kept struct {
	URL     string    `json:"url"`
	Expires time.Time `json:"expires_at"`
	Detail  string    `json:"detail"`
}

// Upload implements Uploader.
func (u *HTTPUploader) Upload(ctx context.Context, path, sha256 string, size int64, meta Upload) (string, time.Time, error) {
	select {
	case u.slots <- struct{}{}:
		defer func() { <-u.slots }()
	case <-ctx.Done():
		return "", time.Time{}, u.gaveUp(ctx, errors.New("other uploads were still running"))
	}
	wait := backoff.New(u.cfg.RetryMin, u.cfg.RetryMax)
	denied := 0
	var last error // why it failed, rather than that its time was over
	for try := 1; ; try++ {
		reply, err := u.once(ctx, path, sha256, size, meta, try)
		if err == nil {
			if try > 1 {
				u.log.Info("upload succeeded", zap.String("sha256", sha256), zap.Int("tries", try))
			}
			return reply.URL, reply.Expires, nil
		}
		var status *statusError
		if errors.As(err, &status) {
			if status.denied() {
				denied++
			}
			if status.final() || denied >= 5 {
				return "", time.Time{}, status.asError(u.base.Host)
			}
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if ctx.Err() != nil {
			return "", time.Time{}, u.gaveUp(ctx, last)
		}
		if try == 1 {
			u.log.Warn("upload failed; will try again until the task's deadline",
				zap.String("sha256", sha256), zap.String("control", u.base.Host), zap.Error(err))
		}
		if !backoff.Sleep(ctx, wait.Next()) {
			return "", time.Time{}, u.gaveUp(ctx, last)
		}
	}
}

// gaveUp is what a task fails with when its time is over; a cancelled task is
// cancelled.
func (u *HTTPUploader) gaveUp(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	e := executors.Errorf(executors.CodeArtifactUploadFailed, "the control plane at %s did not take the artifact before the task's deadline: %v", u.base.Host, err)
	e.Hint = "check control.url, control.ca_file and control.key_file, and that the control plane runs"
	return e
}

// once asks whether the content is there already and sends it if not.
func (u *HTTPUploader) once(ctx context.Context, path, sum string, size int64, meta Upload, try int) (kept, error) {
	key, err := readKey(u.cfg.KeyFile)
	if err != nil {
		return kept{}, err
	}
	client, err := u.trust.client()
	if err != nil {
		return kept{}, err
	}
	// Asking first pays where sending is dear: for large content, and after
	// a failure whose upload may have arrived.
	if try > 1 || size > MaxInline {
		if reply, there := u.there(ctx, client, key, sum, size, meta); there {
			return reply, nil
		}
	}
	return u.send(ctx, client, key, path, sum, size, meta)
}

// there reports whether the control plane has the content and will keep it
// long enough.
func (u *HTTPUploader) there(ctx context.Context, client *http.Client, key, sum string, size int64, meta Upload) (kept, bool) {
	ctx, cancel := context.WithTimeout(ctx, u.cfg.Stall)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, u.target(sum).String(), nil)
	if err != nil {
		return kept{}, false
	}
	req.Header.Set("X-Internal-API-Key", key)
	resp, err := client.Do(req)
	if err != nil {
		return kept{}, false
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ContentLength != size {
		return kept{}, false
	}
	expires, err := http.ParseTime(resp.Header.Get("Expires"))
	if err != nil || time.Until(expires) < meta.TTL-closeEnough {
		return kept{}, false // PUT again: that extends its life
	}
	// A control plane that promises nothing (an older one) has only the expiry.
	if text := resp.Header.Get(apiwire.HeaderPromised); text != "" {
		promised, err := http.ParseTime(text)
		if err != nil || time.Until(promised) < meta.ResultTTL-closeEnough {
			return kept{}, false
		}
	}
	return kept{URL: "/api/artifacts/" + sum, Expires: expires}, true
}

// send PUTs the content. The server may answer before it has read the body.
func (u *HTTPUploader) send(ctx context.Context, client *http.Client, key, path, sum string, size int64, meta Upload) (kept, error) {
	f, err := os.Open(path)
	if err != nil {
		return kept{}, err
	}
	defer func() { _ = f.Close() }()
	target := u.target(sum)
	target.RawQuery = url.Values{
		apiwire.ParamArtifactName:      {meta.Name},
		apiwire.ParamArtifactKind:      {meta.Kind},
		apiwire.ParamArtifactMediaType: {meta.MediaType},
		apiwire.ParamArtifactTTL:       {wholeSeconds(meta.TTL)},
		apiwire.ParamArtifactResultTTL: {wholeSeconds(meta.ResultTTL)},
	}.Encode()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body := watchStall(f, u.cfg.Stall, cancel)
	defer body.stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, target.String(), body)
	if err != nil {
		return kept{}, err
	}
	req.ContentLength = size
	if size == 0 {
		req.Body = http.NoBody
	}
	req.Header.Set("X-Internal-API-Key", key)
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Header.Set("Expect", "100-continue")
	resp, err := client.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
			err = cause
		}
		return kept{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	return decodeKept(resp, sum, meta)
}

func decodeKept(resp *http.Response, sum string, meta Upload) (kept, error) {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return kept{}, fmt.Errorf("read the control plane's answer: %w", err)
	}
	var reply kept
	jsonErr := json.Unmarshal(raw, &reply)
	if resp.StatusCode/100 != 2 {
		return kept{}, &statusError{status: resp.StatusCode, detail: clip(strings.TrimSpace(reply.Detail))}
	}
	if jsonErr != nil && len(raw) > 0 {
		return kept{}, fmt.Errorf("the answer is not from a control plane: %w (check control.url)", jsonErr)
	}
	if reply.URL == "" {
		reply.URL = "/api/artifacts/" + sum
	}
	if reply.Expires.IsZero() {
		reply.Expires = time.Now().Add(meta.TTL)
	}
	return reply, nil
}

// wholeSeconds rounds up: a file is not gone a moment before its result.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

func (u *HTTPUploader) target(sum string) *url.URL { return u.base.JoinPath("api", "artifacts", sum) }

// readKey reads the key at each use; it appears in no error and no log.
func readKey(file string) (string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read control.key_file: %w", err)
	}
	key := strings.TrimSpace(string(raw))
	if key == "" || strings.ContainsAny(key, "\r\n\x00") {
		return "", fmt.Errorf("control.key_file %s must hold exactly one line", file)
	}
	return key, nil
}

// statusError is an answer other than 2xx.
type statusError struct {
	status int
	detail string
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("the control plane answered %d %s", e.status, http.StatusText(e.status))
	if e.detail != "" {
		s += ": " + e.detail
	}
	return s
}

func (e *statusError) denied() bool {
	return e.status == http.StatusUnauthorized || e.status == http.StatusForbidden
}

// final: the same request would be refused again.
func (e *statusError) final() bool {
	if e.denied() {
		return false // a new key may be on its way; bounded by the caller
	}
	switch e.status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusMisdirectedRequest, http.StatusConflict:
		return false
	}
	return e.status/100 == 3 || e.status/100 == 4
}

func (e *statusError) asError(host string) *executors.Error {
	if e.status == http.StatusRequestEntityTooLarge {
		err := executors.Errorf(executors.CodeTooLarge, "%s (%s)", e.Error(), host)
		err.Hint = "raise artifacts.quota_bytes of the control plane"
		return err
	}
	err := executors.Errorf(executors.CodeArtifactUploadFailed, "%s (%s)", e.Error(), host)
	switch {
	case e.denied():
		err.Hint = "control.key_file does not hold the control plane's internal key"
	case e.status == http.StatusNotFound || e.status/100 == 3:
		err.Hint = "control.url does not point at a control plane"
	}
	return err
}
