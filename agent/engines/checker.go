package engines

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
)

// Checked is what an engine says about a model that it has loaded.
type Checked struct {
	Engine  string         `json:"engine"` // name and version
	Inputs  []engines.Port `json:"inputs"`
	Outputs []engines.Port `json:"outputs"`
	Layout  string         `json:"layout,omitempty"` // that the outputs of a detector look like, "" if like none
}

// A Checker loads the model of a folder once. An error says in one sentence why
// it cannot be used.
type Checker interface {
	Check(ctx context.Context, dir string) (Checked, error)
}

// checkTimeout bounds the loading of a model.
const checkTimeout = 5 * time.Minute

// maxChecked bounds what a checking program may print.
const maxChecked = 1 << 20

// ExecutorChecker asks the openvino executor:
//
//	autobot-executor-openvino --check-model DIR
//
// DIR holds a model.json. Exit code 0 comes with Checked as JSON on stdout, any
// other with one sentence on stderr.
type ExecutorChecker struct {
	Dirs       []string // folders with executors
	EnginesDir string   // handed on in AUTOBOT_ENGINES_DIR
}

// Check implements Checker.
func (x ExecutorChecker) Check(ctx context.Context, dir string) (Checked, error) {
	program, err := x.program()
	if err != nil {
		return Checked{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var out, bad bytes.Buffer
	c := exec.CommandContext(ctx, program, "--check-model", dir)
	c.Env = append(os.Environ(), executors.EnvEngines+"="+x.EnginesDir)
	c.Stdout, c.Stderr = &atMost{&out, maxChecked}, &atMost{&bad, maxChecked}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	err = c.Run()
	if ctx.Err() != nil {
		return Checked{}, fmt.Errorf("check the model: %w", context.Cause(ctx))
	}
	if err != nil {
		sentence := strings.TrimSpace(strings.ToValidUTF8(bad.String(), "�"))
		if sentence == "" {
			sentence = err.Error()
		}
		return Checked{}, fmt.Errorf("the engine cannot use this model: %s", sentence)
	}
	var found Checked
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		return Checked{}, fmt.Errorf("the answer of %s cannot be read: %w", program, err)
	}
	return found, nil
}

// program is the first openvino executor of the folders. It has to be one that
// only root or this user can have written: root may be who adds a model.
func (x ExecutorChecker) program() (string, error) {
	const name = executors.BinaryPrefix + "openvino"
	for _, dir := range x.Dirs {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path, errors.Join(ours(dir), ours(path))
		}
	}
	return "", fmt.Errorf("%s, which loads a model to check it, is not in %s (put it there, or set executors.dirs)", name, strings.Join(x.Dirs, ", "))
}

// ours refuses what somebody else can have written.
func ours(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs neither to root nor to this user, so it is not run (do this as its owner)", path)
	}
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("%s may be written by others, so it is not run (chmod go-w %s)", path, path)
	}
	return nil
}

// atMost fails when more is written than somebody will read.
type atMost struct {
	w    io.Writer
	left int
}

func (a *atMost) Write(p []byte) (int, error) {
	if len(p) > a.left {
		return 0, errors.New("too much output")
	}
	a.left -= len(p)
	return a.w.Write(p)
}
