package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/internal/e2e"
)

const manual = "../../docs/executors.md"

// withoutExample are operations that no example can show.
var withoutExample = map[string]string{
	"tts create_voice":     "no engine clones voices",
	"tts delete_voice":     "no engine clones voices",
	"openvino classify":    "needs a model of one's own",
	"openvino embed_image": "needs a model of one's own",
}

// An example is one command of the manual.
type example struct{ line, typ, op string }

var (
	submitLine = regexp.MustCompile(`^bin/autobot-control tasks submit ([a-z0-9_-]+) `)
	opOfLine   = regexp.MustCompile(`"op": ?"([a-z_]+)"`)
)

// examples reads the sh blocks of a page: its lines that submit a task. A line
// that ends in a backslash goes on in the next one.
func examples(page string) []example {
	var out []example
	inside := false
	for _, line := range strings.Split(strings.ReplaceAll(page, "\\\n", " "), "\n") {
		if strings.HasPrefix(line, "```") {
			inside = line == "```sh"
			continue
		}
		m := submitLine.FindStringSubmatch(line)
		if !inside || m == nil {
			continue
		}
		e := example{line: line, typ: m[1]}
		if op := opOfLine.FindStringSubmatch(line); op != nil {
			e.op = op[1]
		}
		out = append(out, e)
	}
	return out
}

func TestExamplesAreFound(t *testing.T) {
	t.Parallel()
	got := examples("```sh\nbin/autobot-control tasks submit a '{\"op\":\"x\"}' --wait\nbin/autobot-control tasks submit b \\\n  --wait\nbin/autobot-agent status\n```\n" +
		"```text\nbin/autobot-control tasks submit c --wait\n```\nbin/autobot-control tasks submit d --wait\n")
	want := []example{
		{`bin/autobot-control tasks submit a '{"op":"x"}' --wait`, "a", "x"},
		{"bin/autobot-control tasks submit b    --wait", "b", ""},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// site is the network of the examples: a page, a search engine, and a service
// that takes tasks.
func site(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			_, _ = fmt.Fprint(w, `{"answer":"yes"}`)
		case r.URL.Path == "/search":
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprint(w, `<title>Found</title><div class=result><a href="/one">One</a></div>`)
		default:
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprint(w, `<title>A page</title><h1>Heading</h1>`)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// script writes the example of a script from the manual into a folder.
func script(t *testing.T, page string) string {
	t.Helper()
	_, rest, _ := strings.Cut(page, "```python\n")
	text, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the manual has no script in Python")
	}
	dir := e2e.ShortDir(t)
	if err := os.WriteFile(filepath.Join(dir, "word-count"), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestExamplesOfTheManual(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	layout := engines.Locate()
	pictures, err := layout.DataSet("sample-pictures")
	if err != nil {
		t.Fatalf("%v; scripts/setup installs what tests need", err)
	}
	url := site(t)
	host := strings.TrimPrefix(url, "http://")
	bin := e2e.Install(t, "general", "tts", "openvino", "playwright", "exec", "forward")
	dir := e2e.ShortDir(t)
	settings := fmt.Sprintf(`executors:
  general: {allow: [%q]}
  playwright: {allow: [%q], search: {url: "%s/search?q={query}", result: .result}}
  exec: {dir: %q}
  forward: {url: "%s/tasks"}
`, host, host, url, script(t, string(text)), url)
	if err := os.Mkdir(filepath.Join(dir, "agent.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "agent.d", "examples.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"AUTOBOT_ENGINES_DIR=" + layout.EnginesDir, "XDG_STATE_HOME=" + dir, "XDG_RUNTIME_DIR=" + filepath.Join(dir, "run"), "PICTURES=" + pictures, "PAGE=" + url + "/"}
	d := e2e.StartDev(t, bin, env, "--dir", dir)
	d.Dir = dir
	d.AwaitUp()

	list := examples(string(text))
	missing := operations(t, bin, env, dir)
	for i := range list {
		e := &list[i]
		for _, types := range missing {
			if ops := types.ops[e.typ]; len(ops) > 0 && e.op == "" {
				e.op = ops[0]
			}
			if slices.Contains(types.ops[e.typ], e.op) {
				delete(types.left, e.op)
			}
		}
	}
	for name, types := range missing {
		for op := range types.left {
			if withoutExample[name+" "+op] == "" {
				t.Errorf("%s has no example of the operation %s of %s", manual, op, name)
			}
		}
	}
	work := e2e.ShortDir(t) // where bin/ is, as in the folder of the sources
	if err := os.Symlink(bin, filepath.Join(work, "bin")); err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		t.Run(e.typ+" "+e.op, func(t *testing.T) {
			if !strings.Contains(e.line, " --wait") {
				t.Errorf("without --wait nobody sees whether it works: %s", e.line)
			}
			line := strings.ReplaceAll(e.line, "/tmp/", work+"/")
			r := e2e.Command(t, env, "bash", "-euc", "cd "+work+"; "+line)
			if r.Code != 0 {
				t.Errorf("exit code %d of %s\n%s%s", r.Code, e.line, r.Stdout, r.Stderr)
			}
		})
	}
}

// served is what an executor serves.
type served struct {
	ops  map[string][]string // by type, the default first
	left map[string]bool     // operations without an example
}

// operations asks the agent what there is; each executor has to be ready.
func operations(t *testing.T, bin string, env []string, dir string) map[string]served {
	t.Helper()
	r := e2e.Command(t, env, filepath.Join(bin, "autobot-agent"), "executors", "list", "--output", "json", "--config", filepath.Join(dir, "agent.yaml"))
	var list []struct {
		Name, State string
		Reasons     []string
		Types       []struct {
			Type string
			Ops  []string
		}
	}
	if err := json.Unmarshal([]byte(r.Stdout), &list); err != nil || len(list) != 6 {
		t.Fatalf("executors list: %+v, %v", r, err)
	}
	out := map[string]served{}
	for _, e := range list {
		if e.State != "ready" {
			t.Errorf("%s is %s: %v (scripts/setup installs what tests need)", e.Name, e.State, e.Reasons)
		}
		s := served{ops: map[string][]string{}, left: map[string]bool{}}
		for _, typ := range e.Types {
			s.ops[typ.Type] = typ.Ops
			for _, op := range typ.Ops {
				s.left[op] = true
			}
		}
		out[e.Name] = s
	}
	return out
}
