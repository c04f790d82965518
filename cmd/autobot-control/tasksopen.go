package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/cli"
)

// saving is where the files of a task go, and whether the first is shown.
type saving struct {
	dir  string
	open bool
}

func (s *saving) add(c *cobra.Command) {
	c.Flags().StringVar(&s.dir, "save", "", "write the files that the task left into this folder; a file that is there with other content is kept, the new one is numbered")
	c.Flags().BoolVar(&s.open, "open", false, "show the first file that was saved with the desktop's program for it")
	_ = c.MarkFlagDirname("save")
}

func (s *saving) check() error {
	if s.open && s.dir == "" {
		return cli.Usagef("--open needs --save DIR: where should the file be that is opened?")
	}
	return nil
}

// show opens the first file. Where that cannot be done it says why, and where
// the file is: nothing has failed, as the file is there.
func (s *saving) show(env *environment, saved []client.Saved) {
	if !s.open {
		return
	}
	if len(saved) == 0 {
		_, _ = fmt.Fprintln(env.Stderr, "nothing to open: the task left no file")
		return
	}
	if err := openFile(saved[0].Path); err != nil {
		_, _ = fmt.Fprintf(env.Stderr, "not opened: %v. The file: %s\n", err, saved[0].Path)
		return
	}
	_, _ = fmt.Fprintln(env.Stderr, "opened", saved[0].Path)
}

// openPatience is how long the opener may take to fail; one that shows the file
// itself goes on after this program.
const openPatience = 2 * time.Second

// openFile hands a file to the desktop.
func openFile(path string) error {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return errors.New("there is no display (DISPLAY and WAYLAND_DISPLAY are not set)")
	}
	program, err := exec.LookPath("xdg-open")
	if err != nil {
		return errors.New("xdg-open is not installed (apt-get install xdg-utils)")
	}
	c := exec.Command(program, path)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // ctrl-C here must not close the picture
	if err := c.Start(); err != nil {
		return fmt.Errorf("start xdg-open: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }() // ends with this program at the latest
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("xdg-open found no program for it: %w", err)
		}
	case <-time.After(openPatience):
	}
	return nil
}
