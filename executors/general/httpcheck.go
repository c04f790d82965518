package general

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// maxBody is how much of an answer is read, so that its time counts.
const maxBody = 1 << 20

var checkMethods = []string{http.MethodGet, http.MethodHead, http.MethodOptions}

type checkPayload struct {
	URL          string `json:"url"`
	Method       string `json:"method"`
	ExpectStatus int    `json:"expect_status"`
}

type checkOutput struct {
	Status int   `json:"status"`
	MS     int64 `json:"ms"`
}

// httpCheck asks a URL and compares the status. Another status than expected
// is a failure that still carries the output.
func (e *Executor) httpCheck(ctx context.Context, task executors.Task) (any, error) {
	p := checkPayload{Method: http.MethodGet, ExpectStatus: http.StatusOK}
	if err := executors.DecodePayload(task, &p); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, p.Method, p.URL, nil)
	if err != nil {
		return nil, executors.Invalid("url", "%v", err)
	}
	req.Header.Set("User-Agent", "autobot-http-check")
	start := time.Now()
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, netError(ctx, p.URL, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.CopyN(io.Discard, resp.Body, maxBody); err != nil && !errors.Is(err, io.EOF) {
		return nil, netError(ctx, p.URL, err)
	}
	out := checkOutput{Status: resp.StatusCode, MS: time.Since(start).Milliseconds()}
	if out.Status == p.ExpectStatus {
		return out, nil
	}
	failed := executors.Errorf(executors.CodeNavigationFailed, "%s answered with status %d, expected %d", p.URL, out.Status, p.ExpectStatus)
	failed.Retryable = out.Status >= 500 || out.Status == http.StatusTooManyRequests || out.Status == http.StatusRequestTimeout
	failed.Output, _ = json.Marshal(out)
	return nil, failed
}

func (p *checkPayload) check() error {
	if p.URL == "" {
		return executors.Invalid("url", "is required")
	}
	p.Method = strings.ToUpper(p.Method)
	if !slices.Contains(checkMethods, p.Method) {
		return executors.Invalid("method", "must be one of %s, got %q", strings.Join(checkMethods, ", "), p.Method)
	}
	if p.ExpectStatus < 100 || p.ExpectStatus > 599 {
		return executors.Invalid("expect_status", "must be 100 to 599, got %d", p.ExpectStatus)
	}
	return checkURL("url", p.URL)
}

// netError gives a failed request its code. An unknown host stays unknown; a
// refused connection may be accepted a moment later.
func netError(ctx context.Context, target string, err error) error {
	var own *executors.Error
	if errors.As(err, &own) {
		return own
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failed := executors.Errorf(executors.CodeNavigationFailed, "%s cannot be reached: %v", target, rootCause(err))
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns):
		failed.Retryable = !dns.IsNotFound
	case errors.As(err, &op), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		failed.Retryable = true
	}
	return failed
}

// rootCause drops the method and URL that net/http puts before an error.
func rootCause(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err
	}
	return err
}
