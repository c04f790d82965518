package playwright

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

func checker(t testing.TB, change func(*Settings)) *checking {
	t.Helper()
	s := DefaultSettings()
	s.Allow = []string{"127.0.0.1:8000"}
	if change != nil {
		change(&s)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	policy, err := s.policy()
	if err != nil {
		t.Fatal(err)
	}
	return &checking{settings: s, guard: egress.New(policy, egress.Options{})}
}

func TestPayloadsAreRefusedBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3000)
	for _, tt := range []struct {
		payload string
		code    executors.Code
		field   string
	}{
		{`{}`, executors.CodeInvalidInput, "url"},
		{`{"url":"http://example.com/` + long + `"}`, executors.CodeInvalidInput, "url"},
		{`{"url":"file:///etc/passwd"}`, executors.CodeInvalidInput, "url"},
		{`{"url":"javascript:alert(1)"}`, executors.CodeInvalidInput, "url"},
		{`{"url":"data:text/html,x"}`, executors.CodeInvalidInput, "url"},
		{`{"url":"view-source:http://example.com/"}`, executors.CodeInvalidInput, "url"},
		{`{"url":"http://localhost@evil.test/"}`, executors.CodeInvalidInput, "url"},
		{`{"url":"http://127.0.0.1:6379/"}`, executors.CodeEgressDenied, "url"},
		{`{"url":"http://169.254.169.254/latest"}`, executors.CodeEgressDenied, "url"},
		{`{"url":"https://github.com.evil.test/","egress":{"hosts":["github.com"]}}`, executors.CodeEgressDenied, "url"},
		{`{"url":"https://github.com/","egress":{"hosts":[]}}`, executors.CodeInvalidInput, "egress.hosts"},
		{`{"url":"https://a.test/","wait_until":"soon"}`, executors.CodeInvalidInput, "wait_until"},
		{`{"url":"https://a.test/","nav_timeout_ms":120001}`, executors.CodeInvalidInput, "nav_timeout_ms"},
		{`{"url":"https://a.test/","step_timeout_ms":60001}`, executors.CodeInvalidInput, "step_timeout_ms"},
		{`{"url":"https://a.test/","viewport":{"width":10}}`, executors.CodeInvalidInput, "viewport.width"},
		{`{"url":"https://a.test/","viewport":{"scale":4}}`, executors.CodeInvalidInput, "viewport.scale"},
		{`{"url":"https://a.test/","locale":"../x"}`, executors.CodeInvalidInput, "locale"},
		{`{"url":"https://a.test/","headers":{"Host":"b"}}`, executors.CodeInvalidInput, "headers.Host"},
		{`{"url":"https://a.test/","headers":{"proxy-authorization":"b"}}`, executors.CodeInvalidInput, "headers.proxy-authorization"},
		{`{"url":"https://a.test/","headers":{"X-A":"b\r\nX-B: c"}}`, executors.CodeInvalidInput, "headers.X-A"},
		{`{"url":"https://a.test/","cookies":[{"name":"a","value":"b","domain":"other.test"}]}`, executors.CodeInvalidInput, "cookies[0].domain"},
		{`{"url":"https://a.test/","cookies":[{"name":"a","value":"b","domain":"test"}]}`, executors.CodeInvalidInput, "cookies[0].domain"},
		{`{"url":"https://a.test/","cookies":[{"name":"a b;","value":"b"}]}`, executors.CodeInvalidInput, "cookies[0].name"},
		{`{"url":"https://a.test/","session":{"id":"a b"}}`, executors.CodeInvalidInput, "session.id"},
		{`{"url":"https://a.test/","session":{"id":"a","keep_s":301}}`, executors.CodeInvalidInput, "session.keep_s"},
		{`{"url":"https://a.test/","block_resources":["script"]}`, executors.CodeInvalidInput, "block_resources[0]"},
		{`{"url":"https://a.test/","stesp":[]}`, executors.CodeInvalidInput, "stesp"},
		{`{"url":"https://a.test/","steps":[1]}`, executors.CodeInvalidInput, "steps[0]"},
		{`{"url":"https://a.test/","steps":[{"action":"clik","selector":"a"}]}`, executors.CodeInvalidInput, "steps[0].action"},
		{`{"url":"https://a.test/","steps":[{"action":"click","selector":"a","value":"x"}]}`, executors.CodeInvalidInput, "steps[0].value"},
		{`{"url":"https://a.test/","steps":[{"action":"click","selector":"a","op":"run"}]}`, executors.CodeInvalidInput, "steps[0].op"},
		{`{"url":"https://a.test/","steps":[{"action":"click","selector":"` + long + `"}]}`, executors.CodeInvalidInput, "steps[0].selector"},
		{`{"url":"https://a.test/","steps":[{"action":"click"}]}`, executors.CodeInvalidInput, "steps[0].selector"},
		{`{"url":"https://a.test/","steps":[{"action":"fill","selector":"a"}]}`, executors.CodeInvalidInput, "steps[0].value"},
		{`{"url":"https://a.test/","steps":[{"action":"fill","selector":"a","secret_ref":"x"}]}`, executors.CodeNotFound, "steps[0].secret_ref"},
		{`{"url":"https://a.test/","steps":[{"action":"wait_for","ms":10001}]}`, executors.CodeInvalidInput, "steps[0].ms"},
		{`{"url":"https://a.test/","steps":[{"action":"evaluate","script":"1"}]}`, executors.CodePermissionDenied, "steps[0].action"},
		{`{"url":"https://a.test/","steps":[{"action":"navigate","url":"file:///x"}]}`, executors.CodeInvalidInput, "steps[0].url"},
		{`{"url":"https://a.test/","steps":[{"action":"upload","selector":"a","artifact":"sha256:00"}]}`, executors.CodeInvalidInput, "steps[0].artifact"},
		{`{"url":"https://a.test/","steps":[{"action":"upload","selector":"a","path":"/etc/passwd"}]}`, executors.CodePermissionDenied, "steps[0].path"},
		{`{"url":"https://a.test/","steps":[{"action":"screenshot","quality":5}]}`, executors.CodeInvalidInput, "steps[0].quality"},
		{`{"url":"https://a.test/","steps":[{"action":"pdf","format":"B5"}]}`, executors.CodeInvalidInput, "steps[0].format"},
		{`{"url":"https://a.test/","steps":[{"action":"pdf","margins":{"top":"1 parsec"}}]}`, executors.CodeInvalidInput, "steps[0].margins.top"},
		{`{"url":"https://a.test/","steps":[{"action":"tab"}]}`, executors.CodeInvalidInput, "steps[0].open"},
		{`{"url":"https://a.test/","steps":[{"action":"extract","fields":{"a b":"x"}}]}`, executors.CodeInvalidInput, "steps[0].fields"},
		{`{"url":"https://a.test/","steps":[` + strings.Repeat(`{"action":"reload"},`, 50) + `{"action":"reload"}]}`, executors.CodeInvalidInput, "steps"},
		{`{"op":"extract","url":"https://a.test/","fields":{"a":""}}`, executors.CodeInvalidInput, "fields.a.selector"},
		{`{"op":"pdf","url":"https://a.test/","scale":9}`, executors.CodeInvalidInput, "scale"},
		{`{"op":"fetch","url":"https://a.test/","steps":[]}`, executors.CodeInvalidInput, "steps"},
		{`{"op":"search","query":"x"}`, executors.CodeUnsupported, "op"},
	} {
		c := checker(t, nil)
		task := executors.Task{Type: "playwright", Payload: json.RawMessage(tt.payload)}
		op, err := executors.Op(task, types()[0])
		if err == nil {
			_, err = c.decode(task, op)
		}
		e := executors.AsError(err)
		if e == nil || e.Code != tt.code || e.Field != tt.field {
			t.Errorf("%.120s: error = %+v, want %s of %s", tt.payload, e, tt.code, tt.field)
		}
	}
}

