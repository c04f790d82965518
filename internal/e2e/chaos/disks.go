package chaos

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/autobot-fleet/autobot/internal/e2e"
)

// diskMB is the size of an agent's disk: room for its copy of the executor,
// the spool and some artifacts.
const diskMB = 96

// disks are the small file systems that hold the agents' state folders.
type disks struct {
	dirs    []string
	mounted bool
	without string // why they are folders like any other; "" when they are not
}

// mountDisks gives each agent a file system of its own, which needs root. Where
// that is not possible the fault of a full disk is left out, and why is kept.
func mountDisks(t testing.TB, n int) *disks {
	t.Helper()
	d := &disks{}
	for range n {
		dir := e2e.ShortDir(t)
		d.dirs = append(d.dirs, dir)
		if d.without != "" {
			continue
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0700", diskMB)); err != nil {
			d.without = fmt.Sprintf("mounting a small file system was refused (%v); run as root where mounts are allowed", err)
			continue
		}
		d.mounted = true
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Errorf("unmount the disk %s: %v", dir, err)
			}
		})
	}
	return d
}

func (d *disks) stateDir(i int) string { return filepath.Join(d.dirs[i], "state") }
func (d *disks) ballast(i int) string  { return filepath.Join(d.dirs[i], "ballast") }

// fill writes until nothing more fits.
func (d *disks) fill(i int) error {
	f, err := os.Create(d.ballast(i))
	if err != nil {
		return err
	}
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = f.Write(block)
	}
	if closed := f.Close(); closed != nil {
		return closed
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, io.ErrShortWrite) {
		return nil
	}
	return err
}

// empty makes room again on one disk.
func (d *disks) empty(i int) error { return os.Remove(d.ballast(i)) }

// free makes room on all disks.
func (d *disks) free() error {
	for i := range d.dirs {
		if err := os.Remove(d.ballast(i)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
