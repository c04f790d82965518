package agent

import (
	"fmt"
	"os"
	"strings"

	"github.com/autobot-fleet/autobot/agent/engines"
)

// engines says what is installed of that which executors run on, and for each
// thing that is missing the line that installs it. Who needs one of them says so
// in the lines of the executors.
func (d *Doctor) engines() {
	const name = "engines"
	dir := d.Config.Engines.Dir
	if dir == "" {
		d.found.Note(name, "engines.dir is empty: only executors that need none will work")
		return
	}
	in, err := engines.New(engines.At(dir))
	if err != nil {
		d.found.Fault(name, err.Error(), "install this program again")
		return
	}
	for _, dir := range []string{in.Layout.EnginesDir, in.Layout.ModelsDir} {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o002 != 0 {
			d.found.Fault(name, dir+" may be written by every user, and executors load libraries from it", "chmod o-w "+dir)
		}
	}
	var present []string
	for _, e := range in.Catalogue {
		switch s := in.State(e); {
		case s.State == engines.Installed:
			present = append(present, e.Name+" "+e.Version)
		case s.State == engines.Damaged:
			d.found.Fault(name, fmt.Sprintf("%s is damaged: %s", e.ID(), s.Reason), in.InstallLine(e))
		case s.State == engines.Other && e.All:
			d.found.Note(name, "%s: %s, this version of the agent is made for %s (%s)", e.Name, s.Reason, e.Version, in.InstallLine(e))
		case s.State == engines.Missing && e.All && e.Kind != engines.KindData:
			d.found.Note(name, "%s is not installed (%s)", e.Name, in.InstallLine(e))
		}
	}
	if models, err := in.Models(); err != nil {
		d.found.Fault(name, err.Error(), "let the user of the agent read "+in.Layout.ModelsDir)
	} else {
		for _, m := range models {
			if m.Problem != "" {
				d.found.Fault("model "+m.Name, m.Problem, "add it again, or: autobot-agent models remove "+m.Name)
			}
		}
	}
	if len(present) > 0 {
		d.found.OK(name, "%s: %s", dir, strings.Join(present, ", "))
	}
}
