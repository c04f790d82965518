package main

import (
	"errors"
	"fmt"

	"github.com/autobot-fleet/autobot/internal/configfile"
	"github.com/autobot-fleet/autobot/internal/redisconn"
)

// Exit codes, as promised to scripts and to systemd.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitUnreachable = 69
	exitTryLater    = 75
	exitBadConfig   = 78
)

// exitError is an error with an exit code of its own. A nil err exits without
// a message: the command has printed what there is to say.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func unreachablef(format string, args ...any) error {
	return &exitError{exitUnreachable, fmt.Errorf(format, args...)}
}

func tryLaterf(format string, args ...any) error {
	return &exitError{exitTryLater, fmt.Errorf(format, args...)}
}

// codeFor is the exit code of an error that did not choose one.
func codeFor(err error) int {
	var bad *configfile.Error
	switch {
	case errors.As(err, &bad):
		return exitBadConfig
	case clientCode(err) != 0:
		return clientCode(err)
	case redisconn.IsWait(err):
		return exitTryLater
	}
	return exitFailure
}
