package playwright

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// The stages of a process that runs a task where no user namespace can be made.
const (
	envStage = "AUTOBOT_TEST_STAGE"
	envBare  = "AUTOBOT_TEST_BARE" // a bareTask

	stageLimit = "limit" // in a user namespace: it permits one more, and none below that
	stageRun   = "run"   // in that one
)

// A bareTask is what the process does, as which user.
type bareTask struct {
	UID, GID int
	Mapped   []syscall.SysProcIDMap // of the inner namespace
	Settings Settings
	Payload  string
	Spool    string
}

// A bareReport is what came of it.
type bareReport struct {
	Failed   *executors.Error
	Reasons  []string
	UIDs     []string // of node and the browser
	Unboxed  bool     // the browser was started without its sandbox
	Possible bool     // a user namespace could be made after all
}

// runStage does the work of a stage, in place of the tests.
func runStage(stage string) error {
	var task bareTask
	if err := json.Unmarshal([]byte(os.Getenv(envBare)), &task); err != nil {
		return err
	}
	if stage == stageRun {
		return json.NewEncoder(os.Stdout).Encode(task.run())
	}
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("1"), 0); err != nil {
		return err
	}
	cmd := task.command(stageRun)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: task.Mapped, GidMappings: task.Mapped, GidMappingsEnableSetgroups: len(task.Mapped) > 0 && task.Mapped[0].Size > 1, Credential: task.credential()}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

func (b *bareTask) command(stage string) *exec.Cmd {
	raw, _ := json.Marshal(b) // plain data
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), envStage+"="+stage, envBare+"="+string(raw))
	return cmd
}

// credential is who the innermost process is. Only root may leave its groups.
func (b *bareTask) credential() *syscall.Credential {
	return &syscall.Credential{Uid: uint32(b.UID), Gid: uint32(b.GID), NoSetGroups: os.Getuid() != 0 || len(b.Mapped) > 0 && b.Mapped[0].Size == 1}
}

// run runs the task in an executor.
func (b *bareTask) run() (r bareReport) {
	r.Possible = exec.Command("unshare", "--user", "true").Run() == nil
	e, err := New(b.Settings, egress.Options{})
	if err != nil {
		r.Failed = executors.AsError(err)
		return r
	}
	defer func() { _ = e.Close() }() // told by what is left
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err = e.Execute(ctx, executors.Task{Type: "browser", SpoolDir: b.Spool, Payload: []byte(b.Payload)})
	r.Failed = executors.AsError(err)
	if d, err := e.Describe(ctx); err == nil {
		r.Reasons = d.Reasons
	}
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	if e.pool.current == nil {
		return r
	}
	node := e.pool.current.driver.pid
	for _, pid := range append(descendants(processes(), node), node) {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if _, rest, ok := strings.Cut(string(status), "\nUid:\t"); ok {
			uid, _, _ := strings.Cut(rest, "\t")
			r.UIDs = append(r.UIDs, uid)
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		r.Unboxed = r.Unboxed || bytes.Contains(line, []byte("--no-sandbox"))
	}
	return r
}

// withoutNamespaces runs the task as a user of this machine where no user
// namespace can be made.
func (b *bareTask) withoutNamespaces(t *testing.T) (r bareReport) {
	t.Helper()
	one := func(inside, outside int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: inside, HostID: outside, Size: 1}}
	}
	uids, gids, all := one(0, os.Getuid()), one(0, os.Getgid()), os.Getuid() == 0
	b.Mapped = one(b.UID, 0)
	if all {
		uids = []syscall.SysProcIDMap{{Size: 65536}}
		gids, b.Mapped = uids, uids
	}
	cmd := b.command(stageLimit)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: uids, GidMappings: gids, GidMappingsEnableSetgroups: all}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) { // none can be made here as it is
		cmd = b.command(stageRun)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: b.credential()}
		cmd.Stderr = &stderr
		out, err = cmd.Output()
	}
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, &stderr)
	}
	if r.Possible {
		t.Fatal("user namespaces are possible in spite of the limit")
	}
	return r
}

// Where no user namespaces are possible, an ordinary user's browser does not
// start and says what is missing. A root agent's runs without its sandbox, as
// its own user, and says so; only root can show that.
func TestWithoutUserNamespaces(t *testing.T) {
	t.Parallel()
	url, _ := waiting(t)
	s := testSettings(t, strings.TrimPrefix(url, "http://"))
	s.BrowserUser, s.Guard = "nobody", string(egress.ModeFlags)
	openDriver(t, &s)
	task := func(t *testing.T, uid, gid int) *bareTask {
		spool, err := os.MkdirTemp("/var/tmp", "autobot-spool-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(spool) })
		return &bareTask{UID: uid, GID: gid, Settings: s, Spool: spool, Payload: `{"url":"` + url + `/","steps":[{"action":"get_text"}]}`}
	}
	t.Run("an ordinary user", func(t *testing.T) {
		uid, gid := os.Getuid(), os.Getgid()
		if uid == 0 {
			uid, gid = nobody, nobody
		}
		r := task(t, uid, gid).withoutNamespaces(t)
		if r.Failed == nil || r.Failed.Code != executors.CodeEngineUnavailable || !strings.Contains(r.Failed.Message, "user.max_user_namespaces") {
			t.Errorf("%+v: the task ended with %v", r, r.Failed)
		}
	})
	if os.Getuid() != 0 {
		t.Log("run as root, this test also shows a root agent's browser without its sandbox")
		return
	}
	t.Run("root", func(t *testing.T) {
		r := task(t, 0, 0).withoutNamespaces(t)
		if r.Failed != nil || !r.Unboxed || !slices.Contains(r.Reasons, bareReason) {
			t.Errorf("%+v: the task ended with %v", r, r.Failed)
		}
		if len(r.UIDs) < 2 || slices.ContainsFunc(r.UIDs, func(uid string) bool { return uid != fmt.Sprint(nobody) }) {
			t.Errorf("node and the browser run as users %v, not as %d", r.UIDs, nobody)
		}
	})
}
