package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrCircuitOpen is what errors of Guarded clients match (errors.Is) while the
// breaker of their database is open.
var ErrCircuitOpen = errors.New("circuit breaker is open")

// CircuitOpenError says which database is not asked at present, and for how
// long. It matches ErrCircuitOpen.
type CircuitOpenError struct {
	Database   string
	RetryAfter time.Duration // at least a second
}

func (e *CircuitOpenError) Error() string {
	return fmt.Sprintf("the Redis database %q has failed repeatedly and is not asked at present: try again in %v",
		e.Database, e.RetryAfter.Round(time.Second))
}

// Is matches ErrCircuitOpen.
func (e *CircuitOpenError) Is(target error) bool { return target == ErrCircuitOpen }

// RetryAfter returns how long to wait after an error of an open breaker. ok is
// false for other errors.
func RetryAfter(err error) (wait time.Duration, ok bool) {
	var open *CircuitOpenError
	if !errors.As(err, &open) {
		return 0, false
	}
	return open.RetryAfter, true
}

// The values of Reason.
const (
	ReasonTimeout     = "timeout"
	ReasonRefused     = "refused"
	ReasonReset       = "reset"
	ReasonAuth        = "auth"
	ReasonLoading     = "loading"
	ReasonReadonly    = "readonly"
	ReasonOOM         = "oom"
	ReasonMasterdown  = "masterdown"
	ReasonClusterdown = "clusterdown"
	ReasonOther       = "other"
)

// Explain returns why err happened as the second half of a sentence for people:
// "Redis cannot serve now: " + Explain(err).
func Explain(err error) string {
	if wait, open := RetryAfter(err); open {
		return fmt.Sprintf("after repeated failures requests are held back for another %s (redis.breaker)", wait.Round(time.Second))
	}
	if errors.Is(err, ErrCircuitOpen) {
		return "requests are held back after repeated failures"
	}
	switch Reason(err) {
	case ReasonTimeout:
		return "it does not answer in time"
	case ReasonRefused:
		return "it cannot be reached"
	case ReasonReset:
		return "the connection was cut"
	case ReasonAuth:
		return "it refuses our user, password or certificate"
	case ReasonLoading:
		return "it is still loading its data"
	case ReasonReadonly:
		return "it takes no writes (a replica, or it cannot save)"
	case ReasonOOM:
		return "its memory is full (maxmemory)"
	case ReasonMasterdown, ReasonClusterdown:
		return "a failover is going on"
	}
	return err.Error()
}

// class is what an error means to us.
type class struct {
	reason string
	wait   bool // it passes by itself: try again later
	server bool // the server cannot be used: counts against the breaker
}

// IsWait reports whether err means that Redis cannot do this now but will later:
// it is out of reach, loading, failing over, full, or behind an open breaker.
// Such an error never says anything about a task. Nil, redis.Nil, a cancelled
// context, refused credentials and errors of the command itself are not of this
// kind.
func IsWait(err error) bool { return classify(err).wait }

// Reason returns why err happened, as one of the Reason constants. The set is
// small so that it can be a label of metrics.
func Reason(err error) string {
	if c := classify(err); c.reason != "" {
		return c.reason
	}
	return ReasonOther
}

// classify returns the zero class for errors that are no fault of the server or
// the way to it.
func classify(err error) class {
	switch {
	case err == nil, errors.Is(err, redis.Nil), errors.Is(err, redis.ErrClosed):
		return class{}
	case errors.Is(err, ErrCircuitOpen):
		return class{reason: ReasonRefused, wait: true}
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		return classifyReply(reply.Error())
	}
	return classifyConnection(err)
}

// replies are the error replies that concern the server rather than the
// command.
var replies = []struct {
	prefix string
	class  class
}{
	{"LOADING", class{ReasonLoading, true, true}},
	{"MASTERDOWN", class{ReasonMasterdown, true, true}},
	{"CLUSTERDOWN", class{ReasonClusterdown, true, true}},
	{"TRYAGAIN", class{ReasonClusterdown, true, false}},
	{"MOVED", class{ReasonClusterdown, true, false}},
	{"ASK", class{ReasonClusterdown, true, false}},
	{"READONLY", class{ReasonReadonly, true, false}},
	{"NOREPLICAS", class{ReasonReadonly, true, false}},
	{"MISCONF", class{ReasonReadonly, true, false}},
	{"OOM", class{ReasonOOM, true, false}},
	{"BUSY", class{ReasonTimeout, true, false}}, // a script runs too long
	{"UNBLOCKED", class{ReasonReset, true, false}},
	{"NOAUTH", class{ReasonAuth, false, true}},
	{"WRONGPASS", class{ReasonAuth, false, true}},
	{"NOPERM", class{ReasonAuth, false, false}},
	{"DENIED", class{ReasonAuth, false, true}}, // protected mode
	{"ERR max number of clients reached", class{ReasonRefused, true, true}},
	{"ERR AUTH", class{ReasonAuth, false, true}},
	{"ERR invalid password", class{ReasonAuth, false, true}},
	{"ERR Client sent AUTH", class{ReasonAuth, false, true}},
}

func classifyReply(text string) class {
	// Redis before 7 wraps what a script ran into: "ERR Error running script
	// (…): @user_script:1: -OOM command not allowed …".
	if strings.HasPrefix(text, "ERR Error running script") {
		if _, inner, ok := strings.Cut(text, ": -"); ok {
			text = inner
		}
	}
	for _, r := range replies {
		rest, ok := strings.CutPrefix(text, r.prefix)
		if ok && (rest == "" || rest[0] == ' ' || rest[0] == ':' || strings.HasPrefix(r.prefix, "ERR ")) {
			return r.class
		}
	}
	return class{}
}

func classifyConnection(err error) class {
	text := err.Error()
	var (
		netErr  net.Error
		dnsErr  *net.DNSError
		opErr   *net.OpError
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		verify  *tls.CertificateVerificationError
		plain   tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, context.Canceled):
		return class{}
	case errors.As(err, new(*credentialsError)):
		return class{ReasonAuth, false, true}
	case errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &invalid), errors.As(err, &verify),
		errors.As(err, &opErr) && opErr.Op == "remote error": // an alert of TLS: our certificate is not accepted
		return class{ReasonAuth, false, true}
	case errors.As(err, &plain): // TLS spoken to a server without it
		return class{ReasonOther, false, true}
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		// All our connections are busy. That says nothing about the server.
		return class{ReasonTimeout, true, false}
	case errors.As(err, &dnsErr), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH),
		errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.ENETDOWN):
		return class{ReasonRefused, true, true}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, syscall.ETIMEDOUT), errors.As(err, &netErr) && netErr.Timeout():
		return class{ReasonTimeout, true, true}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return class{ReasonReset, true, true}
	case errors.As(err, &opErr): // for example a Unix socket that is not there
		return class{ReasonRefused, true, true}
	case strings.Contains(text, "all sentinels specified in configuration are unreachable"):
		return class{ReasonRefused, true, true}
	case strings.Contains(text, "redis: cluster has no nodes"):
		return class{ReasonClusterdown, true, true}
	case strings.Contains(text, "redis: connection unusable"):
		return class{ReasonReset, true, true}
	default:
		return class{ReasonOther, false, false}
	}
}
