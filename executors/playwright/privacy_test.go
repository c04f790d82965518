package playwright

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/executorstest"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// echo serves pages that show what they were sent, and keep it.
func echo(t testing.TB) string {
	t.Helper()
	web := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/set":
			http.SetCookie(w, &http.Cookie{Name: "who", Value: r.FormValue("who")})
			_, _ = fmt.Fprintf(w, "<script>localStorage.who='%s'; caches.open('c').catch(()=>0); indexedDB.open('%[1]s')</script>", r.FormValue("who"))
		case "/login":
			_, _ = fmt.Fprint(w, `<form action=/in><input id=u name=u><input id=p name=p type=password><button>in</button></form><script>
				document.querySelector('#p').oninput = e => { console.log('typed ' + e.target.value); document.title = e.target.value; alert(e.target.value) }</script>`)
		case "/in":
			_, _ = fmt.Fprintf(w, "<title>%s</title><p id=p>%[1]s</p><a href='?p=%[1]s'>x</a>", r.FormValue("p"))
		default:
			_, _ = fmt.Fprintf(w, "<p>%s</p><b></b><script>document.querySelector('b').textContent = localStorage.who</script>", r.Header.Get("Cookie"))
		}
	})
	return web.URL
}

func TestTasksAreIsolated(t *testing.T) {
	t.Parallel()
	url := echo(t)
	e := newExecutor(t, testSettings(t, strings.TrimPrefix(url, "http://")), egress.Options{})
	var both sync.WaitGroup
	for _, who := range []string{"ada", "bob"} {
		both.Go(func() {
			for range 3 {
				d := e.do(t, `{"url":"`+url+`/set?who=`+who+`","steps":[{"action":"navigate","url":"`+url+`/show"},{"action":"get_text","selector":"p","as":"cookie"},{"action":"get_text","selector":"b","as":"store"}]}`, nil)
				if d.err != nil || d.output.Values["cookie"] != "who="+who || d.output.Values["store"] != who {
					t.Errorf("%s: %v, %s", who, d.err, d.raw)
				}
			}
		})
	}
	both.Wait()
	d := e.do(t, `{"url":"`+url+`/show","steps":[{"action":"get_text","selector":"p","as":"cookie"},{"action":"get_text","selector":"b","as":"store"}]}`, nil).good(t)
	if d.output.Values["cookie"] != "" || d.output.Values["store"] != "" {
		t.Errorf("a later task sees %s", d.raw)
	}
}

// A secret is in no result, event, log or error, whatever the page does.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	const secret = `s3cr&t <"value">`
	url := echo(t)
	e := newExecutor(t, testSettings(t, strings.TrimPrefix(url, "http://")), egress.Options{})
	secrets := map[string]string{"password": secret, "short": "abc"}
	run := func(steps string) *done {
		return e.do(t, `{"url":"`+url+`/login","steps":[{"action":"fill","selector":"#p","secret_ref":"password"},`+steps+`]}`, secrets)
	}
	absent := func(d *done) {
		t.Helper()
		raw, _ := json.Marshal(d.err)
		all := d.raw + string(raw) + fmt.Sprint(d.progress, d.files, d.result.Warnings)
		for _, form := range []string{secret, "s3cr&t", "s3cr%26t", "s3cr&amp;t", `s3cr&t`} {
			if strings.Contains(all, form) {
				t.Errorf("the secret is in %s", all)
			}
		}
	}
	d := run(`{"action":"click","selector":"button"},{"action":"get_text","selector":"#p"},{"action":"get_html","selector":"body"},{"action":"get_attribute","selector":"a","attribute":"href"},{"action":"extract","fields":{"a":"#p"}}`).good(t)
	if !strings.Contains(d.raw, redacted) || len(d.output.Console) == 0 || len(d.output.Dialogs) == 0 {
		t.Errorf("the page has told nothing: %s", d.raw)
	}
	absent(d)
	absent(run(`{"action":"click","selector":"text=s3cr&t <\"value\">","timeout_ms":200}`).wants(t, executors.CodeElementNotFound))
	run(`{"action":"fill","selector":"#u","secret_ref":"passwort"}`).wants(t, executors.CodeNotFound, "did you mean password")
	run(`{"action":"fill","selector":"#u","secret_ref":"short"}`).wants(t, executors.CodeInvalidInput, "fewer than 4")
	// Values in clear are kept out of what pages and errors tell.
	d = e.do(t, `{"url":"`+url+`/login","headers":{"Authorization":"Bearer header-secret"},"cookies":[{"name":"c","value":"cookie-secret"}],"steps":[
		{"action":"fill","selector":"#p","value":"fill-secret"},{"action":"click","selector":"button"},{"action":"click","selector":"text=fill-secret","nth":7,"timeout_ms":200}]}`, nil)
	for _, s := range []string{"header-secret", "cookie-secret", "fill-secret"} {
		if raw, _ := json.Marshal(d.err); strings.Contains(d.raw+string(raw), s) {
			t.Errorf("%s is in %s %s", s, d.raw, raw)
		}
	}
}

