package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/autobot-fleet/autobot/control/auth"
	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/queue"
)

// v1 is where paths and errors have the shape of the OpenAI API.
const v1 = "/v1/"

// SpeechError is the body of errors below /v1/.
type SpeechError struct {
	Error SpeechProblem `json:"error"`
}

// SpeechProblem says what is wrong. Param names the field at fault.
type SpeechProblem struct {
	Message string  `json:"message"`
	Type    string  `json:"type"` // invalid_request_error or server_error
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// foreign is the body for an error below /v1/.
func foreign(p *problem, err error) SpeechError {
	out := SpeechProblem{Message: p.detail, Type: "invalid_request_error"}
	param, code := p.param, p.code
	var (
		bad    *queue.InvalidError
		denied *auth.Error
	)
	switch {
	case errors.As(err, &denied) && denied.Status == http.StatusUnauthorized:
		code = "invalid_api_key"
	case errors.As(err, &bad) && param == "":
		param, code = bad.Field, "invalid_value"
	}
	if p.status >= http.StatusInternalServerError {
		out.Type = "server_error"
	}
	if param != "" {
		out.Param = &param
	}
	if code != "" {
		out.Code = &code
	}
	return SpeechError{out}
}

// keyAsBearer lets clients that know only bearer tokens send the internal key
// as one. A token is three parts with dots between them; a key is not.
func keyAsBearer(r *http.Request) *http.Request {
	token := keyLike(r)
	if token == "" {
		return r
	}
	clone := r.Clone(r.Context())
	clone.Header.Set(auth.HeaderInternalKey, token)
	return clone
}

// keyLike is the bearer token of r when it cannot be one, but may be a key.
func keyLike(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "bearer") || strings.Count(token, ".") == 2 || r.Header.Get(auth.HeaderInternalKey) != "" {
		return ""
	}
	return token
}

// nameHeader tells who sends the internal key as a bearer token outside /v1/
// where it belongs. Other refusals keep the words that clients compare.
func nameHeader(r *http.Request, err error) error {
	var denied *auth.Error
	if !errors.As(err, &denied) || denied.Status != http.StatusUnauthorized || keyLike(r) == "" {
		return err
	}
	told := *denied
	told.Detail = "Authentication required: this bearer token is no JWT; the internal key belongs into the header " + auth.HeaderInternalKey
	return &told
}

// speechFields are the names that fields of a task have in a SpeechRequest.
var speechFields = map[string]string{"text": "input", "format": "response_format", "rate_wpm": "speed", "voice": "voice"}

// speechFailure is the answer in place of the audio.
func speechFailure(id string, f *queue.FailedError) error {
	var doc struct {
		Error executors.Error `json:"error"`
	}
	_ = json.Unmarshal(safeJSON(f.Document), &doc) // a foreign worker may have written anything
	code := executors.Code(f.Code)
	if code == "" {
		code = doc.Error.Code
	}
	if code == "" && f.Status == queue.StatusCancelled {
		code = executors.CodeCancelled
	}
	status := code.HTTPStatus()
	if status == http.StatusInternalServerError {
		status = http.StatusBadGateway // the worker failed, not this program
	}
	message := doc.Error.Message
	if message == "" {
		message = f.Error()
	}
	if hint := doc.Error.Hint; hint != "" {
		message += " (" + hint + ")"
	}
	param := speechFields[doc.Error.Field]
	if param != "" {
		message = strings.Replace(message, doc.Error.Field+": ", param+": ", 1)
		if status < http.StatusInternalServerError {
			status = http.StatusBadRequest // it is this request that is at fault, not an address
		}
	}
	p := refuse(status, "%s (task %s)", message, id)
	p.param, p.code = param, strings.ToLower(string(code))
	return p
}
