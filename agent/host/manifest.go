package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/autobot-fleet/autobot/executors"
)

// prefix starts the file name of every executor.
const prefix = executors.BinaryPrefix

// maxManifest bounds a manifest, in bytes.
const maxManifest = 256 << 10

var executorName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

var hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// readManifest reads a manifest from an open file. Fields that it does not
// know are left to later versions.
func readManifest(f *os.File) (executors.Manifest, error) {
	var m executors.Manifest
	raw, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return m, fmt.Errorf("read the manifest: %w", err)
	}
	if len(raw) > maxManifest {
		return m, fmt.Errorf("the manifest is larger than %d bytes", maxManifest)
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, fmt.Errorf("the manifest is not valid JSON: %w", err)
	}
	return m, nil
}

// checkManifest compares a manifest with this machine and this agent.
func checkManifest(m executors.Manifest, name, agentVersion string) error {
	switch {
	case m.Name != name:
		return fmt.Errorf("the manifest is for executor %q, the file is called %s%s", m.Name, prefix, name)
	case !hexDigest.MatchString(m.SHA256):
		return errors.New("the manifest has no valid sha256 (64 lower-case hexadecimal digits)")
	case m.OS != runtime.GOOS || m.Arch != runtime.GOARCH:
		return fmt.Errorf("built for %s/%s, this machine is %s/%s: install the package for it", m.OS, m.Arch, runtime.GOOS, runtime.GOARCH)
	case !slices.Contains(m.Protocols, executors.ProtocolVersion):
		return fmt.Errorf("speaks protocol versions %v, this agent %d: update the executor or the agent", m.Protocols, executors.ProtocolVersion)
	case older(agentVersion, m.MinAgent):
		return fmt.Errorf("needs agent %s or newer, this is %s: update the agent", m.MinAgent, agentVersion)
	}
	return nil
}

// older reports whether version a is below b. Versions that are no dotted
// numbers, such as those of development builds, are never older.
func older(a, b string) bool {
	x, okX := numbers(a)
	y, okY := numbers(b)
	return okX && okY && slices.Compare(x, y) < 0
}

func numbers(v string) ([]int, bool) {
	v, _, _ = strings.Cut(strings.TrimPrefix(v, "v"), "-")
	v, _, _ = strings.Cut(v, "+")
	var list []int
	for part := range strings.SplitSeq(v, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		list = append(list, n)
	}
	return list, true
}
