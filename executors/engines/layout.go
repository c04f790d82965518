package engines

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/autobot-fleet/autobot/executors"
)

// systemDir is where packages and administrators keep engines; tests change it.
var systemDir = "/var/lib/autobot/engines"

// Layout is where engines, models and data of this machine are. The folders
// need not exist.
type Layout struct {
	EnginesDir string // engines/NAME/VERSION
	ModelsDir  string // models/NAME
	DataDir    string // data/NAME
}

// At returns the layout of an engines folder: models and data lie beside it.
func At(enginesDir string) Layout {
	root := filepath.Dir(enginesDir)
	return Layout{EnginesDir: enginesDir, ModelsDir: filepath.Join(root, "models"), DataDir: filepath.Join(root, "data")}
}

// Locate returns the layout of this machine: the folder that
// AUTOBOT_ENGINES_DIR names (the agent sets it for its executors), else
// /var/lib/autobot/engines if it is there, else the one in the user's cache.
func Locate() Layout {
	if dir := os.Getenv(executors.EnvEngines); filepath.IsAbs(dir) {
		return At(filepath.Clean(dir))
	}
	if info, err := os.Stat(systemDir); err == nil && info.IsDir() {
		return At(systemDir)
	}
	return At(filepath.Join(CacheDir(), "engines"))
}

// CacheDir is the folder of this program in the user's cache, as the XDG base
// directory specification has it. A user without a home gets one in the
// temporary folder.
func CacheDir() string {
	if dir := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) { // relative values are to be ignored
		return filepath.Join(dir, "autobot")
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		home = filepath.Join(os.TempDir(), "autobot-home")
	}
	return filepath.Join(home, ".cache", "autobot")
}

// A MissingError says that something is not installed and how to get it.
type MissingError struct {
	What   string // for example "the OpenVINO runtime"
	Where  string // folder that was searched
	Repair string // the one line that installs it
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not in %s (get it with: %s)", e.What, e.Where, e.Repair)
}
