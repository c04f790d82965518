package queue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/autobot-fleet/autobot/internal/rawjson"
)

const (
	maxDelay      = 10 * 365 * 24 * time.Hour
	maxMaxRetries = 1000
	maxTimeout    = 7 * 24 * time.Hour
)

// Validate reports the first rule that the submission breaks, as an
// *InvalidError. It fills no defaults.
func (s *Submission) Validate() error {
	if s.ID != "" {
		if err := CheckTaskID(s.ID); err != nil {
			return err
		}
	}
	if err := CheckType(s.Type); err != nil {
		return err
	}
	if _, err := ParsePriority(string(s.Priority)); err != nil {
		return err
	}
	if s.Queue != "" {
		if err := CheckQueue(s.Queue); err != nil {
			return err
		}
	}
	if err := checkPayload(s.Payload); err != nil {
		return err
	}
	if s.MaxRetries != nil && (*s.MaxRetries < 0 || *s.MaxRetries > maxMaxRetries) {
		return &InvalidError{Field: "max_retries", Rule: fmt.Sprintf("must be 0..%d, got %d", maxMaxRetries, *s.MaxRetries)}
	}
	if s.Timeout < 0 || s.Timeout > maxTimeout {
		return &InvalidError{Field: "timeout", Rule: fmt.Sprintf("must be between 0 and %v, got %v", maxTimeout, s.Timeout)}
	}
	if s.Delay > maxDelay {
		return &InvalidError{Field: "delay", Rule: fmt.Sprintf("must be at most ten years, got %v (is it in seconds?)", s.Delay)}
	}
	if !s.RunAt.IsZero() && time.Until(s.RunAt) > maxDelay {
		return &InvalidError{Field: "run_at", Rule: "must be at most ten years ahead, got " + s.RunAt.Format(time.RFC3339)}
	}
	if s.Worker != "" {
		if err := CheckWorkerID(s.Worker); err != nil {
			return err
		}
		if s.Delay > 0 || !s.RunAt.IsZero() {
			return &InvalidError{Field: "worker", Rule: "cannot be given together with delay or run_at: who lives then is not known yet"}
		}
	}
	for i, w := range s.Exclude {
		if !workerPattern.MatchString(w) {
			return &InvalidError{Field: fmt.Sprintf("exclude[%d]", i), Rule: "is not a worker id: " + quote(w)}
		}
	}
	if len(s.UniqueKey) > 512 || !utf8.ValidString(s.UniqueKey) {
		return &InvalidError{Field: "unique_key", Rule: "must be valid UTF-8 of at most 512 bytes"}
	}
	return nil
}

func checkPayload(p json.RawMessage) error {
	if len(p) == 0 {
		return nil
	}
	if len(p) > MaxPayload {
		return &InvalidError{Field: "payload", Rule: fmt.Sprintf("is %d bytes, the limit is %d: pass large input as an artifact", len(p), MaxPayload)}
	}
	return CheckPayloadJSON(p)
}

// CheckPayloadJSON reports whether p is one JSON object and says where it is
// not. Python's NaN and Infinity are refused, as by every strict reader.
func CheckPayloadJSON(p []byte) error {
	if len(bytes.TrimSpace(p)) == 0 {
		return &InvalidError{Field: "payload", Rule: "is empty, want a JSON object"}
	}
	if !utf8.Valid(p) {
		return &InvalidError{Field: "payload", Rule: "is not valid UTF-8"}
	}
	if bytes.HasPrefix(p, []byte("\ufeff")) {
		return &InvalidError{Field: "payload", Rule: "begins with a byte order mark, which JSON does not have: leave it out"}
	}
	if !rawjson.Valid(p) {
		var v json.RawMessage
		return &InvalidError{Field: "payload", Rule: "is not valid JSON: " + jsonFault(json.Unmarshal(p, &v))}
	}
	if kind := jsonKind(p); kind != "" {
		return &InvalidError{Field: "payload", Rule: "must be a JSON object, got " + kind}
	}
	return nil
}

// jsonFault says what is wrong with a text that is not JSON, and where,
// counting bytes from 0.
func jsonFault(err error) string {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return err.Error()
	}
	text := syntax.Error()
	if strings.HasPrefix(text, "unexpected end") {
		return fmt.Sprintf("it ends too early, after byte %d", syntax.Offset)
	}
	if strings.HasPrefix(text, "invalid character 'N'") || strings.HasPrefix(text, "invalid character 'I'") {
		text += " (NaN and Infinity are no JSON numbers)"
	}
	return fmt.Sprintf("%s, at byte %d", text, max(syntax.Offset-1, 0))
}

// jsonKind names what valid JSON holds, "" for an object.
func jsonKind(p []byte) string {
	switch bytes.TrimSpace(p)[0] {
	case '{':
		return ""
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}
