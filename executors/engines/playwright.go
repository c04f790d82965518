package engines

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// InstallPlaywright is the line that installs driver, node and browser.
	InstallPlaywright = "autobot-agent engines install playwright"

	// Chromium is Debian's headless shell. /usr/bin/chromium-headless-shell is a
	// shell script that leaves the browser running when it is killed.
	Chromium = "/usr/lib/chromium/chromium-headless-shell"

	// MinNode is the oldest major version of node that the driver runs on.
	MinNode = 20

	nodeAnswers = 10 * time.Second
)

// Playwright is an installed browser driver with what it needs to run.
type Playwright struct {
	Dir     string // for PLAYWRIGHT_DRIVER_PATH: holds the driver in package/
	Node    string // for PLAYWRIGHT_NODEJS_PATH
	Browser string // executable of the headless Chromium
	Version string // of the driver
}

// PlaywrightSettings are what an administrator may choose. "" is the default.
type PlaywrightSettings struct {
	Node    string // default: node of the machine from version 20 on, else the installed one
	Browser string // default: Chromium
}

// Playwright returns the highest installed version of the Playwright driver
// with a node and a browser for it. What is missing is a *MissingError.
func (l Layout) Playwright(ctx context.Context, s PlaywrightSettings) (Playwright, error) {
	dir, version, err := l.driver()
	if err != nil {
		return Playwright{}, err
	}
	node, err := l.node(ctx, s.Node)
	if err != nil {
		return Playwright{}, err
	}
	browser := s.Browser
	if browser == "" {
		browser = Chromium
	}
	if !isFile(browser) {
		return Playwright{}, &MissingError{"the headless browser (" + filepath.Base(browser) + ")", filepath.Dir(browser), InstallPlaywright}
	}
	return Playwright{Dir: dir, Node: node, Browser: browser, Version: version}, nil
}

func (l Layout) driver() (dir, version string, err error) {
	versions, err := l.Versions("playwright")
	if err != nil {
		return "", "", err
	}
	for _, v := range versions {
		dir := filepath.Join(l.EnginesDir, "playwright", v)
		if isFile(filepath.Join(dir, "package", "cli.js")) {
			return dir, v, nil
		}
	}
	return "", "", &MissingError{"the Playwright driver", filepath.Join(l.EnginesDir, "playwright"), InstallPlaywright}
}

// node returns the wanted node, the machine's if it is new enough, or the
// installed one.
func (l Layout) node(ctx context.Context, wanted string) (string, error) {
	if wanted != "" {
		major, err := NodeVersion(ctx, wanted)
		if err != nil {
			return "", err
		}
		if major < MinNode {
			return "", fmt.Errorf("%s is node %d, the Playwright driver needs %d or newer (leave the setting out, and: %s)", wanted, major, MinNode, InstallPlaywright)
		}
		return wanted, nil
	}
	if node, err := MachineNode(ctx); err == nil {
		return node, nil
	}
	if node, err := l.InstalledNode(); err == nil {
		return node, nil
	}
	return "", &MissingError{fmt.Sprintf("node %d or newer (the machine has none either)", MinNode), filepath.Join(l.EnginesDir, "node"), InstallPlaywright}
}

// InstalledNode returns the highest node of the engines folder.
func (l Layout) InstalledNode() (string, error) {
	versions, err := l.Versions("node")
	if err != nil {
		return "", err
	}
	for _, v := range versions {
		if node := filepath.Join(l.EnginesDir, "node", v, "bin", "node"); isFile(node) {
			return node, nil
		}
	}
	return "", &MissingError{"node", filepath.Join(l.EnginesDir, "node"), "autobot-agent engines install node"}
}

// MachineNode returns the node of the machine's PATH if it is new enough.
func MachineNode(ctx context.Context) (string, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return "", fmt.Errorf("look for node: %w", err)
	}
	major, err := NodeVersion(ctx, node)
	if err != nil {
		return "", err
	}
	if major < MinNode {
		return "", fmt.Errorf("%s is node %d, %d or newer is needed", node, major, MinNode)
	}
	return node, nil
}

// NodeVersion asks a node for its major version.
func NodeVersion(ctx context.Context, node string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeAnswers)
	defer cancel()
	out, err := exec.CommandContext(ctx, node, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("ask %s for its version: %w", node, err)
	}
	return parseNodeVersion(string(out))
}

// parseNodeVersion reads "v20.11.1".
func parseNodeVersion(answer string) (int, error) {
	major, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(answer), "v"), ".")
	n, err := strconv.Atoi(major)
	if err != nil || n < 0 {
		return 0, errors.New("node --version says " + strconv.Quote(cut(answer, 40)) + ", which is no version")
	}
	return n, nil
}

func cut(s string, n int) string { return s[:min(len(s), n)] }
