package playwright

import (
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// What is read is the same whether the page is asked or the driver, which
// alone waits, counts and looks into trees of their own.
func TestReadingFindsTheElementThatIsMeant(t *testing.T) {
	t.Parallel()
	web := site(t, map[string]string{
		"/":       `<title>Plain</title><p id=one class=p lang=de>first</p><p class=p>second</p><script>setTimeout(() => document.body.insertAdjacentHTML('beforeend', '<p id=late>came late</p>'), 700)</script>`,
		"/shadow": `<title>Shadow</title><p>outside</p><div id=host></div><script>host.attachShadow({mode: 'open'}).innerHTML = '<p id=in>inside</p>'</script>`,
		"/liar":   `<title>Liar</title><p id=one>first</p><script>document.querySelectorAll = () => { throw 1 }</script>`,
	})
	e := newExecutor(t, testSettings(t, at(web)), egress.Options{})
	for _, tt := range []struct {
		name, page, step string
		value            any
		code             executors.Code // "" is success
		says             string
	}{
		{name: "by id", page: "/", step: `"selector":"#one"`, value: "first"},
		{name: "with spaces around", page: "/", step: `"selector":" p#one "`, value: "first"},
		{name: "by an attribute", page: "/", step: `"selector":"p[lang=\"de\"]"`, value: "first"},
		{name: "one of several", page: "/", step: `"selector":"p.p","nth":1`, value: "second"},
		{name: "the last", page: "/", step: `"selector":"p.p","nth":-1`, value: "second"},
		{name: "as the driver has it", page: "/", step: `"selector":"p:has-text('sec')"`, value: "second"},
		{name: "in a list that pages read otherwise", page: "/", step: `"selector":":is(p:has-text('sec'), h1)"`, value: "second"},
		{name: "a step further", page: "/", step: `"selector":"body >> p >> nth=0"`, value: "first"},
		{name: "one that comes later", page: "/", step: `"selector":"#late"`, value: "came late"},
		{name: "in a tree of its own", page: "/shadow", step: `"selector":"#in"`, value: "inside"},
		{name: "of a page that interferes", page: "/liar", step: `"selector":"#one"`, value: "first"},
		{name: "one outside and one inside", page: "/shadow", step: `"selector":"p"`, code: executors.CodeElementAmbiguous, says: "2 elements match p"},
		{name: "several", page: "/", step: `"selector":".p"`, code: executors.CodeElementAmbiguous, says: "2 elements match .p"},
		{name: "none", page: "/", step: `"selector":"#none","timeout_ms":300`, code: executors.CodeElementNotFound, says: "no element matched #none within 300 ms"},
		{name: "none so far down", page: "/", step: `"selector":"p","nth":9,"timeout_ms":300`, code: executors.CodeElementNotFound, says: "none was ready"},
		{name: "no selector", page: "/", step: `"selector":"p["`, code: executors.CodeInvalidInput, says: "p[ is not a selector"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := e.do(t, `{"url":"`+web.URL+tt.page+`","steps":[{"action":"get_text","as":"v",`+tt.step+`}]}`, nil)
			if tt.code != "" {
				d.wants(t, tt.code, tt.says)
				return
			}
			if d.good(t).output.Values["v"] != tt.value {
				t.Errorf("value = %v, want %v", d.output.Values["v"], tt.value)
			}
		})
	}
}

// The page is asked itself for selectors that mean the same to it.
func TestPlainSelectors(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"#a .b > c + d ~ e": true, `a[href^="x"], *`: true, "li:nth-child(2)": false, "a >> b": true, "a:visible": false, ":is(a)": false, "a/**/b": false, `a\:b`: false,
	} {
		if plainCSS.MatchString(s) != want {
			t.Errorf("%q is plain: %v", s, !want)
		}
	}
}
