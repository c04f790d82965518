// Command autobot-agent is the worker agent of one machine: it claims tasks
// from the queue and runs them on its executors.
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
	a := newApp(stdin, stdout, stderr)
	return a.Run(a.newRoot(), args)
}
