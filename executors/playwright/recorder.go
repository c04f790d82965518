package playwright

import (
	"errors"
	"net/url"
	"strings"
	"sync"
	"unicode/utf8"

	pw "github.com/mxschmitt/playwright-go"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// Caps of what a result tells about pages.
const (
	maxConsole   = 50
	maxDialogs   = 50
	maxBlocked   = 50
	maxRedirects = 20
	maxMessage   = 500 // characters of one message
)

// A recorder notes what happens in a surface during one task.
type recorder struct {
	requests int         // limit
	fail     func(error) // ends the task
	clean    func(string) string
	keep     func(pw.Download) (downloadEntry, error)

	work sync.WaitGroup // downloads

	mu      sync.Mutex
	count   int
	console []consoleEntry
	dialogs []dialogEntry
	popups  int
	visits  map[pw.Page]*visit
	files   []*file
}

// A consoleEntry is one message of a page.
type consoleEntry struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// A dialogEntry is a dialog that a page showed; all are dismissed.
type dialogEntry struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// A visit is the last navigation of a tab's main frame.
type visit struct {
	url       string
	status    int
	mark      string // of an answer that the guard gave itself
	headers   map[string]string
	redirects []string
	failure   string // net::ERR_...
}

// idleRecorder stands in while no task uses a surface that is kept.
func idleRecorder() *recorder {
	return &recorder{
		fail: func(error) {}, clean: func(s string) string { return s }, visits: make(map[pw.Page]*visit),
		keep: func(d pw.Download) (downloadEntry, error) { return downloadEntry{}, d.Cancel() },
	}
}

// request counts a request.
func (r *recorder) request(pw.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count++; r.count == r.requests+1 {
		r.fail(executors.Errorf(executors.CodeTooLarge,
			"the pages made more than %d requests (an administrator can raise executors.playwright.max_requests)", r.requests))
	}
}

// mainFrame returns the tab that a request is to fill, nil for all others.
func mainFrame(r pw.Request) pw.Page {
	if !r.IsNavigationRequest() {
		return nil
	}
	f := r.Frame()
	if f == nil || f.ParentFrame() != nil {
		return nil
	}
	return f.Page()
}

// response notes what filled a tab.
func (r *recorder) response(resp pw.Response) {
	page := mainFrame(resp.Request())
	if page == nil {
		return
	}
	v := &visit{url: resp.URL(), status: resp.Status(), headers: resp.Headers()}
	v.mark = v.headers[strings.ToLower(egress.HeaderMark)]
	for from := resp.Request().RedirectedFrom(); from != nil && len(v.redirects) < maxRedirects; from = from.RedirectedFrom() {
		v.redirects = append([]string{from.URL()}, v.redirects...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.visits[page] = v
}

// requestFailed notes why a tab could not be filled.
func (r *recorder) requestFailed(req pw.Request) {
	page := mainFrame(req)
	failure := req.Failure()
	if page == nil || failure == nil || strings.Contains(failure.Error(), "ERR_ABORTED") {
		return // an aborted navigation leaves the page as it was
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.visits[page] = &visit{url: req.URL(), failure: failure.Error()}
}

// visit returns the last navigation of a tab, nil if none was seen.
func (r *recorder) visit(page pw.Page) *visit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.visits[page]
}

// forget drops what was seen of a tab, before it goes elsewhere.
func (r *recorder) forget(page pw.Page) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.visits, page)
}

// consoleMessage notes a message, and reports whether more are wanted.
func (r *recorder) consoleMessage(m pw.ConsoleMessage) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.console) < maxConsole {
		r.console = append(r.console, consoleEntry{Type: m.Type(), Text: cut(r.clean(m.Text()), maxMessage)})
	}
	return len(r.console) < maxConsole
}

func (r *recorder) dialog(d pw.Dialog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.dialogs) < maxDialogs {
		r.dialogs = append(r.dialogs, dialogEntry{Type: d.Type(), Message: cut(r.clean(d.Message()), maxMessage)})
	}
}

// popup counts a tab that was closed because too many were open.
func (r *recorder) popup() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.popups++; r.popups == maxPopups {
		r.fail(executors.Errorf(executors.CodeTooLarge, "the page opened %d tabs over the limit of %d", maxPopups, maxTabs))
	}
}

// crash ends the task: its page's process has died.
func (r *recorder) crash() {
	r.fail(errPageCrashed)
}

var errPageCrashed = errors.New("the page has crashed")

// hostOf returns host and port of an address, "" if it has none.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// cut shortens s to n characters.
func cut(s string, n int) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= n {
		return s
	}
	for i, count := 0, 0; i < len(s); count++ {
		if count == n-1 {
			return s[:i] + "…"
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return s
}
