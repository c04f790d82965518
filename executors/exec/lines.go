package exec

import (
	"bytes"
	"math"
	"mime"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/autobot-fleet/autobot/executors"
)

const maxLine = 16 << 10 // bytes of a line on standard error; the rest is dropped

var artifactName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// A lineWriter calls emit for every line written to it, without its end.
type lineWriter struct {
	emit func(string)
	buf  []byte
	long bool // the rest of the current line is dropped
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		head, rest, ended := bytes.Cut(p, []byte{'\n'})
		if room := maxLine - len(w.buf); len(head) > room {
			head, w.long = head[:room], true
		}
		w.buf = append(w.buf, head...)
		if ended {
			w.flush()
		}
		p = rest
	}
	return n, nil
}

// flush ends the current line, if there is one.
func (w *lineWriter) flush() {
	if len(w.buf) == 0 && !w.long {
		return
	}
	line := strings.TrimRight(strings.ToValidUTF8(string(w.buf), string(utf8.RuneError)), "\r")
	if w.long {
		line += " … [cut]"
	}
	w.buf, w.long = w.buf[:0], false
	w.emit(line)
}

// parseProgress reads "progress: 40 message"; the percent may have a fraction
// and a percent sign.
func parseProgress(line string) (executors.Progress, bool) {
	rest, ok := strings.CutPrefix(line, "progress:")
	if !ok {
		return executors.Progress{}, false
	}
	number, message, _ := strings.Cut(strings.TrimSpace(rest), " ")
	percent, err := strconv.ParseFloat(strings.TrimSuffix(number, "%"), 64)
	if err != nil || math.IsNaN(percent) || percent < 0 || percent > 100 {
		return executors.Progress{}, false
	}
	return executors.Progress{Percent: int(percent), Stage: "run", Message: strings.TrimSpace(message)}, true
}

// parseArtifact reads "artifact: NAME MEDIA_TYPE"; the media type may be
// missing.
func parseArtifact(line string) (executors.Artifact, bool) {
	rest, ok := strings.CutPrefix(line, "artifact:")
	if !ok {
		return executors.Artifact{}, false
	}
	name, media, _ := strings.Cut(strings.TrimSpace(rest), " ")
	media = strings.TrimSpace(media)
	if media == "" {
		media = "application/octet-stream"
	}
	base, _, err := mime.ParseMediaType(media)
	if err != nil || !strings.Contains(base, "/") || !artifactName.MatchString(name) || strings.Trim(name, ".") == "" {
		return executors.Artifact{}, false
	}
	return executors.Artifact{Name: name, Kind: kindOf(base), MediaType: media}, true
}

func kindOf(media string) string {
	major, _, _ := strings.Cut(media, "/")
	switch {
	case major == "audio", major == "image":
		return major
	case major == "text", media == "application/pdf", media == "application/json":
		return "document"
	}
	return "download"
}
