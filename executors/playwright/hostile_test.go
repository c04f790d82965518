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
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// hostileSite serves pages that do what a visitor would not want.
func hostileSite(t testing.TB) string {
	t.Helper()
	pages := map[string]string{
		"/good":         `<title>Good</title>ok`,
		"/alert":        `<title>Alert</title><script>alert('stop'); confirm('sure?'); prompt('name'); print()</script>shown`,
		"/alerts":       `<script>while(1) alert('again')</script>`,
		"/leave":        `<title>Leave</title><script>onbeforeunload = e => { e.preventDefault(); return 'stay' }</script><a href=/good>go</a>`,
		"/spin":         `<title>Spin</title><body onload="setTimeout(() => { while(true) {} }, 100)">spin`,
		"/spin-at-once": `<script>while(true) {}</script>`,
		"/heap":         `<script>const a = []; while (true) a.push(new Array(1e6).fill(a.length + 0.5))</script>`,
		"/buffers":      `<script>const b = []; setInterval(() => { const u = new Uint8Array(64 << 20); u.fill(1); b.push(u) }, 1)</script>buffers`,
		"/popups": `<title>Popups</title><script>const all = []; for (let i = 0; i < 50; i++) all.push(open('/good?' + i))
			setInterval(() => { if (all.some(w => w && w.closed)) document.title = out.textContent = 'closed' }, 20)</script><p id=out></p>`,
		"/popup-bomb": `<script>setInterval(() => open('/good'), 1)</script>bomb`,
		"/font":       `<style>@font-face { font-family: slow; src: url(/never) } h1 { font-family: slow }</style><h1>A heading</h1>`,
		"/image":      `<title>Image</title><img src=/never>text`,
		"/tall":       `<body style="margin:0"><div style="height:200000px;background:linear-gradient(red,blue)"></div>`,
		"/talk":       `<title>Talk</title><script>let n = 0; setInterval(() => { for (let i = 0; i < 10; i++) console.log('talk ' + n++); if (n > 200) out.textContent = 'told' }, 10)</script><p id=out></p>`,
		"/requests":   `<script>setInterval(() => { for (let i = 0; i < 20; i++) fetch('/good?' + Math.random()) }, 1)</script>requests`,
		"/crowd":      `<body><script>document.body.innerHTML = '<div>x</div>'.repeat(200000)</script>`,
		"/print":      `<title>Print</title><script>onbeforeprint = () => { while(true) {} }</script>print`,
		"/throw":      `<title>Throw</title><script>Promise.reject({toString() { throw 1 }}); setTimeout("throw null")</script><script>syntax error(</script>`,
	}
	web := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/never":
			<-r.Context().Done()
		case r.URL.Path == "/stream":
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case r.URL.Path == "/loop":
			http.Redirect(w, r, "/loop?"+r.URL.RawQuery+"x", http.StatusFound)
		case r.URL.Path == "/bytes":
			w.Header().Set("Content-Type", "text/plain")
			for block := bytes.Repeat([]byte("x"), 1<<20); r.Context().Err() == nil; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		case r.URL.Path == "/endless":
			w.Header().Set("Content-Disposition", `attachment; filename="endless.bin"`)
			w.Header().Set("Content-Type", "application/octet-stream")
			for block := bytes.Repeat([]byte("x"), 1<<20); r.Context().Err() == nil; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		default:
			page, ok := pages[r.URL.Path]
			if !ok {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = fmt.Fprint(w, page)
		}
	})
	return web.URL
}

// A hostile case is a task on one of the pages above.
type hostile struct {
	name    string
	payload string
	code    executors.Code // "" is success, "*" either that or a refusal of what is too much
	says    string
	check   func(*testing.T, *done)
}

