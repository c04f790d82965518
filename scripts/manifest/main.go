// Command manifest writes the manifest beside each executor binary it is
// given: what the file must be (sha256, platform, protocol) and what it serves.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/autobot-fleet/autobot/executors"
)

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
	m, err := executors.NewManifest(path)
	if err != nil {
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
	m.Version, m.MinAgent = d.Version, "0.1.0"
	for _, t := range d.Types {
		m.Types = append(m.Types, t.Type)
	}
	return m.Write(path)
}
