package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// The values of Config.Trust.
const (
	TrustOwner  = "owner"  // what only root or the agent's user can have written
	TrustSigned = "signed" // what is signed
)

// errSignatures is what every executor is quarantined with in mode signed.
var errSignatures = errors.New("executors.trust is signed, and this build of the agent cannot verify signatures " +
	"(set executors.trust: owner to go by who owns the files)")

// openTrusted opens a regular file that only root or the agent's user can have
// written, at a path in which nobody else can exchange anything. The caller
// reads through the returned descriptor, so nothing changes behind the check.
func openTrusted(path string) (*os.File, fs.FileInfo, error) {
	if err := checkPath(filepath.Dir(path)); err != nil {
		return nil, nil, err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, nil, fmt.Errorf("%s is a symbolic link: put the file itself there", path)
	}
	if err != nil {
		return nil, nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err == nil {
		err = checkOwner(path, info)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// checkPath walks an absolute path from the root, following symbolic links
// that are themselves trusted, and refuses a folder in which somebody else
// could exchange the next component. In a sticky folder such as /tmp others
// cannot, provided that the next component is ours, which is checked next.
func checkPath(path string) error {
	rest := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	at := "/"
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" {
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if links++; links > 40 {
				return fmt.Errorf("%s: too many symbolic links", path)
			}
			if err := checkOwnerID(next, info); err != nil {
				return err
			}
			target, err := os.Readlink(next)
			if err != nil {
				return err
			}
			if filepath.IsAbs(target) {
				at = "/"
			}
			rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
			continue
		}
		sticky := info.Mode()&fs.ModeSticky != 0 && len(rest) > 0
		if sticky {
			err = checkOwnerID(next, info)
		} else {
			err = checkOwner(next, info)
		}
		if err != nil {
			return err
		}
		at = next
	}
	return nil
}

// checkOwner refuses what somebody other than root or the agent's user owns or
// may write.
func checkOwner(path string, info fs.FileInfo) error {
	if err := checkOwnerID(path, info); err != nil {
		return err
	}
	mode := info.Mode().Perm()
	if mode&0o002 != 0 {
		return fmt.Errorf("%s is writable by everybody (chmod go-w %s)", path, path)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && mode&0o020 != 0 && !privateGroup(st.Uid, st.Gid) {
		return fmt.Errorf("%s is writable by group %d (chmod go-w %s)", path, st.Gid, path)
	}
	return nil
}

func checkOwnerID(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: its owner is unknown on this system", path)
	}
	if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, neither to root nor to the agent's user %d (chown root %s)", path, st.Uid, os.Geteuid(), path)
	}
	return nil
}

// privateGroup reports whether a group has the owner as its only member, as
// on systems that give each user a group of the same name and a umask of 002.
func privateGroup(uid, gid uint32) bool {
	key := [2]uint32{uid, gid}
	if v, ok := groups.Load(key); ok {
		return v == true
	}
	private := lookupPrivateGroup(uid, gid)
	groups.Store(key, private)
	return private
}

var groups sync.Map // [2]uint32{uid, gid} -> bool

func lookupPrivateGroup(uid, gid uint32) bool {
	owner, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil || owner.Gid != strconv.FormatUint(uint64(gid), 10) {
		return false
	}
	group, err := user.LookupGroupId(owner.Gid)
	if err != nil || group.Name != owner.Username {
		return false
	}
	members, err := groupMembers("/etc/group", owner.Gid)
	return err == nil && len(slices.DeleteFunc(members, func(m string) bool { return m == owner.Username })) == 0
}

// groupMembers reads the listed members of a group.
func groupMembers(file, gid string) ([]string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(raw)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) == 4 && fields[2] == gid {
			return slices.DeleteFunc(strings.Split(fields[3], ","), func(m string) bool { return m == "" }), nil
		}
	}
	return nil, fmt.Errorf("group %s is not in %s", gid, file)
}
