package playwright

import (
	"bytes"
	"fmt"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

const form = `<!doctype html><title>Form</title>
<form action="/posted"><input id=name name=name><input id=pw type=password name=pw>
<select id=color name=color><option value=r>Red<option value=g>Green</select>
<input type=checkbox id=box><input type=file id=up onchange="show(this.files[0].name + ' ' + this.files[0].size)">
<button id=go type=submit>Go</button></form>
<button id=twice ondblclick="show('double')">b</button><button class=many>1</button><button class=many>2</button>
<p id=out></p><a id=dl href=/file download>get</a><a href=/second id=next>Next page</a>
<div style="height:5000px"></div>
<script>function show(t){out.textContent=t}; box.onchange=e=>show('box '+box.checked);
document.querySelector('.many').onmouseover=()=>show('hovered'); addEventListener('keydown',e=>{if(e.key==='F2')show('F2')});
addEventListener('scroll',()=>show('scrolled'));
console.log('ready for work')</script>`

func formSite(t testing.TB) (*Executor, string) {
	t.Helper()
	web := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		switch r.URL.Path {
		case "/":
			_, _ = fmt.Fprint(w, form)
		case "/posted":
			_, _ = fmt.Fprintf(w, "<title>Posted</title><p id=got>%s|%s|%s</p>", r.FormValue("name"), r.FormValue("pw"), r.FormValue("color"))
		case "/second":
			_, _ = fmt.Fprint(w, "<title>Second</title><ul><li><a href=/a>one</a><li><a href=/b>two</a></ul>")
		case "/headers":
			_, _ = fmt.Fprintf(w, "%s|%s|%s|%s", r.Header.Get("X-Mine"), r.UserAgent(), r.Header.Get("Accept-Language"), r.Header.Get("Cookie"))
		case "/file":
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Disposition", `attachment; filename="../../x.bin"`)
			_, _ = w.Write(bytes.Repeat([]byte("x"), 1000))
		default:
			http.NotFound(w, r)
		}
	})
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "up.txt"), []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := testSettings(t, at(web))
	s.AllowEvaluate = true
	s.InputRoots = executors.InputRoots{root}
	return newExecutor(t, s, egress.Options{}), web.URL
}

func TestSteps(t *testing.T) {
	t.Parallel()
	e, url := formSite(t)
	up := filepath.Join(e.settings.InputRoots[0], "up.txt")
	for _, tt := range []struct {
		name, steps string
		value       any    // of the step read
		title       string // "" is Form
	}{
		{"fill and submit", `{"action":"fill","selector":"#name","value":"Ada"},{"action":"select","selector":"#color","values":["Green"]},{"action":"click","selector":"text=Go"},{"action":"get_text","selector":"#got","as":"v"}`, "Ada||g", "Posted"},
		{"type and press", `{"action":"type","selector":"#name","text":"Bob"},{"action":"press","selector":"#name","key":"Enter"},{"action":"get_text","selector":"#got","as":"v"}`, "Bob||r", "Posted"},
		{"check", `{"action":"check","selector":"#box"},{"action":"get_text","selector":"#out","as":"v"}`, "box true", ""},
		{"hover", `{"action":"hover","selector":".many","nth":0},{"action":"get_text","selector":"#out","as":"v"}`, "hovered", ""},
		{"double click by role", `{"action":"click","selector":"role=button[name=\"b\"]","count":2},{"action":"get_text","selector":"#out","as":"v"}`, "double", ""},
		{"press on the page", `{"action":"press","key":"F2"},{"action":"get_text","selector":"xpath=//p[@id='out']","as":"v"}`, "F2", ""},
		{"scroll", `{"action":"scroll","dy":500},{"action":"wait_for","selector":"text=scrolled"},{"action":"get_text","selector":"#out","as":"v"}`, "scrolled", ""},
		{"upload", `{"action":"upload","selector":"#up","path":"` + up + `"},{"action":"get_text","selector":"#out","as":"v"}`, "up.txt 5", ""},
		{"attribute", `{"action":"get_attribute","selector":"#next","attribute":"href","as":"v"}`, "/second", ""},
		{"no attribute", `{"action":"get_attribute","selector":"#next","attribute":"rel","as":"v"}`, nil, ""},
		{"html", `{"action":"get_html","selector":"#out","as":"v"}`, `<p id="out"></p>`, ""},
		{"evaluate an expression", `{"action":"evaluate","script":"1 + 2 // sum","as":"v"}`, 3.0, ""},
		{"evaluate a function", `{"action":"evaluate","script":"async () => ({a: [document.title]})","as":"v"}`, map[string]any{"a": []any{"Form"}}, ""},
		{"history", `{"action":"navigate","url":"` + url + `/second"},{"action":"back"},{"action":"forward"},{"action":"reload"},{"action":"wait_for","url_glob":"**/second"},{"action":"get_text","selector":"li","nth":-1,"as":"v"}`, "two", "Second"},
		{"tabs", `{"action":"tab","open":true,"url":"` + url + `/second"},{"action":"tab","select":0},{"action":"tab","select":1},{"action":"tab","close":true},{"action":"wait_for","ms":1},{"action":"get_attribute","selector":"#name","attribute":"id","as":"v"}`, "name", ""},
		{"extract", `{"action":"navigate","url":"` + url + `/second"},{"action":"extract","as":"v","fields":{"first":{"selector":"a","all":true,"attribute":"href"},"none":{"selector":"h1","optional":true},"list":{"selector":"ul","html":false}}}`,
			map[string]any{"first": []any{"/a", "/b"}, "none": nil, "list": "one\ntwo"}, "Second"},
		{"cookies", `{"action":"set_cookies","cookies":[{"name":"k","value":"valuable"}]},{"action":"get_cookies","as":"v"}`,
			[]any{map[string]any{"name": "k", "domain": "127.0.0.1", "path": "/", "expires": -1.0, "http_only": false, "secure": false, "same_site": "Lax"}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := e.do(t, `{"url":"`+url+`/","steps":[`+tt.steps+`]}`, nil).good(t)
			if got, want := fmt.Sprint(d.output.Values["v"]), fmt.Sprint(tt.value); got != want {
				t.Errorf("value = %s, want %s", got, want)
			}
			if want := orElse(tt.title, "Form"); d.output.Title != want {
				t.Errorf("title = %q, want %q", d.output.Title, want)
			}
			if len(d.output.Console) == 0 || d.output.Console[0].Text != "ready for work" {
				t.Errorf("console = %v", d.output.Console)
			}
		})
	}
}

