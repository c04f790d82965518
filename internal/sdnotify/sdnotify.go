// Package sdnotify tells systemd how a service is doing. Outside systemd
// (no $NOTIFY_SOCKET) every call does nothing.
//
// Failures to reach systemd are ignored on purpose: the only remedy is the one
// systemd takes itself, which is its start, stop or watchdog timeout.
package sdnotify

import (
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Ready says that start-up, or a reload announced by Reloading, is finished.
func Ready() { send(daemon.SdNotifyReady) }

// Stopping says that the service has begun to shut down.
func Stopping() { send(daemon.SdNotifyStopping) }

// Reloading says that the configuration is being read again. Ready must follow.
func Reloading() {
	// Type=notify-reload wants the monotonic time, to tell this message from
	// one sent before the reload was asked for.
	send(daemon.SdNotifyReloading + "\nMONOTONIC_USEC=" + strconv.FormatInt(monotonicMicros(), 10))
}

// ExtendTimeout asks systemd to wait for at least d from now, instead of its
// own limit, for the start or stop in progress. Send it again before d is over.
func ExtendTimeout(d time.Duration) {
	send("EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(max(d, 0).Microseconds(), 10))
}

// Watchdog says that the service is alive. See WatchdogInterval.
func Watchdog() { send(daemon.SdNotifyWatchdog) }

// WatchdogInterval returns how often Watchdog should be called: half of the
// time after which systemd gives the service up. ok is false when no watchdog
// is set for this process.
func WatchdogInterval() (interval time.Duration, ok bool) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil || limit <= 0 {
		return 0, false
	}
	return limit / 2, true
}

// Status sets the one-line text that `systemctl status` shows.
func Status(text string) {
	// A line break would start another assignment.
	send("STATUS=" + strings.NewReplacer("\n", " ", "\r", " ").Replace(text))
}

func send(state string) {
	_, _ = daemon.SdNotify(false, state) // see the package comment
}