func TestHostilePages(t *testing.T) {
	t.Parallel()
	tryHostile(t, []hostile{
		{"dialogs are dismissed and told", `{"url":"URL/alert","steps":[{"action":"get_text","as":"v"}]}`, "", "", func(t *testing.T, d *done) {
			if len(d.output.Dialogs) != 3 || d.output.Dialogs[0].Message != "stop" || d.output.Values["v"] != "shown" {
				t.Errorf("output = %s", d.raw)
			}
		}},
		{"a page that does not want to be left", `{"url":"URL/leave","steps":[{"action":"click","selector":"a"},{"action":"wait_for","url_glob":"**/good"}]}`, "", "", nil},
		{"a heap without end", `{"url":"URL/heap"}`, executors.CodeBrowserCrashed, "", nil},
		{"buffers without end", `{"url":"URL/buffers","steps":[{"action":"wait_for","selector":"#never","timeout_ms":60000}]}`, executors.CodeBrowserCrashed, "renderer_memory", nil},
		{"fifty popups", `{"url":"URL/popups","steps":[{"action":"wait_for","selector":"text=closed"}]}`, "", "", func(t *testing.T, d *done) {
			if d.output.PopupsShut == 0 {
				t.Errorf("no popup was closed: %s", d.raw)
			}
		}},
		{"popups without end", `{"url":"URL/popup-bomb","steps":[{"action":"wait_for","selector":"#never","timeout_ms":60000}]}`, executors.CodeTooLarge, "", nil},
		{"a font that never comes", `{"url":"URL/font","steps":[{"action":"screenshot"},{"action":"pdf"}]}`, "", "", func(t *testing.T, d *done) {
			if _, err := png.Decode(bytes.NewReader(d.file(t, "screenshot.png"))); err != nil {
				t.Error(err)
			}
		}},
		{"an image that never comes", `{"url":"URL/image","steps":[{"action":"screenshot"}]}`, "", "", nil},
		{"a page as tall as a tower", `{"url":"URL/tall","steps":[{"action":"screenshot","full_page":true,"timeout_ms":60000}]}`, "", "", func(t *testing.T, d *done) {
			image, err := png.DecodeConfig(bytes.NewReader(d.file(t, "screenshot.png")))
			if err != nil || image.Height != maxPixels || len(d.result.Warnings) != 1 || d.result.Warnings[0].Code != "CLIPPED" {
				t.Errorf("height %d, %v, warnings %v", image.Height, err, d.result.Warnings)
			}
		}},
		{"a console without end", `{"url":"URL/talk","steps":[{"action":"wait_for","selector":"text=told"}]}`, "", "", func(t *testing.T, d *done) {
			if len(d.output.Console) != maxConsole {
				t.Errorf("%d messages", len(d.output.Console))
			}
		}},
		{"requests without end", `{"url":"URL/requests","steps":[{"action":"wait_for","selector":"#never","timeout_ms":60000}]}`, executors.CodeTooLarge, "max_requests", nil},
		{"redirects without end", `{"url":"URL/loop"}`, executors.CodeNavigationFailed, "ERR_TOO_MANY_REDIRECTS", nil},
		{"bytes without end", `{"url":"URL/bytes"}`, executors.CodeTooLarge, "max_page_bytes", nil},
		{"a download without end", `{"url":"URL/good","steps":[{"action":"download","url":"URL/endless","timeout_ms":60000}]}`, executors.CodeTooLarge, "max_download_bytes", nil},
		{"a crowd of elements, printed", `{"url":"URL/crowd","steps":[{"action":"pdf","timeout_ms":1500}],"nav_timeout_ms":60000}`, "*", "", nil},
		{"a crowd of elements", `{"url":"URL/crowd","steps":[{"action":"screenshot","full_page":true,"timeout_ms":3000}],"nav_timeout_ms":60000}`, "*", "", nil},
		{"exceptions of all kinds", `{"url":"URL/throw","steps":[{"action":"wait_for","ms":200}]}`, "", "", nil},
	})
}

func TestPagesThatKeepOneWaiting(t *testing.T) {
	t.Parallel()
	tryHostile(t, []hostile{
		{"dialogs without end", `{"url":"URL/alerts","nav_timeout_ms":1500}`, executors.CodeNavigationFailed, "nav_timeout_ms", nil},
		{"a script without end after load", `{"url":"URL/spin","steps":[` + strings.Repeat(`{"action":"get_text","timeout_ms":700},{"action":"wait_for","ms":200},`, 24) + `{"action":"get_text","timeout_ms":700}]}`, executors.CodeDeadlineExceeded, "did not end within 700 ms", nil},
		{"a script without end before load", `{"url":"URL/spin-at-once","nav_timeout_ms":800}`, executors.CodeNavigationFailed, "", nil},
		{"an image that never comes, waited for", `{"url":"URL/image","wait_until":"load","nav_timeout_ms":700}`, executors.CodeNavigationFailed, "wait_until", nil},
		{"a page that never falls quiet", `{"url":"URL/image","wait_until":"networkidle","nav_timeout_ms":6000}`, "", "", func(t *testing.T, d *done) {
			if len(d.result.Warnings) != 1 || d.result.Warnings[0].Code != "NETWORK_NOT_IDLE" {
				t.Errorf("warnings = %v", d.result.Warnings)
			}
		}},
		{"an answer without end", `{"url":"URL/stream","nav_timeout_ms":700}`, executors.CodeNavigationFailed, "", nil},
		{"a PDF that takes for ever", `{"url":"URL/print","steps":[{"action":"pdf","timeout_ms":1500}],"nav_timeout_ms":60000}`, executors.CodeDeadlineExceeded, "step_timeout_ms", nil},
	})
}

// tryHostile runs the cases. After a hostile page the next task succeeds, and
// nothing is left: no slot, no context, no file.
func tryHostile(t *testing.T, cases []hostile) {
	url := hostileSite(t)
	s := testSettings(t, strings.TrimPrefix(url, "http://"))
	s.Recycle.CheckInterval = 100 * time.Millisecond
	s.MaxPageBytes = 8 * mib
	s.MaxDownloadBytes = 16 * mib
	s.MaxRequests = 200
	s.AllowEvaluate = true
	e := newExecutor(t, s, egress.Options{})
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			d := e.do(t, strings.ReplaceAll(tt.payload, "URL", url), nil)
			switch tt.code {
			case "*": // it ends: done, too large or too slow, as the machine has it
				if d.err != nil && d.err.Code != executors.CodeTooLarge && d.err.Code != executors.CodeDeadlineExceeded && !strings.Contains(d.err.Error(), "renderer_memory") {
					t.Errorf("outcome: %v", d.err)
				}
			case "":
				d.good(t)
			default:
				d.wants(t, tt.code, tt.says)
			}
			if tt.check != nil {
				tt.check(t, d)
			}
			e.do(t, `{"url":"`+url+`/good"}`, nil).good(t)
			e.nothingOpen(t)
			e.noFiles(t)
		})
	}
}

// noFiles checks that no download is left with the browser.
func (e *Executor) noFiles(t testing.TB) {
	t.Helper()
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	for _, dir := range e.pool.tmp {
		if left, err := os.ReadDir(filepath.Join(dir, "downloads")); err != nil || len(left) != 0 {
			t.Errorf("the browser keeps %v, %v", left, err)
		}
	}
}