func TestSettingsTellEveryMistake(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	s.Concurrency, s.NodePath, s.Allow, s.Ports = 9, "node", []string{"a b"}, []int{0}
	s.Search, s.Recycle.Age = SearchSettings{URL: "http://s.test/"}, 0
	err := s.Validate()
	for _, part := range []string{"concurrency", "node_path", "allow[0]", "ports[0]", "{query}", "recycle.age"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not tell %q", err, part)
		}
	}
}

func TestSafeName(t *testing.T) {
	t.Parallel()
	for suggested, want := range map[string]string{
		"report.pdf": "report.pdf", "../../x": "x", "_.._evil.bin": "evil.bin", "": "download", "..": "download",
		"Größe.txt": "Gr__e.txt", strings.Repeat("a", 200) + ".tar": strings.Repeat("a", 76) + ".tar",
	} {
		if got := safeName(suggested); got != want {
			t.Errorf("safeName(%q) = %q, want %q", suggested, got, want)
		}
	}
}

// Whatever a payload holds, it is refused or becomes a plan.
func FuzzPayload(f *testing.F) {
	f.Add(`{"url":"https://a.test/","steps":[{"action":"click","selector":"a","nth":1}]}`)
	f.Add(`{"op":"extract","fields":{"a":{"selector":"x","all":true}},"url":"http://127.0.0.1:8000/"}`)
	f.Add(`{"op":"pdf","url":"https://a.test/","margins":{"top":"1cm"},"cookies":[{"name":"a","value":"b"}]}`)
	f.Add(`{"session":{"id":"a"},"egress":{"hosts":["a.test"]},"headers":{"X-A":"b"},"viewport":{"scale":2}}`)
	c := checker(f, func(s *Settings) { s.AllowEvaluate, s.AllowData = true, true })
	f.Fuzz(func(t *testing.T, payload string) {
		task := executors.Task{Type: "playwright", Payload: json.RawMessage(payload)}
		op, err := executors.Op(task, types()[0])
		if err != nil {
			return
		}
		own := *c
		p, err := own.decode(task, op)
		if err != nil {
			e := executors.AsError(err)
			if e.Code == executors.CodeEngineError {
				t.Errorf("%q: %v", payload, err)
			}
			return
		}
		if p.URL == "" && p.Session == nil && len(p.steps) == 0 {
			t.Errorf("%q became a plan without a page", payload)
		}
		p.redactor(task).message(payload)
	})
}

// Whatever a page suggests as a name, the artifact's name is one the agent takes.
func FuzzSafeName(f *testing.F) {
	f.Add("../../etc/passwd")
	f.Add(strings.Repeat("é", 90) + "." + strings.Repeat("x", 90))
	f.Fuzz(func(t *testing.T, suggested string) {
		name := safeName(suggested)
		if len(name) == 0 || len(name) > 80 || name[0] == '.' || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") != "" {
			t.Errorf("safeName(%q) = %q", suggested, name)
		}
	})
}
