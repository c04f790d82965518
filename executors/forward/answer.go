package forward

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

const (
	maxDetail     = 4 << 10
	maxRetryAfter = time.Hour
	retryDelay    = 5 * time.Second
)

// answer turns the service's answer into output or error.
func (e *Executor) answer(resp *http.Response, body []byte) (json.RawMessage, error) {
	code := resp.StatusCode
	if len(body) > executors.MaxOutput {
		return nil, executors.Errorf(executors.CodeTooLarge, "%s answered with more than %d bytes", e.settings.URL, executors.MaxOutput)
	}
	if code < 200 || code > 299 {
		return nil, e.refused(resp, body)
	}
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return json.RawMessage("{}"), nil
	}
	if body[0] != '{' || !json.Valid(body) {
		failed := executors.Errorf(executors.CodeEngineError, "%s answered with status %d, but not with a JSON object", e.settings.URL, code)
		failed.Detail = detail(body)
		failed.Retryable = false
		return nil, failed
	}
	return body, nil
}

// refused maps a status: the service's own faults, 408 and 429 may pass, any
// other refusal is final.
func (e *Executor) refused(resp *http.Response, body []byte) error {
	code := resp.StatusCode
	failed := executors.Errorf(codeOf(code), "%s answered with status %d %s", e.settings.URL, code, http.StatusText(code))
	failed.Retryable = code >= 500 || code == http.StatusRequestTimeout || code == http.StatusTooManyRequests
	failed.Detail = detail(body)
	switch {
	case code >= 300 && code < 400:
		failed.Hint = "redirects are not followed; set executors.forward.url to the final address"
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		failed.Hint = "check executors.forward.token_file"
	case failed.Retryable:
		failed.Delay = retryAfter(resp.Header.Get("Retry-After"), time.Now())
		if failed.Delay == 0 && code == http.StatusTooManyRequests {
			failed.Delay = retryDelay
		}
	}
	return failed
}

func codeOf(status int) executors.Code {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return executors.CodeInvalidInput
	case http.StatusUnauthorized, http.StatusForbidden:
		return executors.CodePermissionDenied
	case http.StatusNotFound:
		return executors.CodeNotFound
	case http.StatusRequestEntityTooLarge:
		return executors.CodeTooLarge
	case http.StatusTooManyRequests:
		return executors.CodeResourceExhausted
	}
	return executors.CodeEngineError
}

// retryAfter reads the header, in seconds or as a date.
func retryAfter(value string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

func detail(body []byte) string {
	return strings.ToValidUTF8(string(body[:min(len(body), maxDetail)]), "�")
}
