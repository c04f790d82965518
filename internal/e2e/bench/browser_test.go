package bench

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/autobot-fleet/autobot/queue"
)

const (
	visitor = "Ada"
	rows    = 200
	burst   = 10 // tasks that wait when the slots are compared

	between = 200 * time.Millisecond // tasks that are measured one by one
)

// formPage is a table of 200 rows with a form above it.
func formPage(b *testing.B) string {
	b.Helper()
	var page strings.Builder
	page.WriteString(`<!doctype html><title>Orders</title><input id="name"><button id="greet" onclick="
document.getElementById('answer').textContent = document.getElementById('name').value + ' has ' + document.querySelectorAll('tr').length + ' orders'
">Greet</button><p id="answer"></p><table>`)
	for i := range rows {
		fmt.Fprintf(&page, "<tr><td>%d</td><td>Order %d</td><td><a href=\"/orders/%d\">%d.00</a></td></tr>", i, 7*i, i, 13*i%997)
	}
	page.WriteString("</table>")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(page.String())) // a browser that has gone is its own loss
	}))
	b.Cleanup(srv.Close)
	return srv.URL
}

func greeted(answer string) error {
	if want := fmt.Sprintf("%s has %d orders", visitor, rows); answer != want {
		return fmt.Errorf("the page says %q, not %q", answer, want)
	}
	return nil
}

// formTask opens the page, fills, clicks and reads, in a context of its own.
func formTask(address string) queue.Submission {
	return task("browser", map[string]any{"url": address, "wait_until": "load", "steps": []map[string]any{
		{"action": "fill", "selector": "#name", "value": visitor},
		{"action": "click", "selector": "#greet"},
		{"action": "get_text", "selector": "#answer", "as": "answer"},
	}})
}

// browserConfig permits the page, which is not public.
func browserConfig(address string, contexts int) string {
	return fmt.Sprintf("  playwright:\n    concurrency: %d\n    allow: [%q]\n", contexts, strings.TrimPrefix(address, "http://"))
}

// browserRig starts an agent with a browser and runs a first task in it.
func browserRig(b *testing.B, address string, contexts int) *rig {
	b.Helper()
	r := startRig(b, contexts, browserConfig(address, contexts), "playwright")
	for range 3 {
		var out struct {
			Values struct {
				Answer string `json:"answer"`
			} `json:"values"`
		}
		r.result(formTask(address), &out)
		if err := greeted(out.Values.Answer); err != nil {
			b.Fatal(err)
		}
	}
	return r
}

// BenchmarkBrowserTask measures a task in a warm browser, from submission to
// result, next to chromedp doing the same, and to Playwright for Python, which
// has the same driver. Before each task of either is a pause that is not
// measured: the executor opens a page ahead when a task has ended, and that is
// not to fall into the other's turn. BenchmarkBrowserSlots has no pauses.
func BenchmarkBrowserTask(b *testing.B) {
	address := formPage(b)
	r := browserRig(b, address, 2)
	c, p := startChrome(b, r), startPeer(b, "browser", browserPath(b))
	p.ask(map[string]any{"url": address, "runs": 3})
	var ours, bare, python times
	for range 3 {
		if _, err := c.one(address); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		python = append(python, p.ask(map[string]any{"url": address, "runs": 4}).times()...)
		for range 4 {
			time.Sleep(between)
			took, err := c.one(address)
			if err != nil {
				b.Fatal(err)
			}
			bare = append(bare, took)
			time.Sleep(between)
			ours = append(ours, r.one(formTask(address)))
		}
	}
	ratio := ours.p(50) / bare.p(50)
	b.ReportMetric(ratio, "x-chromedp")
	figure(b, "browser task, fresh context, %d rows, fill, click, read: p50 %.0f ms, p99 %.0f ms; chromedp p50 %.0f ms: %.2f x (goal <= 1.25: %s); Playwright for Python p50 %.0f ms: %.2f x",
		rows, ours.p(50), ours.p(99), bare.p(50), ratio, verdict(ratio <= 1.25), python.p(50), ours.p(50)/python.p(50))
}

// BenchmarkBrowserSlots measures how many tasks pass with one and with two
// contexts at work, and the same for chromedp.
func BenchmarkBrowserSlots(b *testing.B) {
	address := formPage(b)
	one, two := browserRig(b, address, 1), browserRig(b, address, 2)
	c := startChrome(b, one)
	list := make([]queue.Submission, burst)
	for i := range list {
		list[i] = formTask(address)
	}
	var ones, twos, bareOnes, bareTwos times
	for b.Loop() {
		bareOnes = append(bareOnes, c.all(address, 1))
		bareTwos = append(bareTwos, c.all(address, 2))
		ones = append(ones, one.all(list))
		twos = append(twos, two.all(list))
	}
	rate := func(t times) float64 { return 1000 * burst / t.p(50) }
	gain, bareGain := rate(twos)/rate(ones), rate(bareTwos)/rate(bareOnes)
	b.ReportMetric(gain, "x-one-slot")
	figure(b, "browser tasks: %.1f/s with one context, %.1f/s with two: %.2f x (goal >= 1.6 where cores allow, %d here: %s); chromedp %.1f/s and %.1f/s: %.2f x",
		rate(ones), rate(twos), gain, runtime.NumCPU(), verdict(gain >= 1.6), rate(bareOnes), rate(bareTwos), bareGain)
}

// all does the burst with n contexts at a time.
func (c *chrome) all(address string, n int) time.Duration {
	c.b.Helper()
	began := time.Now()
	var g errgroup.Group
	g.SetLimit(n)
	for range burst {
		g.Go(func() error {
			_, err := c.one(address)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		c.b.Fatal(err)
	}
	return time.Since(began)
}
