package exec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/exec"
	"github.com/autobot-fleet/autobot/executors/executorstest"
	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var scripts = map[string]string{
	"answer.sh": `#!/bin/sh
echo "progress: 40 half way" >&2
echo "just a note" >&2
echo "progress: 100" >&2
payload=$(cat)
echo "{\"payload\": $payload, \"type\": \"$AUTOBOT_TASK_TYPE\"}"`,
	"files.sh": `#!/bin/sh
printf 'a,b\n' > table.csv
echo "artifact: table.csv text/csv" >&2`,
	"lost_file.sh": `#!/bin/sh
echo "artifact: nothing.csv text/csv" >&2`,
	"fails.sh": `#!/bin/sh
echo "first" >&2; echo "the disk is on fire" >&2; exit 3`,
	"later.sh":    "#!/bin/sh\nexit 75\n",
	"refuses.sh":  "#!/bin/sh\necho 'no colour given' >&2; exit 65\n",
	"prose.sh":    "#!/bin/sh\necho 'all went well'\n",
	"quiet.sh":    "#!/bin/sh\nexec 0<&-\n",
	"noisy.sh":    "#!/bin/sh\nexec head -c 4000000 /dev/zero\n",
	"env.sh":      "#!/bin/sh\nenv >&2\n",
	"no_shebang":  "\x01\x02\x03not a program\n",
	"segfault.sh": "#!/bin/sh\nkill -SEGV $$\n",
	// Ignores SIGTERM, has a child, and one that has left the session.
	"long.sh": `#!/bin/sh
trap '' TERM
setsid sleep 987 &
sleep 986 &
while :; do sleep 1; done`,
}

func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil { // #nosec G306 -- a script
			t.Fatal(err)
		}
	}
	return dir
}

func TestContract(t *testing.T) {
	t.Parallel()
	s := exec.Defaults()
	s.Dir, s.Concurrency, s.Grace = folder(t), 3, 100_000_000
	s.Env = map[string]string{"COLOUR": "blue"}
	executorstest.Run(t, executorstest.Binary{
		Path:       executorstest.Build(t, "github.com/autobot-fleet/autobot/executors/exec/cmd/autobot-executor-exec"),
		Env:        []string{"LEAKED=secret"},
		Settings:   settingsJSON(s),
		AnyPayload: true,
		Tasks: []executorstest.Case{
			{Type: "answer", Payload: `{"a": [1, 2]}`, Check: checkAnswer},
			{Type: "files", Payload: `{}`, Check: checkFiles},
			{Type: "lost_file", Payload: `{}`, Code: executors.CodeEngineError, Check: says("nothing.csv")},
			{Type: "fails", Payload: `{}`, Code: executors.CodeEngineError, Check: says("exit code 3", "the disk is on fire")},
			{Type: "later", Payload: `{}`, Code: executors.CodeResourceExhausted, Check: says("later")},
			{Type: "refuses", Payload: `{}`, Code: executors.CodeInvalidInput, Check: says("no colour given")},
			{Type: "prose", Payload: `{}`, Code: executors.CodeEngineError, Check: says("JSON object", "all went well")},
			{Type: "quiet", Payload: `{"big": "` + strings.Repeat("x", 500_000) + `"}`},
			{Type: "noisy", Payload: `{}`, Code: executors.CodeTooLarge},
			{Type: "env", Payload: `{}`, Check: checkEnv},
			{Type: "no_shebang", Payload: `{}`, Code: executors.CodeEngineUnavailable, Check: says("exec format")},
			{Type: "segfault", Payload: `{}`, Code: executors.CodeEngineError, Check: says("segmentation")},
		},
		Long: executorstest.Case{Type: "long", Payload: `{}`},
	})
}

// settingsJSON writes durations as an administrator does.
func settingsJSON(s exec.Settings) map[string]any {
	return map[string]any{"dir": s.Dir, "concurrency": s.Concurrency, "grace": s.Grace.String(), "script_env": s.Env}
}

func says(parts ...string) func(*testing.T, executorstest.Report) {
	return func(t *testing.T, r executorstest.Report) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(r.Err.Error(), part) {
				t.Errorf("error %q does not say %q", r.Err, part)
			}
		}
	}
}

func checkAnswer(t *testing.T, r executorstest.Report) {
	if got := string(r.Result.Output); got != `{"payload": {"a": [1, 2]}, "type": "answer"}` {
		t.Errorf("output = %s", got)
	}
	if got := r.Logs(); got != "just a note" {
		t.Errorf("log = %q, want the line that is no progress", got)
	}
	last := executors.Progress{Percent: -1}
	for _, e := range r.Events {
		if e.Progress != nil {
			last = *e.Progress
		}
	}
	if last.Percent != 100 {
		t.Errorf("last progress = %+v, want 100 %%", last)
	}
}

func checkFiles(t *testing.T, r executorstest.Report) {
	files := r.Artifacts()
	if len(files) != 1 || files[0].Name != "table.csv" || files[0].MediaType != "text/csv" || files[0].Kind != "document" {
		t.Fatalf("artifacts = %+v", files)
	}
	if raw, err := os.ReadFile(filepath.Join(r.Spool, "table.csv")); err != nil || string(raw) != "a,b\n" {
		t.Errorf("file = %q, %v", raw, err)
	}
}

func checkEnv(t *testing.T, r executorstest.Report) {
	env := r.Logs()
	for _, want := range []string{"COLOUR=blue", "AUTOBOT_TASK_ID=", "AUTOBOT_SPOOL_DIR=" + r.Spool, "PATH=/usr/local/bin:/usr/bin:/bin"} {
		if !strings.Contains(env, want) {
			t.Errorf("the script does not see %s in\n%s", want, env)
		}
	}
	for _, leak := range []string{"LEAKED", "PLUGIN_", "COOKIE", "AUTOBOT_EXECUTOR_CONFIG"} {
		if strings.Contains(env, leak) {
			t.Errorf("the script sees %s in\n%s", leak, env)
		}
	}
}
