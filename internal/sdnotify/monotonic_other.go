//go:build !linux

package sdnotify

// monotonicMicros is never sent anywhere: systemd runs on Linux only.
func monotonicMicros() int64 { return 0 }
