package bench

import (
	"context"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/e2e"
)

const (
	browserProgram = "chromium-headless-shell"
	browserUser    = "autobot-browser" // as the executor has it
)

// chrome is a browser that chromedp drives: the same program, user, sandbox and
// priority as the executor's, without proxy, queue and processes in between.
type chrome struct {
	b   *testing.B
	ctx context.Context
}

// startChrome starts it as r has started its own.
func startChrome(b *testing.B, r *rig) *chrome {
	b.Helper()
	path := browserPath(b)
	home := e2e.ShortDir(b)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(home), chromedp.Flag("disable-gpu", true))
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	switch {
	case os.Getuid() == 0 && r.sandboxed():
		attr.Credential = credential(b)
		if err := os.Chown(home, int(attr.Credential.Uid), int(attr.Credential.Gid)); err != nil {
			b.Fatal(err)
		}
	case os.Getuid() == 0:
		options = append(options, chromedp.NoSandbox)
	}
	nice, err := exec.LookPath("nice")
	if err != nil {
		b.Fatalf("%v (install it: apt-get install coreutils)", err)
	}
	options = append(options, chromedp.ModifyCmdFunc(func(cmd *exec.Cmd) {
		cmd.Args = append([]string{nice, "-n", "10", cmd.Path}, cmd.Args[1:]...) // as child.Lower does
		cmd.Path = nice
		cmd.SysProcAttr = attr
		cmd.Env = append(os.Environ(), "HOME="+home)
	}))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	b.Cleanup(func() {
		cancel()
		stop()
	})
	if err := chromedp.Do(ctx); err != nil {
		b.Fatalf("start %s: %v", path, err)
	}
	return &chrome{b: b, ctx: ctx}
}

func browserPath(b *testing.B) string {
	b.Helper()
	path, err := exec.LookPath(browserProgram)
	if err != nil {
		b.Fatalf("%v (get it with: autobot-agent engines install playwright)", err)
	}
	return path
}

// sandboxed reports whether the executor's browser has its sandbox; run as root
// it has none, and the executor says so.
func (r *rig) sandboxed() bool {
	return !slices.ContainsFunc(r.status.Executors, func(e agent.ExecutorStatus) bool {
		return strings.Contains(strings.Join(e.Reasons, " "), "no sandbox")
	})
}

func credential(b *testing.B) *syscall.Credential {
	b.Helper()
	who, err := user.Lookup(browserUser)
	if err != nil {
		b.Fatal(err)
	}
	uid, err := strconv.ParseUint(who.Uid, 10, 32)
	if err != nil {
		b.Fatal(err)
	}
	gid, err := strconv.ParseUint(who.Gid, 10, 32)
	if err != nil {
		b.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), Groups: []uint32{}}
}

// one does what formTask does, in a context of its own that is closed again.
func (c *chrome) one(address string) (time.Duration, error) {
	began := time.Now()
	ctx, cancel := chromedp.NewContext(c.ctx, chromedp.WithNewBrowserContext())
	defer cancel()
	err := chromedp.Do(ctx,
		chromedp.Navigate(address),
		chromedp.SetValue(chromedp.CSS("#name"), visitor),
		chromedp.Click(chromedp.CSS("#greet")),
	)
	var answer string
	if err == nil {
		answer, err = chromedp.Run(ctx, chromedp.Text(chromedp.CSS("#answer")))
	}
	if err == nil {
		err = greeted(answer)
	}
	if err == nil {
		err = chromedp.Cancel(ctx) // waits until the context is closed
	}
	return time.Since(began), err
}
