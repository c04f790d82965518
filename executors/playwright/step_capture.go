package playwright

import (
	"encoding/base64"
	"errors"
	"regexp"
	"strings"
	"time"

	pw "github.com/mxschmitt/playwright-go"

	"github.com/autobot-fleet/autobot/executors"
)

const (
	maxPixels = 16_384   // height and width of a picture
	maxImage  = 32 * mib // bytes
	maxPDF    = 64 * mib // bytes
	maxMHTML  = 64 * mib // bytes
	maxDraws  = 4        // tries of a picture that the browser gives up on

	// The picture of a failure is tried for longer: nothing else shows the page.
	drawWait  = 4 * time.Second
	drawPause = 50 * time.Millisecond
)

type screenshotOptions struct {
	target
	FullPage bool   `json:"full_page"`
	Type     string `json:"type"`    // png, jpeg
	Quality  *int   `json:"quality"` // of jpeg
}

// screenshotStep takes a picture of the viewport, the page or an element.
type screenshotStep struct {
	stepCommon
	screenshotOptions
}

func (s *screenshotStep) check(c *stepCheck) error {
	return first(
		c.target(s.target, false),
		oneOf(c.at("type"), s.Type, "", "png", "jpeg"),
		when(s.FullPage && s.Selector != "", c.at("full_page"), "give one of full_page and selector"),
		when(s.Quality != nil && s.Type != "jpeg", c.at("quality"), "needs type jpeg"),
		when(s.Quality != nil && (*s.Quality < 1 || *s.Quality > 100), c.at("quality"), "must be 1 to 100"),
	)
}

func (s *screenshotStep) run(r *run) (any, error) {
	kind, suffix, media := pw.ScreenshotTypePng, ".png", "image/png"
	if s.Type == "jpeg" {
		kind, suffix, media = pw.ScreenshotTypeJpeg, ".jpg", "image/jpeg"
	}
	r.stage("capture")
	var image []byte
	err := r.bounded(s, func() (err error) {
		for try := 1; ; try++ {
			image, err = s.take(r, kind)
			if err == nil || s.FullPage || try == maxDraws || r.late(s) || !strings.Contains(err.Error(), notDrawn) {
				return err
			} // a busy machine: the browser gave up on a frame
		}
	})
	if err != nil {
		return nil, err
	}
	return r.save("screenshot"+suffix, "image", media, image, maxImage)
}

// notDrawn is what the browser says of a picture that it could not make.
const notDrawn = "Unable to capture screenshot"

func (s *screenshotStep) take(r *run, kind *pw.ScreenshotType) (image []byte, err error) {
	if s.Selector != "" {
		return r.locate(s.target).Screenshot(pw.LocatorScreenshotOptions{Type: kind, Quality: s.Quality, Timeout: r.limit(s)})
	}
	o := pw.PageScreenshotOptions{Type: kind, Quality: s.Quality, Timeout: r.limit(s)}
	if s.FullPage {
		o.FullPage = pw.Bool(true)
		if o.Clip, err = r.clip(); err != nil {
			return nil, err
		}
	}
	return r.page().Screenshot(o)
}

// clip limits the picture of a whole page to what can be drawn, nil if the
// page is small enough.
func (r *run) clip() (*pw.Rect, error) {
	cdp, err := r.surface.ctx.NewCDPSession(r.page())
	if err != nil {
		return nil, err
	}
	defer func() { _ = cdp.Detach() }() // ends with the page at the latest
	answer, err := cdp.Send("Page.getLayoutMetrics", nil)
	if err != nil {
		return nil, err
	}
	metrics, _ := answer.(map[string]any)
	size, _ := metrics["cssContentSize"].(map[string]any)
	width, height := number(size["width"]), number(size["height"])
	limit := float64(maxPixels) / r.surface.scale
	if width <= limit && height <= limit || width <= 0 || height <= 0 {
		return nil, nil
	}
	r.warn("CLIPPED", "%s: the page has %.0f x %.0f pixels, the picture shows the upper left %.0f x %.0f", r.where(), width, height, min(width, limit), min(height, limit))
	return &pw.Rect{Width: min(width, limit), Height: min(height, limit)}, nil
}

type pdfOptions struct {
	Format          string   `json:"format"`
	Landscape       bool     `json:"landscape"`
	PrintBackground bool     `json:"print_background"`
	Margins         *margins `json:"margins"`
	Pages           string   `json:"pages"` // for example 1-3,7; "" is all
	Scale           float64  `json:"scale"`
}

type margins struct {
	Top    string `json:"top"`
	Right  string `json:"right"`
	Bottom string `json:"bottom"`
	Left   string `json:"left"`
}

func defaultPDF() pdfOptions { return pdfOptions{Format: "A4", Scale: 1} }

