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
	ReasonPermission  = "permission" // the user is known, but may not do this
	ReasonLoading     = "loading"
	ReasonReadonly    = "readonly"
	ReasonSaving      = "saving" // it cannot save, and so takes no writes
	ReasonReplicas    = "replicas"
	ReasonOOM         = "oom"
	ReasonMasterdown  = "masterdown"
	ReasonClusterdown = "clusterdown"
	ReasonDatabase    = "database"
	ReasonVersion     = "version"
	ReasonClusterMode = "cluster_mode" // a cluster, a single server and a Sentinel are mixed up
	ReasonOther       = "other"
)

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

// Away reports whether err is about the server as a whole: it cannot serve now
// (see IsWait), or not until somebody repairs it or our settings, such as a
// password. A single command that our user may not run is something else.
func Away(err error) bool {
	c := classify(err)
	return c.wait || c.server
}

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
	var found *unfit
	if errors.As(err, &found) {
		return class{found.reason, found.wait, true}
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
	{"MOVED", class{ReasonClusterdown, true, false}}, // the next attempt goes there
	{"ASK", class{ReasonClusterdown, true, false}},
	{"READONLY", class{ReasonReadonly, true, false}},
	{"NOREPLICAS", class{ReasonReplicas, true, false}},
	{"MISCONF", class{ReasonSaving, true, false}},
	{"OOM", class{ReasonOOM, true, false}},
	{"BUSY", class{ReasonTimeout, true, false}}, // a script runs too long
	{"UNBLOCKED", class{ReasonReset, true, false}},
	{"NOAUTH", class{ReasonAuth, false, true}},
	{"WRONGPASS", class{ReasonAuth, false, true}},
	{"NOPERM", class{ReasonPermission, false, false}},
	{"CROSSSLOT", class{ReasonClusterMode, false, false}},
	{"ERR SELECT is not allowed in cluster mode", class{ReasonClusterMode, false, true}},
	{"ERR This instance has cluster support disabled", class{ReasonClusterMode, false, true}},
	{"ERR DB index is out of range", class{ReasonDatabase, false, true}},
	{"ERR invalid DB index", class{ReasonDatabase, false, true}},
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
	case strings.Contains(text, "redis: connection unusable"):
		return class{ReasonReset, true, true}
	default:
		return class{ReasonOther, false, false}
	}
}
