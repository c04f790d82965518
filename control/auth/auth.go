package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
)

// HeaderInternalKey carries the internal key.
const HeaderInternalKey = "X-Internal-API-Key"

// WebSocketProtocol is the subprotocol that announces a token in the next
// element of Sec-WebSocket-Protocol. The server has to select it in its answer.
const WebSocketProtocol = "bearer"

// The sentences of refusals, which existing clients compare.
const (
	detailRequired  = "Authentication required: Authentication required"
	detailNoRole    = "Authentication required: User role not assigned - access denied"
	detailForbidden = "Insufficient permissions: Admin permission required for this operation"
	detailTooMany   = "Too many auth failures"
)

// An Error is a refusal.
type Error struct {
	Status     int           // 401, 403 or 429
	Detail     string        // for the caller
	RetryAfter time.Duration // for 429
}

func (e *Error) Error() string { return e.Detail }

// WriteHeader sets the headers that belong to the refusal.
func (e *Error) WriteHeader(h http.Header) {
	if e.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(e.RetryAfter/time.Second)+1))
	}
}

// Config holds the secrets. Both are required.
type Config struct {
	JWTSecret   []byte // at least MinSecret bytes
	InternalKey []byte // at least MinSecret bytes
	Log         *zap.Logger
}

// Authenticator checks requests. It is safe for many goroutines.
type Authenticator struct {
	*Tokens
	keySum   [sha256.Size]byte
	failures *failures
	log      *zap.Logger
}

// New refuses short secrets.
func New(cfg Config) (*Authenticator, error) {
	tokens, err := NewTokens(cfg.JWTSecret)
	if err != nil {
		return nil, err
	}
	if len(cfg.InternalKey) < MinSecret {
		return nil, fmt.Errorf("the internal key has %d bytes, at least %d are needed", len(cfg.InternalKey), MinSecret)
	}
	log := cfg.Log
	if log == nil {
		log = zap.NewNop()
	}
	return &Authenticator{
		Tokens:   tokens,
		keySum:   sha256.Sum256(cfg.InternalKey),
		failures: newFailures(),
		log:      log.Named("auth"),
	}, nil
}

// Authenticate says who sent r and checks that the role suffices: RoleUser is
// satisfied by both roles, RoleAdmin by admin only. The error is an *Error.
//
// Valid credentials always pass: the limit on failures answers 429 in place
// of 401, so that a broken client cannot lock out others behind its address.
// Requests without any credential do not count: nothing was guessed.
func (a *Authenticator) Authenticate(r *http.Request, need Role) (Identity, error) {
	id, why := a.identify(r)
	switch {
	case why == "none":
		return Identity{}, &Error{Status: http.StatusUnauthorized, Detail: detailRequired}
	case why != "":
		return Identity{}, a.refuse(r, why)
	case id.Role == "":
		a.audit(r, "no_role", id)
		return Identity{}, &Error{Status: http.StatusUnauthorized, Detail: detailNoRole}
	case id.Role == RoleAdmin, id.Role == RoleUser && need == RoleUser:
		return id, nil
	}
	a.audit(r, "role", id)
	return Identity{}, &Error{Status: http.StatusForbidden, Detail: detailForbidden}
}

// identify reads the credentials; why is "" when they are good, "none" when
// there are none.
func (a *Authenticator) identify(r *http.Request) (id Identity, why string) {
	if key := r.Header.Get(HeaderInternalKey); key != "" {
		// Comparing digests takes the same time whatever the lengths are.
		sum := sha256.Sum256([]byte(key))
		if subtle.ConstantTimeCompare(sum[:], a.keySum[:]) == 1 {
			return Identity{Username: "internal", Role: RoleAdmin, Method: "internal_key"}, ""
		}
		return Identity{}, "bad_key"
	}
	token, given := bearer(r)
	if !given {
		return Identity{}, "none"
	}
	id, err := a.Verify(token)
	if err != nil {
		return Identity{}, reason(err)
	}
	return id, ""
}

// bearer finds the token: in Authorization, and where a browser cannot set
// that header (WebSocket, EventSource) also as the element after "bearer" in
// Sec-WebSocket-Protocol or as ?token=.
func bearer(r *http.Request) (token string, given bool) {
	if h := r.Header.Get("Authorization"); h != "" {
		scheme, rest, _ := strings.Cut(h, " ")
		if !strings.EqualFold(scheme, "bearer") {
			return "", false
		}
		return strings.TrimSpace(rest), true
	}
	if !Streaming(r) {
		return "", false
	}
	offered := strings.Split(strings.Join(r.Header.Values("Sec-WebSocket-Protocol"), ","), ",")
	for i := 0; i+1 < len(offered); i++ {
		if strings.EqualFold(strings.TrimSpace(offered[i]), WebSocketProtocol) {
			return strings.TrimSpace(offered[i+1]), true
		}
	}
	if t := r.URL.Query().Get("token"); t != "" {
		return t, true
	}
	return "", false
}

// Streaming reports whether r asks for a WebSocket or for server-sent events.
func Streaming(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") ||
		strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// refuse counts a wrong credential against its sender.
func (a *Authenticator) refuse(r *http.Request, why string) *Error {
	wait, first := a.failures.add(remoteIP(r), a.now())
	if wait == 0 {
		a.audit(r, why, Identity{})
		return &Error{Status: http.StatusUnauthorized, Detail: detailRequired}
	}
	if first { // one line until the address has been quiet again
		a.audit(r, "too_many", Identity{})
	}
	return &Error{Status: http.StatusTooManyRequests, Detail: detailTooMany, RetryAfter: wait}
}

func (a *Authenticator) audit(r *http.Request, why string, id Identity) {
	a.log.Info("request refused", zap.String("reason", why), zap.String("remote", remoteIP(r)),
		zap.String("method", r.Method), zap.String("path", r.URL.Path), zap.String("user", id.Username))
}

type identityKey struct{}

// WithIdentity returns ctx with the identity of a request.
func WithIdentity(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// FromContext returns the identity put there by WithIdentity, or none.
func FromContext(ctx context.Context) Identity {
	id, _ := ctx.Value(identityKey{}).(Identity)
	return id
}
