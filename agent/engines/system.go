package engines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// installSystem installs packages of the distribution with apt-get, as root or
// through sudo.
func (in *Installer) installSystem(ctx context.Context, missing []System) error {
	var names []string
	var download int64
	for _, s := range missing {
		names = append(names, s.Package)
		download += s.Download
	}
	if len(names) == 0 {
		return nil
	}
	line := "apt-get install " + strings.Join(names, " ")
	if in.From != "" {
		return fmt.Errorf("packages of the distribution are not in a bundle, install them as root: %s", line)
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return fmt.Errorf("missing: %s, and there is no apt-get here: install them with your package manager", strings.Join(names, ", "))
	}
	command := []string{apt}
	if os.Geteuid() != 0 {
		sudo, err := exec.LookPath("sudo")
		if err != nil {
			return fmt.Errorf("missing: %s, which only root can install: %s", strings.Join(names, ", "), line)
		}
		// A question about a password would wait where nobody sees it.
		if err := exec.CommandContext(ctx, sudo, "-n", "true").Run(); err != nil {
			return fmt.Errorf("missing: %s, and sudo wants a password: sudo %s", strings.Join(names, ", "), line)
		}
		command = []string{sudo, "-n", "env", "RUNLEVEL=1", "DEBIAN_FRONTEND=noninteractive", apt}
	}
	in.say("installing %s with apt-get (about %s)", strings.Join(names, ", "), Megabytes(download))
	// RUNLEVEL=1 keeps packages from starting services where there is no systemd.
	env := []string{"RUNLEVEL=1", "DEBIAN_FRONTEND=noninteractive"}
	apply := func(args ...string) error {
		return run(ctx, "/", env, command[0], append(command[1:len(command):len(command)], args...)...)
	}
	updated := apply("-qq", "update") // a list that is old may still do
	install := apply(append([]string{"install", "-y", "-qq", "--no-install-recommends"}, names...)...)
	if install != nil {
		return errors.Join(fmt.Errorf("install packages of the distribution: %w", install), updated)
	}
	for _, s := range missing {
		if !s.there() {
			return fmt.Errorf("package %s is installed, and %s is still not there", s.Package, s.Have)
		}
	}
	return nil
}
