package playwright

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/autobot-fleet/autobot/executors/engines"
)

// DriverVersion is the one version of the driver that the library speaks with.
const DriverVersion = "1.64.1"

// An engine finds the programs: driver, node and browser. What was found once
// is used as long as it is there; what is missing is searched again each time.
type engine struct {
	settings Settings

	mu    sync.Mutex
	found paths
}

// paths are the programs of a browser.
type paths struct {
	driver  string // holds package/cli.js
	node    string
	browser string
}

// find returns the programs, or an error that says what is missing and how to
// get it.
func (e *engine) find(ctx context.Context) (paths, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.found != (paths{}) && e.found.check() == nil {
		return e.found, nil
	}
	p := paths{driver: e.settings.DriverDir, node: e.settings.NodePath, browser: e.settings.BrowserPath}
	if p.driver == "" || p.node == "" || p.browser == "" {
		var err error
		if p, err = e.locate(ctx, p); err != nil {
			return p, err
		}
	}
	if err := p.check(); err != nil {
		return p, err
	}
	e.found = p
	return p, nil
}

// locate fills what the settings leave open.
func (e *engine) locate(ctx context.Context, p paths) (paths, error) {
	layout := engines.Locate()
	if p.driver != "" { // the layout looks for driver and node together
		if p.browser == "" {
			p.browser = engines.Chromium
		}
		if p.node == "" {
			node, err := engines.MachineNode(ctx)
			if err != nil {
				if node, err = layout.InstalledNode(); err != nil {
					return p, err
				}
			}
			p.node = node
		}
		return p, nil
	}
	found, err := layout.Playwright(ctx, engines.PlaywrightSettings{Node: p.node, Browser: p.browser})
	if err != nil {
		return p, err
	}
	return paths{driver: found.Dir, node: found.Node, browser: found.Browser}, nil
}

// check looks whether everything is there and the driver has the version that
// the library needs.
func (p paths) check() error {
	version, err := driverVersion(p.driver)
	if err != nil {
		return err
	}
	if version != DriverVersion {
		return fmt.Errorf("the Playwright driver in %s has version %s, version %s is needed (get it with: %s)",
			p.driver, version, DriverVersion, engines.InstallPlaywright)
	}
	for what, path := range map[string]string{"node": p.node, "the headless browser": p.browser} {
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return fmt.Errorf("%s is not at %s (get it with: %s, or correct the settings of executors.playwright)", what, path, engines.InstallPlaywright)
		}
	}
	return nil
}

// driverVersion reads the version of an installed driver.
func driverVersion(dir string) (string, error) {
	path := filepath.Join(dir, "package", "package.json")
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the Playwright driver is not in %s (get it with: %s)", dir, engines.InstallPlaywright)
	}
	if err != nil {
		return "", fmt.Errorf("read the version of the Playwright driver: %w", err)
	}
	var card struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(raw, &card); err != nil {
		return "", fmt.Errorf("read the version of the Playwright driver: %s: %w (repair it with: %s)", path, err, engines.InstallPlaywright)
	}
	return card.Version, nil
}
