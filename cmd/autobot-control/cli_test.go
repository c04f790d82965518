package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/autobot-fleet/autobot/internal/e2e"
)

// One fleet, and what people do with it from the command line.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	d := e2e.StartDev(t, e2e.Install(t, "general", "tts"), nil)
	d.AwaitUp()
	dir := e2e.ShortDir(t)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	payload := file("payload.json", `{"op":"echo","value":"from a file"}`)
	userToken := file("user.token", d.CLI("", "auth", "token").Stdout)
	adminToken := file("admin.token", d.CLI("", "auth", "token", "--role", "admin", "--ttl", "5m", "--username", "me").Stdout)

	for _, tt := range []struct {
		name   string
		stdin  string
		args   string // words; '…' holds one together
		code   int
		stdout string // part of it
		stderr string
	}{
		{"submit", "", `tasks submit general '{"op":"echo"}' --id one --priority high --label a=b --timeout 30s`, 0, "task one is queued in high:general", ""},
		{"watch to the end", "", "tasks watch one", 0, "completed", ""},
		{"watch as JSON lines", "", "tasks watch one -o json", 0, `"status":"completed"`, ""},
		{"result", "", "tasks result one", 0, `"value": null`, ""},
		{"show", "", "tasks show one", 0, "a=b", ""},
		{"wait", "", `tasks submit general '{"op":"sleep","ms":1500}' --wait`, 0, `"slept_ms"`, "sleep"},
		{"payload from a file", "", "tasks submit general @" + payload + " --wait", 0, "from a file", ""},
		{"payload from stdin", `{"op":"echo","value":"piped"}`, "tasks submit general - --wait -o json", 0, `"value": "piped"`, ""},
		{"a failure", "", `tasks submit tts '{"text":" "}' --wait`, 1, "", "INVALID_INPUT: text: is empty"},
		{"a failure as JSON", "", `tasks submit tts '{"text":" "}' --wait -o json`, 1, `"INVALID_INPUT"`, "failed"},
		{"a voice that is not there", "", `tasks submit tts '{"text":"a","voice":"nosuch"}' --wait --id novoice`, 1, "", "NOT_FOUND"},
		{"its result", "", "tasks result novoice", 1, "", "NOT_FOUND"},
		{"an id used twice", "", "tasks submit general --id one", 1, "", "choose another one"},
		{"a delayed task", "", "tasks submit general --id later --delay 1h", 0, "normal:general, not before 2", ""},
		{"its priority", "", "tasks priority critical later", 0, "priority critical", ""},
		{"not finished", "", "tasks result later", 1, "", "has not finished"},
		{"a type that nobody serves", "", "tasks submit nobody --id lonely", 0, "task lonely is queued in normal:nobody", "no living worker serves queue normal:nobody"},
		{"a type that is mistyped", "", "tasks submit ttts", 0, "is queued in normal:ttts", "did you mean the type tts?"},
		{"cancel it", "", "tasks cancel lonely", 0, "lonely: cancelled", ""},
		{"an unknown state", "", "tasks list --status waiting", 2, "", "--status must be one of"},
		{"drain without a name", "", "workers drain", 2, "", "autobot-control: workers drain needs"},
		{"cancel", "", "tasks cancel later", 0, "later: cancelled", ""},
		{"cancel again", "", "tasks cancel later", 1, "", "does not allow"},
		{"cancel several, one unknown", "", "tasks cancel later nosuch", 1, "nosuch: refused", "2 of 2"},
		{"retry one", "", "tasks retry later", 0, "queued again", ""},
		{"a dry run", "", "tasks retry --code NOT_FOUND --dry-run", 0, "novoice: would be queued again", ""},
		{"retry by filter", "", "tasks retry --type tts --code NOT_FOUND", 0, "1 task queued again", ""},
		{"delete", "", "tasks delete one", 0, "deleted", ""},
		{"deleted", "", "tasks show one", 1, "", "no such task"},
		{"list", "", "tasks list --type tts", 0, "novoice", ""},
		{"list as JSON", "", "tasks list -o json --status completed --limit 1", 0, `"status": "completed"`, ""},
		{"list as YAML", "", "tasks list -o yaml --type tts", 0, "- id:", ""},
		{"list nothing", "", "tasks list --type nosuch", 0, "no tasks", ""},
		{"workers", "", "workers list", 0, "analysis general tts", ""},
		{"queues", "", "queues list --all", 0, "normal:tts", ""},
		{"pause", "", "queues pause normal:general", 0, "normal:general: paused", ""},
		{"paused", "", "queues list", 0, "paused", ""},
		{"pause what nobody knows", "", "queues pause normal:genral", 0, "normal:genral: paused", "normal:genral: no task has used this queue yet and no living worker serves it; nearest: normal:general"},
		{"resume it", "", "queues resume normal:genral -o json", 0, `"status": "resumed"`, ""},
		{"resume it again", "", "queues resume normal:genral", 0, "normal:genral: resumed", "normal:genral: it was not paused; nearest: normal:general"},
		{"pause what is no name", "", "queues pause urgent:general", 2, "", "critical, high, normal or low"},
		{"pause a name and what is none", "", "queues pause normal:general high", 1, "high: refused: queue:", "1 of 2 were refused"},
		{"submit to a paused queue", "", "tasks submit general --id held", 0, "held is queued", "is paused (autobot-control queues resume normal:general)"},
		{"cancel what is held", "", "tasks cancel held", 0, "held: cancelled", ""},
		{"resume", "", "queues resume normal:general", 0, "resumed", ""},
		{"failovers", "", "failover log", 0, "no failovers", ""},
		{"scan", "", "failover scan", 0, "1 worker, none is dead", ""},
		{"drain nobody", "", "workers drain nobody", 1, "", "no such worker: nobody"},
		{"bulk", "{\"type\":\"general\",\"id\":\"b1\"}\n\n{\"type\":\"Bad\"}\nnot json\n[]\n{\"type\":\"general\",\"payload\":[]}\n{\"type\":\"general\",\"typo\":1}\n{\"type\":\"general\",\"id\":\"b1\"}",
			"tasks submit -", 1, "line 1: task b1 is queued", "6 of 7 lines were refused"},
		{"bulk as JSON lines", `{"type":"general","id":"b2"}`, "tasks submit - -o json", 0, `{"line":1,"task_id":"b2","queue":"normal:general","status":"queued"}`, ""},
		{"empty bulk", "\n", "tasks submit -", 2, "", "no submission"},
		{"a user may read", "", "tasks list --token-file " + userToken, 0, "TASK", ""},
		{"a user may not submit", "", "tasks submit general --token-file " + userToken, 1, "", "Insufficient permissions"},
		{"an admin may", "", "tasks submit general --token-file " + adminToken, 0, "queued", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := d.CLI(tt.stdin, words(tt.args)...)
			if r.Code != tt.code || !strings.Contains(r.Stdout, tt.stdout) || !strings.Contains(r.Stderr, tt.stderr) {
				t.Errorf("want code %d, %q and %q, got code %d\n%s\n%s", tt.code, tt.stdout, tt.stderr, r.Code, r.Stdout, r.Stderr)
			}
		})
	}
	t.Run("bulk answers each line", func(t *testing.T) {
		r := d.CLI("{\"type\":\"Bad\"}\nnot json\n{\"type\":\"general\",\"payload\":[]}\n{\"type\":\"general\",\"typo\":1}\n{\"type\":\"general\",\"id\":\"b1\"}\n"+
			`{"type":"general","payload":{"x":"`+strings.Repeat("y", 2<<20)+`"}}`, "tasks", "submit", "-")
		for _, want := range []string{
			"line 1: refused: type: must be 1-64", "line 2: refused: is not valid JSON", "line 3: refused: payload:",
			"line 4: refused: typo: is unknown", "line 5: refused: id: a task with this id exists already", "line 6: refused: is longer than",
		} {
			if !strings.Contains(r.Stdout, want) {
				t.Errorf("%q is missing in\n%s%s", want, r.Stdout, r.Stderr)
			}
		}
	})
	t.Run("its agent is found without being named", func(t *testing.T) {
		home := filepath.Dir(d.Dir)
		env := []string{"XDG_STATE_HOME=" + home, "XDG_RUNTIME_DIR=" + filepath.Join(home, "run")}
		program := filepath.Join(filepath.Dir(d.Program()), "autobot-agent")
		for command, want := range map[string]string{"status": d.Dir, "executors list": "general", "doctor": filepath.Join(d.Dir, "agent.yaml")} {
			if r := e2e.Command(t, env, program, words(command)...); r.Code != 0 || !strings.Contains(r.Stdout, want) {
				t.Errorf("%s: %+v", command, r)
			}
		}
	})
	t.Run("files are saved", func(t *testing.T) {
		out := filepath.Join(dir, "out")
		r := d.CLI("", "tasks", "submit", "tts", `{"text":"Hello world. Second sentence."}`, "--id", "spoken", "--wait", "--save", out)
		if r.Code != 0 || !strings.Contains(r.Stdout, "saved as "+filepath.Join(out, "speech.wav")) {
			t.Fatalf("%+v", r)
		}
		checkWAV(t, filepath.Join(out, "speech.wav"))
		if r := d.CLI("", "tasks", "result", "spoken", "--save", out, "-o", "json"); r.Code != 0 || !json.Valid([]byte(r.Stdout)) || !strings.Contains(r.Stderr, "speech.wav") {
			t.Errorf("again: %+v", r)
		}
		if r := d.CLI("", "tasks", "submit", "tts", `{"text":"Another text."}`, "--wait", "--save", out); !strings.Contains(r.Stdout, "speech-2.wav") {
			t.Errorf("a file of another task was replaced: %+v", r)
		}
	})
	t.Run("files are attached", func(t *testing.T) {
		picture := file("cat.png", "a picture")
		r := d.CLI("", "tasks", "submit", "general", `{"op":"echo","value":{"n":12345678901234567890}}`,
			"--attach", "value.image="+picture, "--attach", "value.tensor.artifact="+payload, "--wait", "-o", "json")
		sum := func(text string) string {
			s := sha256.Sum256([]byte(text))
			return "sha256:" + hex.EncodeToString(s[:])
		}
		for _, want := range []string{
			`"image": {`, `"artifact": "` + sum("a picture"), `"tensor": {`, sum(`{"op":"echo","value":"from a file"}`), "12345678901234567890",
		} {
			if r.Code != 0 || !strings.Contains(r.Stdout, want) {
				t.Errorf("%q is missing: %+v", want, r)
			}
		}
		if r := d.CLI("", "tasks", "submit", "general", "--attach", "value="+picture, "--id", "alone"); r.Code != 0 {
			t.Errorf("without a payload: %+v", r)
		}
		large := file("large.bin", "")
		if err := os.Truncate(large, 100<<20+1); err != nil {
			t.Fatal(err)
		}
		if r := d.CLI("", "tasks", "submit", "general", "--attach", "value="+large, "--id", "toolarge"); r.Code != 2 || !strings.Contains(r.Stderr, "large.bin: TOO_LARGE") {
			t.Errorf("a file above the limit: %+v", r)
		}
		if r := d.CLI("", "tasks", "show", "toolarge"); r.Code != 1 {
			t.Errorf("its task was submitted: %+v", r)
		}
	})
	t.Run("the worker drains and resumes", func(t *testing.T) {
		var workers []struct{ ID, State string }
		list := func() string {
			r := d.CLI("", "workers", "list", "-o", "json")
			if err := json.Unmarshal([]byte(r.Stdout), &workers); err != nil || len(workers) != 1 {
				t.Fatalf("workers: %+v, %v", r, err)
			}
			return workers[0].State
		}
		list()
		id := workers[0].ID
		if r := d.CLI("", "workers", "drain", id); r.Code != 0 || list() != "draining" {
			t.Errorf("drain: %+v, state %s", r, list())
		}
		if r := d.CLI("", "workers", "resume", id); r.Code != 0 || list() != "alive" {
			t.Errorf("resume: %+v, state %s", r, list())
		}
		if r := d.CLI("", "workers", "show", id); r.Code != 0 || !strings.Contains(r.Stdout, "general") {
			t.Errorf("show: %+v", r)
		}
	})
	t.Run("a task that nobody serves says so", func(t *testing.T) {
		p := d.StartCLI("tasks", "submit", "nosuch", "--wait")
		e2e.Await(t, "the doubt", func() bool { return strings.Contains(p.Output(), "no living worker serves queue normal:nosuch") })
		p.Signal(syscall.SIGINT)
		if code := p.Wait(); code != 1 || !strings.Contains(p.Output(), "stopped waiting") {
			t.Errorf("code %d: %s", code, p.Output())
		}
	})
	t.Run("doctor works on its configuration", func(t *testing.T) {
		if r := d.CLI("", "doctor", "--config", filepath.Join(d.Dir, "control.yaml")); r.Code != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// words splits a command line; single quotes hold a word together.
func words(line string) []string {
	var out []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

// Each mistake is one sentence that says what to do.
func TestMistakesOnTheCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("k", 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	big := filepath.Join(dir, "big.json")
	if err := os.WriteFile(big, []byte(`{"x":"`+strings.Repeat("y", 1<<20)+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	away := " --control-url https://127.0.0.1:1 --key-file " + key
	for _, tt := range []struct {
		name string
		args string
		code int
		want string
	}{
		{"no type", "tasks submit", 2, "needs the type"},
		{"a bad type", "tasks submit Bad", 2, "type: must be"},
		{"a payload that is no JSON", "tasks submit general {op:1}", 2, "payload: is not valid JSON"},
		{"a payload that is a list", "tasks submit general []", 2, "payload:"},
		{"words without quotes", `tasks submit general {"op": "echo"}`, 2, "single quotes"},
		{"a file that is not there", "tasks submit general @/no/such/file", 2, "no such file"},
		{"a file that is too large", "tasks submit general @" + big, 2, "artifact"},
		{"an unknown priority", "tasks submit general --priority urgent", 2, "critical, high, normal, low"},
		{"two starting times", "tasks submit general --delay 1s --run-at 1", 2, "not both"},
		{"a time without zone", "tasks submit general --run-at tomorrow", 2, "2026-12-24T18:00:00Z"},
		{"a duration without unit", "tasks submit general --timeout 5", 2, "--timeout"},
		{"a label without value", "tasks submit general --label a", 2, "name=value"},
		{"save without wait", "tasks submit general --save .", 2, "--wait"},
		{"open without save", "tasks result x --open", 2, "--save DIR"},
		{"an attachment without a file", "tasks submit general --attach image", 2, "FIELD=FILE"},
		{"an attachment that is not there", "tasks submit general --attach image=/no/such/file", 2, "no such file"},
		{"an attachment that is a folder", "tasks submit general --attach image=" + dir, 2, "no regular file"},
		{"an attachment to no field", "tasks submit general --attach a..b=" + key, 2, "no path of a field"},
		{"an attachment to a field that is taken", `tasks submit general '{"image":1}' --attach image=` + key, 2, "has this field already"},
		{"an attachment twice", "tasks submit general --attach image=" + key + " --attach image=" + key, 2, "has this field already"},
		{"an attachment below what is no object", `tasks submit general '{"a":[]}' --attach a.b=` + key, 2, "is no object"},
		{"an attachment with bulk", "tasks submit - --attach image=" + key, 2, "each line"},
		{"flags with bulk", "tasks submit - --priority high", 2, "each line"},
		{"a bad id", "tasks submit general --id a/b", 2, "id: must be"},
		{"no id", "tasks show", 2, "the id of one task"},
		{"two ids", "tasks show a b", 2, "got 2"},
		{"no ids", "tasks cancel", 2, "needs the id"},
		{"retry of everything", "tasks retry", 2, "at least one of"},
		{"retry by id and filter", "tasks retry x --type tts", 2, "not both"},
		{"a priority without ids", "tasks priority high", 2, "needs a priority and the id"},
		{"an unknown subcommand", "tasks sumbit", 2, "did you mean submit?"},
		{"a negative limit", "tasks list --limit -1", 2, "--limit"},
		{"too many failovers", "failover log --count 0", 2, "1..500"},
		{"no queue", "queues pause", 2, "name of a queue"},
		{"no worker", "workers drain", 2, "id of a worker"},
		{"an address without key", "tasks list --control-url https://127.0.0.1:1", 2, "--key-file"},
		{"a plain address", "tasks list --control-url http://127.0.0.1:1 --key-file " + key, 2, "no insecure mode"},
		{"a key that is not there", "tasks list --control-url https://127.0.0.1:1 --key-file /no/such/key", 1, "no such file"},
		{"nobody there", "tasks list" + away, 69, "is the control plane running?"},
		{"nobody there, submitting", "tasks submit general" + away, 69, "refused"},
		{"a role that is none", "auth token --role king --state-dir " + dir, 1, "jwt.secret"},
		{"a state folder without control plane", "tasks list --state-dir " + dir, 1, "no control plane has run here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := invoke(words(tt.args)...)
			if code != tt.code || !strings.Contains(stderr, tt.want) || strings.Count(strings.TrimSpace(stderr), "\n") > 0 {
				t.Errorf("want code %d and %q in one sentence, got code %d\n%s%s", tt.code, tt.want, code, stdout, stderr)
			}
		})
	}
}
