//go:build linux || darwin

package artifacts

import "golang.org/x/sys/unix"

// freeBytes is what an ordinary user may still write on dir's file system.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail * uint64(st.Bsize)), nil
}
