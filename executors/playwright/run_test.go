package playwright

import (
	"bytes"
	"image/png"
	"testing"

	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

func TestAPageIsOpenedPicturedAndPrinted(t *testing.T) {
	t.Parallel()
	web := site(t, map[string]string{"/": `<title>Hello</title><h1>A heading</h1><p>text`})
	e := newExecutor(t, testSettings(t, at(web)), egress.Options{})
	d := e.do(t, `{"url": "`+web.URL+`/", "steps": [
		{"action": "wait_for", "selector": "h1", "state": "visible"},
		{"action": "get_text", "selector": "h1", "as": "heading"},
		{"action": "screenshot", "full_page": true},
		{"action": "pdf", "format": "A4"}]}`, nil).good(t)
	if d.output.FinalURL != web.URL+"/" || d.output.Status != 200 || d.output.Title != "Hello" || d.output.Values["heading"] != "A heading" {
		t.Errorf("output = %s", d.raw)
	}
	if _, err := png.Decode(bytes.NewReader(d.file(t, "screenshot.png"))); err != nil {
		t.Error(err)
	}
	if pdf := d.file(t, "page.pdf"); !bytes.HasPrefix(pdf, []byte("%PDF")) {
		t.Errorf("the PDF begins with %q", pdf[:4])
	}
}
