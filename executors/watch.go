package executors

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// parentPoll is how often an executor looks whether its agent still lives. The
// parent-death signal comes sooner; this is for where it does not come.
const parentPoll = 500 * time.Millisecond

// watch keeps signals from ending a busy executor, and ends it when its parent
// is gone. The returned function stops watching.
func watch(s *server, stderr io.Writer) (stop func()) {
	parent := os.Getppid()
	if pid, err := strconv.Atoi(os.Getenv(envParent)); err == nil {
		parent = pid // it may have died before we looked
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(parentPoll)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case sig := <-signals:
				if sig != syscall.SIGHUP && s.quiet() {
					s.stop()
				}
			case <-ticker.C:
			}
			if os.Getppid() != parent {
				_, _ = fmt.Fprintf(stderr, "executor: the agent (pid %d) is gone, ending\n", parent)
				s.abandon(parentPoll)
				killGroup(1)
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(quit)
		<-ended
	}
}
