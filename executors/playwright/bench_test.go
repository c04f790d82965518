package playwright

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// BenchmarkTask runs a form of 200 rows: open, fill, click, read. One at a
// time and two at a time; full adds a picture of the page and a PDF.
func BenchmarkTask(b *testing.B) {
	web := serve(b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<title>Rows</title><input id=i><button onclick='o.textContent=i.value'>go</button><p id=o></p><table>%s</table>",
			strings.Repeat("<tr><td>one<td>two<td>three", 200))
	})
	e := newExecutor(b, testSettings(b, at(web)), egress.Options{})
	small := `{"url":"` + web.URL + `/","steps":[{"action":"fill","selector":"#i","value":"text"},{"action":"click","selector":"button"},{"action":"get_text","selector":"#o"}`
	payloads := map[string]string{"small": small + `]}`, "full": small + `,{"action":"screenshot","full_page":true},{"action":"pdf"}]}`}
	for _, size := range []string{"small", "full"} {
		for _, slots := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/slots=%d", size, slots), func(b *testing.B) {
				e.do(b, payloads[size], nil).good(b)
				b.ResetTimer()
				var work sync.WaitGroup
				for slot := range slots {
					work.Go(func() {
						for i := slot; i < b.N; i += slots {
							if d := e.do(b, payloads[size], nil); d.err != nil {
								b.Error(d.err)
							}
						}
					})
				}
				work.Wait()
			})
		}
	}
}