func TestUploadOfAnArtifact(t *testing.T) {
	t.Parallel()
	e, url := formSite(t)
	path := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(path, []byte("123"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := strings.Repeat("ab", 32)
	raw, err := e.Execute(soon(t), executors.Task{
		Type: "playwright", SpoolDir: t.TempDir(), Inputs: map[string]string{sum: path},
		Payload: []byte(`{"url":"` + url + `/","steps":[{"action":"upload","selector":"#up","artifact":"sha256:` + sum + `","name":"a.txt"},{"action":"get_text","selector":"#out","as":"v"}]}`),
	})
	if err != nil || !strings.Contains(string(raw.Output), `"v":"a.txt 3"`) {
		t.Errorf("output = %s, %v", raw.Output, err)
	}
}

func TestOperations(t *testing.T) {
	t.Parallel()
	e, url := formSite(t)
	d := e.do(t, `{"op":"fetch","url":"`+url+`/headers","headers":{"X-Mine":"header-value"},"user_agent":"Robot/1","locale":"de-DE","cookies":[{"name":"a","value":"cookie-value"}]}`, nil).good(t)
	// The page echoes what it was sent; only texts that pages show on their own are left as they are.
	if !strings.Contains(*d.output.Text, "header-value|Robot/1|de-DE|a=cookie-value") || d.output.Headers["content-type"] == "" || !strings.Contains(*d.output.HTML, "<body>") {
		t.Errorf("fetch: %s", d.raw)
	}
	d = e.do(t, `{"op":"extract","url":"`+url+`/second","fields":{"title":"title","links":{"selector":"a","all":true}}}`, nil).good(t)
	if got := fmt.Sprint(d.output.Data); got != "map[links:[one two] title:Second]" {
		t.Errorf("extract: %s", got)
	}
	d = e.do(t, `{"op":"screenshot","url":"`+url+`/","selector":"#go","type":"jpeg","quality":50}`, nil).good(t)
	if image := d.file(t, "screenshot.jpg"); !bytes.HasPrefix(image, []byte("\xff\xd8")) {
		t.Error("no JPEG")
	}
	d = e.do(t, `{"op":"pdf","url":"`+url+`/","landscape":true,"margins":{"top":"1cm"},"pages":"1"}`, nil).good(t)
	if !bytes.HasPrefix(d.file(t, "page.pdf"), []byte("%PDF")) {
		t.Error("no PDF")
	}
	d = e.do(t, `{"url":"`+url+`/","steps":[{"action":"mhtml"},{"action":"screenshot"},{"action":"screenshot"}]}`, nil).good(t)
	if !bytes.Contains(d.file(t, "page.mhtml"), []byte("multipart/related")) {
		t.Error("no MHTML")
	}
	if _, err := png.Decode(bytes.NewReader(d.file(t, "screenshot-2.png"))); err != nil {
		t.Error(err)
	}
	d = e.do(t, `{"op":"search","query":"go"}`, nil).wants(t, executors.CodeUnsupported, "executors.playwright.search.url")
	if len(d.progress) != 0 {
		t.Error("a refused task has begun")
	}
}

func TestSearchReadsResultsOfTheConfiguredEngine(t *testing.T) {
	t.Parallel()
	web := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.FormValue("q") == "nothing" {
			return
		}
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "<div class=r><h2><a href=/%d>%s %d</a></h2><p>snippet %d</p></div>", i, r.FormValue("q"), i, i)
		}
	})
	s := testSettings(t, at(web))
	s.Search = SearchSettings{URL: web.URL + "/?q={query}", Result: ".r", Link: "h2 a", Snippet: "p"}
	e := newExecutor(t, s, egress.Options{})
	d := e.do(t, `{"op":"search","query":"a & b","max_results":2}`, nil).good(t)
	if got, want := fmt.Sprint(d.output.Results), fmt.Sprintf("[map[snippet:snippet 0 title:a & b 0 url:%s/0] map[snippet:snippet 1 title:a & b 1 url:%[1]s/1]]", web.URL); got != want {
		t.Errorf("results = %s, want %s", got, want)
	}
	e.do(t, `{"op":"search","query":"nothing","step_timeout_ms":300}`, nil).wants(t, executors.CodeElementNotFound, "executors.playwright.search.result")
}