func TestHeadersGoToTheirHostOnly(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]string{}
	note := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			seen[name+r.URL.Path] = r.Header.Get("Authorization")
			w.Header().Set("Content-Type", "text/html")
			if r.URL.Path == "/" {
				_, _ = fmt.Fprintf(w, "<img src='%s/img'><img src=/img>", r.FormValue("other"))
			}
		}
	}
	mine, other := serve(t, note("mine")), serve(t, note("other"))
	e := newExecutor(t, testSettings(t, at(mine), at(other)), egress.Options{})
	e.do(t, `{"url":"`+mine.URL+`/?other=`+other.URL+`","wait_until":"load","headers":{"authorization":"Bearer token"}}`, nil).good(t)
	mu.Lock()
	defer mu.Unlock()
	if seen["mine/"] != "Bearer token" || seen["mine/img"] != "Bearer token" || seen["other/img"] != "" {
		t.Errorf("seen: %q", seen)
	}
	if _, asked := seen["other/img"]; !asked {
		t.Error("the other host was not asked")
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	url := echo(t)
	e := newExecutor(t, testSettings(t, strings.TrimPrefix(url, "http://")), egress.Options{})
	in := func(session, rest string) *done {
		return e.do(t, `{"session":`+session+rest+`}`, nil)
	}
	show := `,"steps":[{"action":"navigate","url":"` + url + `/show"},{"action":"get_text","selector":"p","as":"cookie"}]`
	in(`{"id":"a","resume":true}`, show).wants(t, executors.CodeSessionLost, "session a is not on this worker", "without resume")
	d := in(`{"id":"a"}`, `,"url":"`+url+`/set?who=ada"`).good(t)
	if d.output.Session.Resumed || time.Until(d.output.Session.Until) <= 0 {
		t.Errorf("session = %+v", d.output.Session)
	}
	d = in(`{"id":"a","resume":true}`, show).good(t)
	if d.output.Values["cookie"] != "who=ada" || !d.output.Session.Resumed {
		t.Errorf("the session does not go on: %s", d.raw)
	}
	if d = in(`{"id":"b","keep_s":0}`, show).good(t); d.output.Values["cookie"] != "" {
		t.Errorf("another session sees %s", d.raw)
	}
	in(`{"id":"b","resume":true}`, show).wants(t, executors.CodeSessionLost)
	for i := range maxSessions - 1 {
		in(fmt.Sprintf(`{"id":"more-%d"}`, i), show).good(t)
	}
	in(`{"id":"full"}`, show).wants(t, executors.CodeResourceExhausted, "5 sessions")
	e.browserNow(t).kill()
	executorstest.Await(t, "the sessions to go with their browser", func() bool {
		e.sessions.mu.Lock()
		defer e.sessions.mu.Unlock()
		return len(e.sessions.byName) == 0
	})
	in(`{"id":"a","resume":true}`, show).wants(t, executors.CodeSessionLost)
	in(`{"id":"a"}`, `,"url":"`+url+`/show","steps":[{"action":"click","selector":"#no","timeout_ms":100}]`).wants(t, executors.CodeElementNotFound)
	in(`{"id":"a","resume":true,"keep_s":1}`, show).good(t) // a failed step does not end a session
	executorstest.Await(t, "the session's time to be over", func() bool {
		e.sessions.mu.Lock()
		defer e.sessions.mu.Unlock()
		return len(e.sessions.byName) == 0
	})
}

