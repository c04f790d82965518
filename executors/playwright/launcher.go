package playwright

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/autobot-fleet/autobot/executors"
)

// Variables by which this binary knows that it shall become node.
const (
	envNode = "AUTOBOT_PLAYWRIGHT_NODE" // path of node
	envUser = "AUTOBOT_PLAYWRIGHT_USER" // uid:gid, "" keeps the user
	envTmp  = "AUTOBOT_PLAYWRIGHT_TMP"  // folder for all temporary files
)

// self is what the Playwright library starts in place of node: this binary,
// which then becomes node. The library offers no other way to choose the user,
// the environment and the parent-death signal.
const self = "/proc/self/exe"

// A browserUser is who node and the browser run as.
type browserUser struct {
	uid, gid int
	name     string
}

// root reports whether the browser would run as root, without its sandbox.
func (u browserUser) root() bool { return u.uid == 0 }

// chooseUser returns the user for node and the browser: the one of this
// process, or for root the named one if it exists.
func chooseUser(name string) (browserUser, error) {
	uid, gid := os.Getuid(), os.Getgid()
	if uid != 0 {
		return browserUser{uid: uid, gid: gid}, nil
	}
	found, err := user.Lookup(name)
	var unknown user.UnknownUserError
	if errors.As(err, &unknown) {
		return browserUser{uid: uid, gid: gid, name: "root"}, nil
	}
	if err != nil {
		return browserUser{}, fmt.Errorf("look up user %s: %w", name, err)
	}
	u := browserUser{name: name}
	if u.uid, err = strconv.Atoi(found.Uid); err != nil {
		return browserUser{}, fmt.Errorf("user %s has the uid %q: %w", name, found.Uid, err)
	}
	if u.gid, err = strconv.Atoi(found.Gid); err != nil {
		return browserUser{}, fmt.Errorf("user %s has the gid %q: %w", name, found.Gid, err)
	}
	return u, nil
}

// runsAs returns who the programs at p run as, and why that is root if it is.
// A user who may not read them cannot run them; a browser without sandbox is
// better than none, as long as it is told.
func runsAs(u browserUser, p paths, name string) (who browserUser, why string) {
	if u.root() {
		return u, fmt.Sprintf("the browser runs as root, so it has no sandbox (make the user for it: useradd --system --shell /usr/sbin/nologin %s)", name)
	}
	for _, file := range []string{filepath.Join(p.driver, "package", "cli.js"), p.node, p.browser} {
		if !readable(file, u) {
			return browserUser{uid: os.Getuid(), gid: os.Getgid(), name: "root"},
				fmt.Sprintf("the browser runs as root, so it has no sandbox: user %s may not read %s (install the engines in /var/lib/autobot/engines: autobot-agent engines install playwright)", u.name, file)
		}
	}
	return u, ""
}

// prepareLaunch tells the launcher, by the environment that it inherits, what
// to become.
func prepareLaunch(node, tmp string, u browserUser) error {
	who := ""
	if u.uid != os.Getuid() {
		who = fmt.Sprintf("%d:%d", u.uid, u.gid)
	}
	vars := map[string]string{"PLAYWRIGHT_NODEJS_PATH": self, envNode: node, envUser: who, envTmp: tmp, "PLAYWRIGHT_CLI_PATH": ""}
	for key, value := range vars {
		if err := os.Setenv(key, value); err != nil {
			return fmt.Errorf("set %s: %w", key, err)
		}
	}
	return nil
}

// LaunchIfAsked turns the process into node when the executor has started it
// for that. A main that serves this executor calls it first.
func LaunchIfAsked() {
	node := os.Getenv(envNode)
	if node == "" || len(os.Args) < 2 || !strings.HasSuffix(os.Args[1], "cli.js") {
		return
	}
	err := becomeNode(node, os.Getenv(envUser), os.Args[1:])
	fmt.Fprintf(os.Stderr, "executor playwright: start node: %v\n", err)
	os.Exit(1)
}

// becomeNode gives up privileges for good and replaces this process. It
// returns only with an error.
func becomeNode(node, who string, args []string) error {
	runtime.LockOSThread() // the signal below belongs to the thread that calls execve
	parent := os.Getppid()
	if who != "" {
		if err := dropTo(who); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	// After the change of user, which would clear it; execve keeps it.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("ask for the parent-death signal: %w", err)
	}
	if os.Getppid() != parent {
		return errors.New("the executor is gone already")
	}
	return syscall.Exec(node, append([]string{node}, args...), nodeEnvironment()) //nolint:gosec // the executor that started us names node
}

func dropTo(who string) error {
	u, g, _ := strings.Cut(who, ":")
	uid, err := strconv.Atoi(u)
	if err != nil {
		return fmt.Errorf("user %q: %w", who, err)
	}
	gid, err := strconv.Atoi(g)
	if err != nil {
		return fmt.Errorf("group of %q: %w", who, err)
	}
	if err := syscall.Setgroups([]int{}); err != nil {
		return fmt.Errorf("leave all groups: %w", err)
	}
	if err := syscall.Setgid(gid); err != nil {
		return fmt.Errorf("become group %d: %w", gid, err)
	}
	if err := syscall.Setuid(uid); err != nil {
		return fmt.Errorf("become user %d: %w", uid, err)
	}
	return nil
}

// nodeEnvironment is all that node and the browser find: nothing of what the
// executor was given but the mark by which its processes are found again.
func nodeEnvironment() []string {
	tmp := os.Getenv(envTmp)
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + tmp, "TMPDIR=" + tmp,
		// A font that never arrives must not hold up a picture of the page.
		"PW_TEST_SCREENSHOT_NO_FONTS_READY=1",
	}
	for _, entry := range os.Environ() {
		key, _, _ := strings.Cut(entry, "=")
		if key == "LANG" || key == "TZ" {
			env = append(env, entry)
		}
	}
	if mark := executors.Mark(); mark != "" {
		env = append(env, mark)
	}
	return env
}
