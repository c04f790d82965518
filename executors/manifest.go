package executors

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// BinaryPrefix starts the file name of every executor; its name follows.
const BinaryPrefix = "autobot-executor-"

// Manifest is the JSON beside an executor, in a file of the same name with
// .json behind it. It says what the file must be and what it serves.
type Manifest struct {
	Name      string   `json:"name"`
	Version   string   `json:"version"`
	OS        string   `json:"os"`
	Arch      string   `json:"arch"`
	SHA256    string   `json:"sha256"` // of the executor, in lower-case hexadecimal
	Protocols []int    `json:"protocol_versions"`
	MinAgent  string   `json:"min_agent"` // oldest version of the agent, "" is any
	Types     []string `json:"types"`
}

// NewManifest describes the executor at path as it is now, built for this
// platform and protocol. The caller adds version, agent and types.
func NewManifest(path string) (Manifest, error) {
	f, err := os.Open(path)
	if err != nil {
		return Manifest{}, err
	}
	defer func() { _ = f.Close() }() // only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return Manifest{}, fmt.Errorf("read %s: %w", path, err)
	}
	return Manifest{
		Name: strings.TrimPrefix(filepath.Base(path), BinaryPrefix), OS: runtime.GOOS, Arch: runtime.GOARCH,
		SHA256: hex.EncodeToString(sum.Sum(nil)), Protocols: []int{ProtocolVersion}, Types: []string{},
	}, nil
}

// Write puts the manifest beside the executor at path. It is written aside and
// renamed: an agent that watches the folder never sees half of one.
func (m Manifest) Write(path string) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write the manifest of %s: %w", path, err)
	}
	tmp := path + ".json.tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil { //nolint:gosec // the agent's user reads it, who may be another one
		return err
	}
	return os.Rename(tmp, path+".json")
}
