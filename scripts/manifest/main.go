// Command manifest writes the manifest beside each executor binary it is
// given: what the file must be (sha256, platform, protocol) and what it serves.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

type manifest struct {
	Name      string   `json:"name"`
	Version   string   `json:"version"`
	OS        string   `json:"os"`
	Arch      string   `json:"arch"`
	SHA256    string   `json:"sha256"`
	Protocols []int    `json:"protocol_versions"`
	MinAgent  string   `json:"min_agent"`
	Types     []string `json:"types"`
}

func main() {
	for _, path := range os.Args[1:] {
		if strings.HasSuffix(path, ".json") {
			continue
		}
		if err := write(path); err != nil {
			fmt.Fprintf(os.Stderr, "manifest: %s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

func write(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	out, err := exec.Command(full, "--describe").Output()
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	var d struct {
		Version string
		Types   []struct{ Type string }
	}
	if err := json.Unmarshal(out, &d); err != nil {
		return fmt.Errorf("read its description: %w", err)
	}
	m := manifest{
		Name:    strings.TrimPrefix(filepath.Base(path), "autobot-executor-"),
		Version: d.Version, OS: runtime.GOOS, Arch: runtime.GOARCH, SHA256: hex.EncodeToString(sum.Sum(nil)),
		Protocols: []int{1}, MinAgent: "0.1.0", Types: []string{},
	}
	for _, t := range d.Types {
		m.Types = append(m.Types, t.Type)
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	// Written aside and renamed: an agent that watches the folder never sees half a manifest.
	tmp := path + ".json.tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path+".json")
}
