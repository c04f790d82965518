// Command autobot-control is the control plane of an AutoBot Fleet and the
// command line for its operators.
package main

import (
	"io"
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes one command line and returns the exit code. Errors are one
// clear sentence on stderr.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	env := newEnvironment(stdin, stdout, stderr)
	return env.Run(env.newRoot(), args)
}
