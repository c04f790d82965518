// Package leaktest fails a test binary whose tests leave goroutines behind.
//
// Use it from the TestMain of every package that starts goroutines:
//
//	func TestMain(m *testing.M) { leaktest.Main(m) }
package leaktest

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines that are on their way out may take. It is
// generous because a loaded machine schedules them late; a clean package
// never waits.
const patience = 15 * time.Second

// Main runs the tests of m and exits the process: with the tests' own code,
// or with 1 if they passed but left goroutines running. opts name goroutines
// that a package cannot end, each with a comment that says why.
func Main(m *testing.M, opts ...goleak.Option) {
	MainThen(m, func() {}, opts...)
}

// MainWaiting is Main for a package whose tests mostly wait for other processes:
// n of them run at once, more than there are processors, unless -parallel says
// otherwise.
func MainWaiting(m *testing.M, n int, opts ...goleak.Option) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	Main(m, opts...)
}

// MainThen is Main for a package whose tests share something: last ends it
// after the tests, before goroutines are looked for.
func MainThen(m *testing.M, last func(), opts ...goleak.Option) {
	code := m.Run()
	last()
	if code == 0 {
		if err := find(opts); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left behind by the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// find looks for leaked goroutines until there are none or patience is over.
func find(opts []goleak.Option) error {
	deadline := time.Now().Add(patience)
	for {
		err := goleak.Find(opts...) // waits and looks again itself
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
