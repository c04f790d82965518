// Command autobot-control is the control plane of an AutoBot Fleet and the
// command line for its operators.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes one command line and returns the exit code. Errors are one
// clear sentence on stderr.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	env := &environment{stdin: stdin, stdout: stdout, stderr: stderr}
	root := newRoot(env)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return report(stderr, root.ExecuteContext(context.Background()))
}

// report prints err and returns the exit code for it.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	var e *exitError
	if !errors.As(err, &e) {
		e = &exitError{code: codeFor(err), err: err}
	}
	if e.err != nil {
		_, _ = io.WriteString(stderr, "autobot-control: "+strings.TrimRight(e.err.Error(), "\n")+"\n")
	}
	return e.code
}
