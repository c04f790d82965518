package cli

import (
	"errors"
	"fmt"

	"github.com/autobot-fleet/autobot/internal/configfile"
)

// Exit codes, as promised to scripts and to systemd.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitUnreachable = 69
	ExitTryLater    = 75
	ExitBadConfig   = 78
)

// ExitError is an error with an exit code of its own. A nil Err exits without
// a message: the command has printed what there is to say.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Exit returns err with an exit code; a nil err exits without a message.
func Exit(code int, err error) error { return &ExitError{Code: code, Err: err} }

// Exitf returns a new error with an exit code.
func Exitf(code int, format string, args ...any) error {
	return &ExitError{Code: code, Err: fmt.Errorf(format, args...)}
}

// Usagef returns an error about the command line itself.
func Usagef(format string, args ...any) error { return Exitf(ExitUsage, format, args...) }

// Unreachablef returns an error about somebody who does not answer.
func Unreachablef(format string, args ...any) error { return Exitf(ExitUnreachable, format, args...) }

// TryLaterf returns an error that passes by itself.
func TryLaterf(format string, args ...any) error { return Exitf(ExitTryLater, format, args...) }

// codeFor is the exit code of an error that did not choose one.
func (a *App) codeFor(err error) int {
	var bad *configfile.Error
	if errors.As(err, &bad) {
		return ExitBadConfig
	}
	if a.Code != nil {
		if code := a.Code(err); code != 0 {
			return code
		}
	}
	return ExitFailure
}
