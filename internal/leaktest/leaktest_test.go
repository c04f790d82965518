package leaktest

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { Main(m) }

func TestFindSeesARunningGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	release, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		<-release
	}()
	if err := goleak.Find(before); err == nil {
		t.Error("a goroutine that is still running was not reported")
	}
	close(release)
	<-done
	if err := find([]goleak.Option{before}); err != nil {
		t.Errorf("nothing is running any more, yet: %v", err)
	}
}