func TestFailuresTellTheirRepair(t *testing.T) {
	t.Parallel()
	e, url := formSite(t)
	for _, tt := range []struct {
		name, steps string
		code        executors.Code
		says        string
		field       string
	}{
		{"no element", `{"action":"click","selector":"#nowhere","timeout_ms":300}`, executors.CodeElementNotFound, "steps[0]: no element matched #nowhere within 300 ms on " + url, "steps[0].selector"},
		{"several elements", `{"action":"click","selector":".many"}`, executors.CodeElementAmbiguous, "2 elements match .many", "steps[0].selector"},
		{"an element that cannot be used", `{"action":"wait_for","ms":1},{"action":"fill","selector":"#go","value":"x"}`, executors.CodeEngineError, "steps[1]", ""},
		{"a bad selector", `{"action":"click","selector":"a[["}`, executors.CodeInvalidInput, "a[[ is not a selector", "steps[0].selector"},
		{"a bad key", `{"action":"press","key":"Nokey"}`, executors.CodeInvalidInput, "Nokey", "steps[0].key"},
		{"an exception", `{"action":"evaluate","script":"() => {\n\n throw new Error('no good') }"}`, executors.CodeScriptError, "no good (line 3", "steps[0].script"},
		{"a huge value", `{"action":"evaluate","script":"'x'.repeat(1e6)"}`, executors.CodeScriptError, "1000002 characters", "steps[0].script"},
		{"a script without end", `{"action":"evaluate","script":"() => { while (true) {} }","timeout_ms":300}`, executors.CodeDeadlineExceeded, "raise step_timeout_ms", ""},
		{"a tab that is not there", `{"action":"tab","select":3}`, executors.CodeNotFound, "1 are open", ""},
		{"a page in place of a file", `{"action":"download","url":"` + url + `/second"}`, executors.CodeNavigationFailed, "not a file", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := e.do(t, `{"url":"`+url+`/","steps":[`+tt.steps+`]}`, nil).wants(t, tt.code, tt.says)
			if d.err.Field != tt.field && tt.field != "" {
				t.Errorf("field = %q, want %q", d.err.Field, tt.field)
			}
			n := len(d.output.Steps)
			if n == 0 || d.output.Steps[n-1].OK || d.output.Steps[n-1].Error.Code != tt.code {
				t.Errorf("steps = %s", d.raw)
			}
			if tt.code != executors.CodeDeadlineExceeded { // the page lives
				if _, err := png.Decode(bytes.NewReader(d.file(t, "failure.png"))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	d := e.do(t, `{"url":"`+url+`/","on_error":"continue","steps":[{"action":"click","selector":"#no","timeout_ms":100},{"action":"get_text","selector":"#go"}]}`, nil).good(t)
	if len(d.output.Steps) != 2 || d.output.Steps[0].OK || d.output.Steps[1].Value != "Go" {
		t.Errorf("with on_error continue: %s", d.raw)
	}
}

func TestDownloads(t *testing.T) {
	t.Parallel()
	e, url := formSite(t)
	for name, payload := range map[string]string{
		"by a click":             `{"url":"` + url + `/","steps":[{"action":"download","selector":"#dl"}]}`,
		"by an address":          `{"url":"` + url + `/","steps":[{"action":"download","url":"` + url + `/file"}]}`,
		"by navigation":          `{"url":"` + url + `/file"}`,
		"by a click on its own":  `{"url":"` + url + `/","steps":[{"action":"click","selector":"#dl"},{"action":"wait_for","ms":3000}]}`,
		"by fetch of attachment": `{"op":"fetch","url":"` + url + `/file"}`,
	} {
		t.Run(name, func(t *testing.T) {
			d := e.do(t, payload, nil).good(t)
			if len(d.output.Downloads) != 1 || d.output.Downloads[0].Bytes != 1000 || d.output.Downloads[0].Error != "" {
				t.Fatalf("downloads = %s", d.raw)
			}
			if data := d.file(t, "x.bin"); len(data) != 1000 {
				t.Errorf("%d bytes", len(data))
			}
			for _, dir := range e.pool.tmp {
				if left, _ := os.ReadDir(filepath.Join(dir, "downloads")); len(left) != 0 {
					t.Errorf("the browser keeps %v", left)
				}
			}
		})
	}
}
