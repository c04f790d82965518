package playwright

import (
	"errors"
	"strings"

	pw "github.com/mxschmitt/playwright-go"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// fetched adds the page's HTML, text and headers to the output of fetch.
func (r *run) fetched() error {
	if v := r.rec.visit(r.page()); v != nil {
		r.out.Headers = make(map[string]string)
		for name, value := range v.headers {
			// Cookies are what a page keeps about its visitor.
			if name != "set-cookie" && name != strings.ToLower(egress.HeaderMark) {
				r.out.Headers[name] = cut(r.secrets.message(value), maxMessage)
			}
		}
	} else if len(r.rec.fileList()) > 0 {
		return nil // a file in place of a page
	}
	read := &textStep{}
	html, err := r.read(target{}, "html", readHTML, maxHTML, read)
	if err != nil {
		return err
	}
	text, err := r.read(target{}, "body", readText, maxText, read)
	if err != nil {
		return err
	}
	r.out.HTML, r.out.Text = &html, &text
	return nil
}

// A searchResult is one entry of a search.
type searchResult struct {
	Title   string `json:"title"`
	URL     string `json:"url"`
	Snippet string `json:"snippet"`
}

// readResults returns title, address and snippet of each result. The selectors
// come from the administrator.
const readResults = `(found, [most, title, link, snippet]) => found.slice(0, most).map(e => {
  const part = s => s ? e.querySelector(s) : null;
  const a = part(link) || (e.matches('a[href]') ? e : e.querySelector('a[href]'));
  const t = title ? part(title) : a;
  const text = n => n ? String(n.innerText ?? n.textContent ?? '').trim().slice(0, 1000) : '';
  return [text(t), a ? String(a.href).slice(0, 2048) : '', text(part(snippet))];
})`

// searchResults reads the results off the page of a search engine.
func (r *run) searchResults() error {
	engine := r.ex.settings.Search
	one := 0
	read := &waitStep{target: target{Selector: engine.Result, Nth: &one}, State: "attached"}
	if _, err := read.run(r); err != nil {
		return r.noResults(err)
	}
	var answer any
	err := r.bounded(read, func() (err error) {
		answer, err = r.page().Locator(selector(engine.Result)).EvaluateAll(readResults, []any{r.plan.results, engine.Title, engine.Link, engine.Snippet})
		return err
	})
	if err != nil {
		return err
	}
	rows, _ := answer.([]any)
	results := make([]searchResult, 0, len(rows))
	for _, row := range rows {
		cells, _ := row.([]any)
		if len(cells) != 3 || len(results) == r.plan.results {
			continue
		}
		text := func(i int) string { s, _ := cells[i].(string); return cut(s, maxURL) }
		results = append(results, searchResult{Title: text(0), URL: text(1), Snippet: text(2)})
	}
	r.out.Results = results
	return nil
}

// noResults tells a page without results from an engine that has changed.
func (r *run) noResults(err error) error {
	if !errors.Is(err, pw.ErrTimeout) {
		return err
	}
	e := executors.Errorf(executors.CodeElementNotFound, "the page of the search engine has nothing that matches %s", r.ex.settings.Search.Result)
	e.Hint = "either nothing was found, or executors.playwright.search.result has to be corrected"
	return e
}
