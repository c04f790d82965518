package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/control/auth"
	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/internal/redisconn"
	"github.com/autobot-fleet/autobot/queue"
)

// retryAfter is what callers are told to wait while the server of the queue
// is away.
const retryAfter = 2 * time.Second

// problem is an error whose status and sentence are decided where it arises.
type problem struct {
	status int
	detail string
	wait   time.Duration       // > 0: Retry-After
	body   *apiwire.ErrorReply // more than the sentence; Detail is filled in
	param  string              // below /v1/: the field at fault
	code   string              // below /v1/: a word for programs
}

func (p *problem) Error() string { return p.detail }

func refuse(status int, format string, args ...any) *problem {
	return &problem{status: status, detail: fmt.Sprintf(format, args...)}
}

// invalid is a 400 about one field.
func invalid(field, format string, args ...any) error {
	return &queue.InvalidError{Field: field, Rule: fmt.Sprintf(format, args...)}
}

// translate says how to answer an error. A status of 500 means that nobody
// expected it: its text is for the log.
func translate(err error) *problem {
	var (
		p         *problem
		denied    *auth.Error
		bad       *queue.InvalidError
		duplicate *queue.DuplicateError
		tooLarge  *http.MaxBytesError
		coded     interface {
			error
			HTTPStatus() int
		}
	)
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &denied):
		return &problem{status: denied.Status, detail: denied.Detail}
	case errors.As(err, &bad):
		return refuse(http.StatusBadRequest, "%s", bad.Error())
	case errors.As(err, &tooLarge):
		return refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", tooLarge.Limit)
	case errors.As(err, &duplicate):
		p := refuse(http.StatusConflict, "%s", duplicate.Error())
		p.body = &apiwire.ErrorReply{TaskID: duplicate.ID}
		return p
	case errors.Is(err, queue.ErrNotFound):
		return refuse(http.StatusNotFound, "%s", err.Error())
	case errors.Is(err, queue.ErrExists), errors.Is(err, queue.ErrConflict), errors.Is(err, queue.ErrNotFinished):
		return refuse(http.StatusConflict, "%s", err.Error())
	case errors.Is(err, queue.ErrUnreplicated):
		return refuse(http.StatusGatewayTimeout, "%s", err.Error())
	case errors.Is(err, queue.ErrExpired):
		return refuse(http.StatusGone, "%s", err.Error())
	case errors.As(err, &coded):
		return refuse(coded.HTTPStatus(), "%s", coded.Error())
	case redisconn.Away(err), redisconn.Reason(err) == redisconn.ReasonPermission:
		p := refuse(http.StatusServiceUnavailable, "Redis cannot serve now: %s; try again later", redisconn.Explain(err))
		p.wait = retryAfter
		if wait, known := redisconn.RetryAfter(err); known {
			p.wait = wait
		}
		return p
	}
	return refuse(http.StatusInternalServerError, "")
}

// fail answers a request with an error, and logs it when nobody expected it.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		return // the caller has gone
	}
	p := translate(err)
	var denied *auth.Error
	if errors.As(err, &denied) {
		denied.WriteHeader(w.Header())
	}
	if p.wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((p.wait+time.Second-1)/time.Second)))
	}
	switch {
	case p.body != nil: // what a task ended with, or which one is in the way: no fault of this program
	case p.status == http.StatusInternalServerError:
		a.log.Error("a request failed", zap.String("request", requestID(r.Context())),
			zap.String("method", r.Method), zap.String("path", r.URL.Path), zap.Error(err))
		p.detail = internalError(r.Context())
	case p.status == http.StatusServiceUnavailable:
		a.log.Debug("a request has to wait", zap.String("path", r.URL.Path), zap.Error(err))
	}
	if strings.HasPrefix(r.URL.Path, v1) {
		reply(w, p.status, foreign(p, err))
		return
	}
	if p.body != nil {
		p.body.Detail = p.detail
		reply(w, p.status, p.body)
		return
	}
	reply(w, p.status, apiwire.Problem{Detail: p.detail})
}

func internalError(ctx context.Context) string {
	return fmt.Sprintf("internal error: the log of the control plane has more under request %s", requestID(ctx))
}

// missing is the answer of a part that this control plane runs without.
func missing(what string) error {
	return refuse(http.StatusServiceUnavailable, "%s is not available on this control plane", what)
}
