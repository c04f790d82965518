package sdnotify

import "golang.org/x/sys/unix"

// monotonicMicros returns CLOCK_MONOTONIC in microseconds.
func monotonicMicros() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano() / 1000
}