// The main frame's refusal is the task's; the others are listed.
func TestEgress(t *testing.T) {
	t.Parallel()
	hits := make(chan string, 100)
	inner := serve(t, func(_ http.ResponseWriter, r *http.Request) { hits <- r.URL.Path })
	port := inner.URL[strings.LastIndex(inner.URL, ":")+1:]
	web := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, inner.URL+"/redirect", http.StatusFound)
		case "/meta":
			_, _ = fmt.Fprintf(w, "<meta http-equiv=refresh content='0;url=%s/meta'>", inner.URL)
		case "/parts":
			_, _ = fmt.Fprintf(w, `<title>Parts</title><p id=out></p><script>let n = 0; const failed = () => { if (++n == 4) out.textContent = 'all failed' }</script>
				<img src=%s/img onerror=failed()><iframe src=%[1]s/frame></iframe><script>
				fetch('%[1]s/fetch').catch(failed); new WebSocket('ws://127.0.0.1:%s/ws').onerror = failed
				new Worker(URL.createObjectURL(new Blob(["fetch('%[1]s/worker').catch(() => postMessage(0))"]))).onmessage = failed</script>`, inner.URL, port)
		case "/link":
			_, _ = fmt.Fprintf(w, "<a href=%s/link>go</a>", inner.URL)
		}
	})
	e := newExecutor(t, testSettings(t, at(web)), egress.Options{})
	e.do(t, `{"url":"`+web.URL+`/redirect"}`, nil).wants(t, executors.CodeEgressDenied, "executors.playwright.allow")
	denied := strings.Repeat(`,{"action":"wait_for","ms":500}`, 40) // the first step after the denial fails
	e.do(t, `{"url":"`+web.URL+`/meta","steps":[`+denied[1:]+`]}`, nil).wants(t, executors.CodeEgressDenied)
	e.do(t, `{"url":"`+web.URL+`/link","steps":[{"action":"click","selector":"a"}`+denied+`]}`, nil).wants(t, executors.CodeEgressDenied)
	d := e.do(t, `{"url":"`+web.URL+`/parts","wait_until":"load","steps":[{"action":"wait_for","selector":"text=all failed"}]}`, nil).good(t)
	if len(d.output.Blocked) < 4 {
		t.Errorf("blocked requests: %v", d.output.Blocked)
	}
	for _, u := range []string{inner.URL, "http://localhost.:" + port, "http://0x7f000001:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://127.1:" + port, "http://localhost:" + port} {
		d := e.do(t, `{"url":"`+u+`/"}`, nil)
		if d.err == nil || len(d.progress) != 0 {
			t.Errorf("%s was opened: %v", u, d.err)
		}
	}
	select {
	case path := <-hits:
		t.Errorf("the inner server was asked for %s", path)
	default:
	}
	e.do(t, `{"url":"`+web.URL+`/parts","egress":{"hosts":["example.com"]}}`, nil).wants(t, executors.CodeEgressDenied, "egress.hosts")
	e.do(t, `{"url":"http://127.0.0.1:1/"}`, nil).wants(t, executors.CodeEgressDenied)
}

func TestUnreachableServersAreNavigationFailures(t *testing.T) {
	t.Parallel()
	gone := serve(t, nil)
	address := at(gone)
	gone.Close()
	e := newExecutor(t, testSettings(t, address, "nowhere.invalid"), egress.Options{})
	if d := e.do(t, `{"url":"http://`+address+`/"}`, nil).wants(t, executors.CodeNavigationFailed, "REFUSED"); d.err != nil && !d.err.Retryable {
		t.Error("a refused connection may not be tried again")
	}
	if d := e.do(t, `{"url":"http://nowhere.invalid/"}`, nil).wants(t, executors.CodeNavigationFailed, "NAME_NOT_RESOLVED"); d.err != nil && d.err.Retryable {
		t.Error("an unknown name may be tried again")
	}
}
