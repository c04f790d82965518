package probes

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/autobot-fleet/autobot/internal/leaktest"
)

// inside marks the process that runs in the namespaces of the test.
const inside = "AUTOBOT_EGRESS_PROBES_INSIDE"

// innerID is the user and group there: an ordinary one, so that Chromium
// accepts its sandbox, whoever runs the test.
const innerID = 1000

func TestMain(m *testing.M) {
	if os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	leaktest.Main(m)
}

// TestBrowserReachesNothingPastTheGuard runs the table of probes in a child
// process that has user, network and mount namespaces of its own.
func TestBrowserReachesNothingPastTheGuard(t *testing.T) {
	if os.Getenv(inside) != "" {
		runProbes(t)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	output, err := enter(ctx, t, true)
	if err != nil && os.Geteuid() == 0 && strings.Contains(err.Error(), "fork/exec") {
		output, err = enter(ctx, t, false) // user namespaces are switched off; root needs none
	}
	t.Log("\n" + output)
	if err != nil {
		t.Fatalf("in the namespaces: %v (a process that may not make them needs user namespaces, sysctl user.max_user_namespaces, or CAP_SYS_ADMIN)", err)
	}
}

// enter runs this test again inside.
func enter(ctx context.Context, t *testing.T, userNamespace bool) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.v", "-test.count=1", "-test.timeout=7m", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), inside+"=1", "HOME="+t.TempDir(), "TMPDIR="+t.TempDir(), "XDG_CACHE_HOME="+cacheHome())
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if userNamespace {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: innerID, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: innerID, HostID: os.Getgid(), Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_ADMIN}
	}
	cmd.WaitDelay = 10 * time.Second // its browsers hold its output
	err := cmd.Run()
	return output.String(), err
}

// cacheHome is where the engines are, which the inner HOME does not say.
func cacheHome() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "/nonexistent"
	}
	return dir
}

// Addresses of the test's network.
const (
	siteAddr  = "203.0.113.5" // a public site, allowed by the policy
	guardAddr = "203.0.113.9" // where the guard's own connections come from
	privAddr  = "10.99.0.1"
	dnsAddr   = "10.99.0.2"
	metaAddr  = "169.254.169.254"
)

// setUpNetwork gives the namespace its devices, a default route on which any
// packet can be seen, and its name server.
func setUpNetwork(t *testing.T) {
	t.Helper()
	ip, err := exec.LookPath("ip")
	if err != nil {
		t.Fatalf("the program ip is missing: install iproute2 (scripts/setup --test)")
	}
	script := strings.Join([]string{
		"link set lo up",
		"link add v0 type veth peer name v1",
		"link set v0 arp off",
		"link set v0 up",
		"link set v1 up",
		"addr add " + siteAddr + "/24 dev v0",
		"addr add " + guardAddr + "/24 dev v0",
		"addr add " + privAddr + "/24 dev v0",
		"addr add " + dnsAddr + "/24 dev v0",
		"addr add " + metaAddr + "/32 dev v0",
		"route add default dev v0",
		"addr add 2001:db8:99::5/64 dev v0 nodad", // a browser asks for IPv6 addresses only if it has one
		"route add ::/0 dev v0",
	}, "\n")
	cmd := exec.Command(ip, "-batch", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("set up the network of the test: %v\n%s", err, out)
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatalf("make the mounts private: %v", err)
	}
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, "nameserver %s\noptions timeout:1 attempts:1\n", dnsAddr), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(conf, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		t.Fatalf("put the test's own name server into /etc/resolv.conf: %v", err)
	}
}