// pdfStep prints the page.
type pdfStep struct {
	stepCommon
	pdfOptions
}

var (
	lengthGrammar = regexp.MustCompile(`^\d{1,4}(\.\d{1,3})?(px|in|cm|mm)?$`)
	pagesGrammar  = regexp.MustCompile(`^\d{1,5}(-\d{1,5})?(, ?\d{1,5}(-\d{1,5})?){0,49}$`)
)

func (s *pdfStep) check(c *stepCheck) error {
	if s.Margins != nil {
		for side, length := range map[string]string{"top": s.Margins.Top, "right": s.Margins.Right, "bottom": s.Margins.Bottom, "left": s.Margins.Left} {
			if length != "" && !lengthGrammar.MatchString(length) {
				return executors.Invalid(c.at("margins."+side), "must be a length such as 1cm, got %.20q", length)
			}
		}
	}
	return first(
		oneOf(c.at("format"), s.Format, "A4", "A3", "A5", "Letter", "Legal", "Tabloid", "Ledger", "A0", "A1", "A2", "A6"),
		when(s.Pages != "" && !pagesGrammar.MatchString(s.Pages), c.at("pages"), "must be pages such as 1-3,7, got %.40q", s.Pages),
		when(s.Scale < 0.1 || s.Scale > 2, c.at("scale"), "must be 0.1 to 2, got %g", s.Scale),
	)
}

func (s *pdfStep) run(r *run) (any, error) {
	o := pw.PagePdfOptions{Format: &s.Format, Landscape: &s.Landscape, PrintBackground: &s.PrintBackground, Scale: &s.Scale}
	if s.Pages != "" {
		o.PageRanges = &s.Pages
	}
	if m := s.Margins; m != nil {
		o.Margin = &pw.Margin{Top: length(m.Top), Right: length(m.Right), Bottom: length(m.Bottom), Left: length(m.Left)}
	}
	r.stage("capture")
	var document []byte
	err := r.bounded(s, func() (err error) {
		document, err = r.page().PDF(o)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r.save("page.pdf", "document", "application/pdf", document, maxPDF)
}

func length(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// mhtmlStep keeps the page with all it shows in one file.
type mhtmlStep struct{ stepCommon }

func (s *mhtmlStep) check(*stepCheck) error { return nil }

func (s *mhtmlStep) run(r *run) (any, error) {
	r.stage("capture")
	var answer any
	err := r.bounded(s, func() error {
		cdp, err := r.surface.ctx.NewCDPSession(r.page())
		if err != nil {
			return err
		}
		defer func() { _ = cdp.Detach() }() // ends with the page at the latest
		answer, err = cdp.Send("Page.captureSnapshot", map[string]any{"format": "mhtml"})
		return err
	})
	if err != nil {
		return nil, err
	}
	m, _ := answer.(map[string]any)
	text, ok := m["data"].(string)
	if !ok {
		if text, ok = answer.(string); !ok {
			return nil, errors.New("the browser returned no snapshot")
		}
	}
	return r.save("page.mhtml", "document", "multipart/related", []byte(text), maxMHTML)
}

// failureShot takes a picture of a page on which a step has failed, and warns
// when a page that lives has none.
func (r *run) failureShot() {
	page := r.page()
	if !r.surface.isOpen(page) || r.surface.crashed.Load() {
		return
	}
	var image []byte
	err := r.within(maxPatience, func() (err error) {
		image, err = r.surface.shoot(page)
		return err
	})
	if err == nil {
		_, err = r.save("failure.png", "image", "image/png", image, maxImage)
	}
	if err != nil && r.reason() == nil {
		r.warn("NO_PICTURE", "the failure has no picture: %s", oneLine(err))
	}
}

// shoot takes a picture of the viewport, again while the browser gives up on
// it. It asks the browser itself, which answers even where the
// page waits for something.
func (s *surface) shoot(page pw.Page) ([]byte, error) {
	cdp, err := s.ctx.NewCDPSession(page)
	if err != nil {
		return nil, err
	}
	var answer any
	for end := time.Now().Add(drawWait); ; {
		answer, err = cdp.Send("Page.captureScreenshot", map[string]any{"format": "png"})
		if err == nil || !strings.Contains(err.Error(), notDrawn) || time.Now().After(end) || s.closing.Load() {
			break
		}
		time.Sleep(drawPause) // a busy machine: the browser gave up on a frame
	}
	if err != nil {
		return nil, err
	}
	m, _ := answer.(map[string]any)
	text, ok := m["data"].(string)
	if !ok {
		text, _ = answer.(string)
	}
	image, err := base64.StdEncoding.DecodeString(text)
	if err == nil && len(image) == 0 {
		err = errors.New("the browser returned no picture")
	}
	return image, err
}
