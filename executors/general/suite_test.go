package general_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/executorstest"
	"github.com/autobot-fleet/autobot/executors/general"
	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestContract(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.txt"), []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	executorstest.Run(t, executorstest.Binary{
		Path:     executorstest.Build(t, "github.com/autobot-fleet/autobot/executors/general/cmd/autobot-executor-general"),
		Settings: general.Settings{InputRoots: []string{root}},
		Tasks: []executorstest.Case{
			{Name: "echo", Type: "general", Payload: `{"value": {"a": [1, null]}}`, Check: wantOutput(`{"value":{"a":[1,null]}}`)},
			{Name: "sleep", Type: "general", Payload: `{"op": "sleep", "ms": 1}`},
			{Name: "text_stats", Type: "analysis", Payload: `{"text": "Größe\nzwei Wörter"}`, Check: wantOutput(`{"chars":17,"lines":2,"words":3}`)},
			{Name: "hash_files", Type: "analysis", Payload: `{"op": "hash_files", "paths": ["` + root + `/a.txt"]}`,
				Check: wantOutput(`{"files":[{"path":"` + root + `/a.txt","bytes":6,"sha256":"5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"}]}`)},
			{Name: "loopback is refused", Type: "general", Payload: `{"op": "http_check", "url": "http://127.0.0.1:1/"}`, Code: executors.CodeEgressDenied},
		},
		Long: executorstest.Case{Type: "general", Payload: `{"op": "sleep", "ms": 600000}`},
	})
}

func wantOutput(want string) func(*testing.T, executorstest.Report) {
	return func(t *testing.T, r executorstest.Report) {
		t.Helper()
		if got := string(r.Result.Output); got != want {
			t.Errorf("output = %s, want %s", got, want)
		}
	}
}
