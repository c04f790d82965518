package spool

import (
	"os"

	"golang.org/x/sys/unix"
)

// A directory has one link of its own, one from its parent and one from each of
// its subdirectories, where the file system keeps that count (ext4, xfs, tmpfs;
// not btrfs and overlayfs, which say 1). So one look at the spool tells that no
// attempt has a folder, as is the rule where executors leave no files; to look
// for a name that never was costs the file system ten times as much.

// bareLinks are those of a spool with nothing but its holding directory.
const bareLinks = 3

// bare reports that no attempt has a folder. False says nothing.
func (s *Spool) bare() bool { return s.counts && links(s.cfg.Dir) == bareLinks }

// countsFolders tries out whether the count follows what is made and removed in
// an empty spool.
func countsFolders(dir string) bool {
	if links(dir) != bareLinks {
		return false
	}
	probe, err := os.MkdirTemp(dir, ".probe-*")
	if err != nil {
		return false
	}
	made := links(dir)
	return os.Remove(probe) == nil && made == bareLinks+1 && links(dir) == bareLinks
}

// links is the count of a directory, 0 if it cannot be read.
func links(dir string) uint64 {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0
	}
	return uint64(st.Nlink) //nolint:unconvert // 32 bits on some machines
}
