package engines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockFile is in the engines folder; whoever changes something holds it.
const lockFile = ".lock"

// lock waits until nobody else installs into the same folders, or ctx is done.
// The system drops the lock of a process that dies.
func (in *Installer) lock(ctx context.Context) (unlock func(), err error) {
	if err := mkdir(in.Layout.EnginesDir); err != nil {
		return nil, err
	}
	path := filepath.Join(in.Layout.EnginesDir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the engines folder: %w (run this as the user who owns it, or as root)", err)
	}
	for waited := false; ; waited = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !waited {
			in.say("another installation into %s is running, waiting for it", in.Layout.EnginesDir)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("wait for the other installation: %w", context.Cause(ctx))
		case <-time.After(100 * time.Millisecond): // flock has nothing to wait for together with ctx
		}
	}
}
