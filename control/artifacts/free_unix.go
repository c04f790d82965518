//go:build linux || darwin

package artifacts

import "golang.org/x/sys/unix"

// freeBytes is what an ordinary user may still write on dir's file system.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:gosec,unconvert // block counts of a real disk fit; the types differ by system
}
