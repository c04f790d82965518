package agent

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/autobot-fleet/autobot/queue"
)

const (
	workerIDFile = "worker-id"
	maxHostPart  = 100 // characters of the host name in a worker id
)

// workerID returns the name this agent works under: the configured one, else
// the one kept in the state folder, which is made once from the host name and
// eight random hex digits.
func workerID(configured, stateDir, hostname string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	path := filepath.Join(stateDir, workerIDFile)
	kept, err := os.ReadFile(path)
	if err == nil {
		id := strings.TrimSpace(string(kept))
		if err := queue.CheckWorkerID(id); err != nil {
			return "", fmt.Errorf("worker id in %s is broken: %w (set worker.id, or remove the file to have a new one made)", path, err)
		}
		return id, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the worker id: %w", err)
	}
	random := make([]byte, 4)
	if _, err := rand.Read(random); err != nil {
		return "", fmt.Errorf("make a worker id: %w", err)
	}
	id := cleanHost(hostname) + "-" + hex.EncodeToString(random)
	if err := writeFile(path, []byte(id+"\n")); err != nil {
		return "", fmt.Errorf("keep the worker id: %w", err)
	}
	return id, nil
}

// cleanHost turns a host name into what may stand in a worker id: the part
// before the first dot, other characters than letters, digits and - replaced.
func cleanHost(hostname string) string {
	host, _, _ := strings.Cut(hostname, ".")
	host = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, host)
	host = strings.Trim(host[:min(len(host), maxHostPart)], "-")
	if host == "" {
		return "worker"
	}
	return host
}

// nodeID names this machine in this boot and the state folder on it, so that a
// worker id on a copied disk or in a copied folder is told from the original.
// A machine without a machine id (a small container) is told by its boot and
// its name.
func nodeID(root, hostname, stateDir string) string {
	h := sha256.New()
	var folder syscall.Stat_t
	if err := syscall.Stat(stateDir, &folder); err == nil {
		_, _ = fmt.Fprintf(h, "%d:%d\x00", folder.Dev, folder.Ino)
	}
	for _, file := range []string{"etc/machine-id", "proc/sys/kernel/random/boot_id"} {
		// A missing file counts as an empty one.
		b, _ := os.ReadFile(filepath.Join(root, file))
		_, _ = fmt.Fprintf(h, "%s\x00", strings.TrimSpace(string(b)))
	}
	_, _ = fmt.Fprint(h, hostname)
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// writeFile writes a small file that only we may read, whole or not at all.
func writeFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // gone after the rename
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
