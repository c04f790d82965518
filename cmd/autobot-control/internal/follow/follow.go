// Package follow shows people what happens to one task.
package follow

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/schollz/progressbar/v3"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/queue"
)

// Follower shows what happens to one task: a bar on a terminal, a line per
// change elsewhere.
type Follower struct {
	w     io.Writer
	label string

	mu    sync.Mutex
	bar   *progressbar.ProgressBar // nil where w is no terminal
	last  string
	state client.State
}

// New returns a follower that writes to w. Close it before other lines
// are written.
func New(w io.Writer, label string) *Follower {
	f := &Follower{w: w, label: cli.Printable(label)}
	width, ok := cli.Width(w)
	if !ok {
		return f
	}
	f.label = strings.TrimSpace(f.label)
	f.bar = progressbar.NewOptions(100,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(f.label),
		progressbar.OptionSetWidth(max(10, min(30, width/4))),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetTheme(progressbar.Theme{Saucer: "█", SaucerPadding: "░", BarStart: "", BarEnd: ""}),
	)
	_ = f.bar.RenderBlank() // a terminal that is gone is noticed elsewhere
	return f
}

// Event shows one event.
func (f *Follower) Event(e client.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e.Kind {
	case queue.EventState:
		f.state = e.State
		if !e.State.Status.Terminal() { // whoever waits says how it ended
			f.show(-1, StateLine(e.State))
		}
	case queue.EventProgress:
		p := e.Progress
		if f.bar != nil {
			p.Percent = -1 // the bar shows it
		}
		f.show(e.Progress.Percent, ProgressLine(p))
	case queue.EventGap:
		f.show(-1, "the connection broke off and is made again")
	}
}

// Note shows a sentence.
func (f *Follower) Note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.show(-1, text)
}

// State is the newest state that was seen.
func (f *Follower) State() client.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// show draws the bar, or prints a line that is new.
func (f *Follower) show(percent int, text string) {
	text = cli.Printable(text)
	if f.bar == nil {
		if text != f.last {
			_, _ = fmt.Fprintf(f.w, "%s: %s\n", f.label, text)
		}
		f.last = text
		return
	}
	width, _ := cli.Width(f.w)
	room := width - max(10, min(30, width/4)) - 10 // bar and percentage
	if percent >= 0 {
		_ = f.bar.Set(min(percent, 99)) // the bar vanishes at 100; Close does that
	}
	f.bar.Describe(cli.Cut(f.label+": "+text, max(room, 10)))
}

// Close removes the bar.
func (f *Follower) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bar != nil {
		_ = f.bar.Finish()
		_ = f.bar.Clear()
		f.bar = nil
	}
}

// StateLine says where a task stands.
func StateLine(s client.State) string {
	switch s.Status {
	case queue.StatusQueued:
		switch {
		case s.RetryCount > 0 && s.LastError != "":
			return fmt.Sprintf("queued again (retry %d of %d) after: %s", s.RetryCount, s.MaxRetries, s.LastError)
		case s.Queue != "":
			return "queued in " + s.Queue
		}
		return "queued"
	case queue.StatusRunning:
		out := "running on " + s.WorkerID
		if s.CancelRequested {
			out += ", asked to stop"
		}
		return out
	case queue.StatusFailed, queue.StatusFailedPermanent:
		return "failed: " + s.LastError
	}
	return string(s.Status)
}

// ProgressLine says how far a task is.
func ProgressLine(p client.Progress) string {
	var parts []string
	if p.Percent >= 0 {
		parts = append(parts, fmt.Sprintf("%d %%", p.Percent))
	}
	if p.Stage != "" {
		parts = append(parts, p.Stage)
	}
	if p.Total > 0 {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%d of %d %s", p.Done, p.Total, unit(p.Total, p.Unit))))
	}
	if p.Message != "" {
		parts = append(parts, p.Message)
	}
	return strings.Join(parts, ", ")
}

// unit is the word of a count. Executors name theirs in the singular; words
// other than those of our own executors are shown as they are, as "ms" is.
func unit(n int64, word string) string {
	switch word {
	case "file", "item", "segment", "step":
		if n != 1 {
			return word + "s"
		}
	}
	return word
}
