package host

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// program is an executor that has passed the trust rules.
type program struct {
	name     string
	path     string // where it was found
	manifest executors.Manifest
	exe      string // the copy that is run
}

// load checks one executor and copies it into the store. Nothing of it is
// executed. The manifest is returned with an error too, as far as it is known.
func (h *Host) load(name, path string) (program, error) {
	p := program{name: name, path: path}
	if h.cfg.Trust == TrustSigned {
		return p, errSignatures
	}
	mf, _, err := openTrusted(path + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("there is no manifest %s.json beside it (make build writes it, packages bring it)", filepath.Base(path))
	}
	if err != nil {
		return p, err
	}
	m, err := readManifest(mf)
	_ = mf.Close()
	if err != nil {
		return p, err
	}
	p.manifest = m
	if err := checkManifest(m, name, h.cfg.AgentVersion); err != nil {
		return p, err
	}
	f, info, err := openTrusted(path)
	if err != nil {
		return p, err
	}
	defer func() { _ = f.Close() }()
	if info.Size() == 0 {
		return p, errors.New("the file is empty")
	}
	if info.Mode().Perm()&0o111 == 0 {
		return p, fmt.Errorf("the file is not executable (chmod +x %s)", path)
	}
	if err := checkArch(f); err != nil {
		return p, err
	}
	p.exe, err = h.install(f, name, m.SHA256)
	return p, err
}

// machines are the ELF machines of the platforms we are built for.
var machines = map[string]elf.Machine{
	"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "386": elf.EM_386, "arm": elf.EM_ARM,
	"riscv64": elf.EM_RISCV, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390, "loong64": elf.EM_LOONGARCH,
}

// checkArch refuses a native program for another kind of machine, whatever the
// manifest says. Scripts pass.
func checkArch(f *os.File) error {
	e, err := elf.NewFile(f)
	if err != nil {
		return nil //nolint:nilerr // no native program
	}
	if want, ok := machines[runtime.GOARCH]; ok && e.Machine != want {
		return fmt.Errorf("the file is a program for %s, this machine is %s: install the package for it", e.Machine, runtime.GOARCH)
	}
	return nil
}

func (h *Host) storeDir() string { return filepath.Join(h.cfg.StateDir, "executors", "sha256") }

// install copies an open executor into the store, if its content is what the
// manifest says, and returns the copy's path.
func (h *Host) install(f *os.File, name, want string) (string, error) {
	dir := filepath.Join(h.storeDir(), want)
	exe := filepath.Join(dir, prefix+name)
	if sum, err := hashOf(exe); err == nil && sum == want && checkCopy(exe) == nil {
		// Still the file that was found must be the one of the manifest.
		found, err := hashFrom(f)
		if err != nil {
			return "", fmt.Errorf("read the executor: %w", err)
		}
		if found != want {
			return "", hashMismatch(found, want)
		}
		now := time.Now()
		return exe, os.Chtimes(dir, now, now)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("copy the executor into the store: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("read the executor: %w", err)
	}
	tmp := filepath.Join(dir, ".copy")
	sum, err := copyProgram(f, tmp)
	if err == nil && sum != want {
		err = hashMismatch(sum, want)
	} else if err != nil {
		err = fmt.Errorf("copy the executor into the store: %w", err)
	}
	if err == nil {
		if err = os.Rename(tmp, exe); err != nil {
			err = fmt.Errorf("copy the executor into the store: %w", err)
		}
	}
	if err != nil {
		_ = os.Remove(tmp)
		_ = os.Remove(dir) // only when it is empty
		return "", err
	}
	return exe, nil
}

func hashMismatch(found, want string) error {
	return fmt.Errorf("the file is not what its manifest says: it has sha256 %s, the manifest %s (install the two together)", found, want)
}

// copyProgram writes an executable copy and returns its hash. While it is open
// for writing no process may be forked: a child would inherit the descriptor
// for a moment, and executing the copy would fail with "text file busy".
func copyProgram(f io.Reader, to string) (string, error) {
	_ = os.Remove(to)
	h := sha256.New()
	err := func() (err error) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o500) //nolint:gosec // our store
		if err != nil {
			return err
		}
		_, err = io.Copy(io.MultiWriter(out, h), f)
		return errors.Join(err, out.Close())
	}()
	if err != nil {
		return "", err
	}
	done, err := os.Open(to)
	if err != nil {
		return "", err
	}
	if err := errors.Join(done.Sync(), done.Close()); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hashOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	return hashFrom(f)
}

func hashFrom(f *os.File) (string, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// checkCopy makes sure that a copy found in the store is still only ours.
func checkCopy(exe string) error {
	info, err := os.Lstat(exe)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o100 == 0 {
		return errors.New("not an executable file")
	}
	return checkOwner(exe, info)
}

// sweepStore removes copies that no unit uses, but keeps the newest other one
// of each executor for a roll-back.
func (h *Host) sweepStore(used map[string]bool) {
	type copied struct {
		dir string
		at  time.Time
	}
	spare := map[string][]copied{}
	entries, _ := os.ReadDir(h.storeDir())
	for _, e := range entries {
		dir := filepath.Join(h.storeDir(), e.Name())
		exes, _ := filepath.Glob(filepath.Join(dir, prefix+"*"))
		info, err := e.Info()
		if err != nil || len(exes) != 1 || used[exes[0]] {
			continue
		}
		spare[filepath.Base(exes[0])] = append(spare[filepath.Base(exes[0])], copied{dir, info.ModTime()})
	}
	for _, list := range spare {
		slices.SortFunc(list, func(a, b copied) int { return b.at.Compare(a.at) })
		for _, c := range list[1:] {
			_ = os.RemoveAll(c.dir) // tried again at the next sweep
		}
	}
}
