package e2e

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/autobot-fleet/autobot/executors/executorstest"
	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
)

const module = "github.com/autobot-fleet/autobot/"

// AgentProgram builds autobot-agent and returns its path.
func AgentProgram(t testing.TB) string {
	t.Helper()
	return executorstest.Build(t, module+"cmd/autobot-agent")
}

// ControlProgram builds autobot-control and returns its path.
func ControlProgram(t testing.TB) string {
	t.Helper()
	return executorstest.Build(t, module+"cmd/autobot-control")
}

// Executors builds the named executors and returns a folder with them and
// their manifests, as an agent wants it.
func Executors(t testing.TB, names ...string) string {
	t.Helper()
	dir := filepath.Join(ShortDir(t), "executors")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	manifests := executorstest.Build(t, module+"scripts/manifest")
	for _, name := range names {
		home := "executors/"
		if name == ledger.Name {
			home = "internal/e2e/"
		}
		program := executorstest.Build(t, module+home+name+"/cmd/autobot-executor-"+name)
		path := filepath.Join(dir, filepath.Base(program))
		if err := copyFile(path, program); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(manifests, path).CombinedOutput()
		if err != nil {
			t.Fatalf("write the manifest of %s: %v\n%s", name, err, out)
		}
	}
	return dir
}

// ShortDir is a folder for the test whose path leaves room for the names of
// sockets in it, which t.TempDir does not.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "e2e")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// copyFile copies a program. A hard link would share its permissions.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closed := out.Close(); err == nil {
		err = closed
	}
	return err
}
