package artifacts

import (
	"mime"
	"regexp"
	"strings"
)

const defaultMediaType = "application/octet-stream"

var kinds = []string{"audio", "image", "document", "tensor", "download"}

var safeName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// checkName accepts the names that executors may give to artifacts. Names of
// dots alone are refused: they mean folders.
func checkName(name string) error {
	if !safeName.MatchString(name) || strings.Trim(name, ".") == "" {
		return refuse(400, "name: must be 1-100 of [A-Za-z0-9._-]")
	}
	return nil
}

// extensions of the media types that our executors produce; mime's own table
// depends on the machine.
var extensions = map[string]string{
	"audio/wav": ".wav", "audio/x-wav": ".wav", "audio/mpeg": ".mp3", "audio/ogg": ".ogg",
	"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp",
	"application/pdf": ".pdf", "application/json": ".json", "multipart/related": ".mhtml",
	"text/plain": ".txt", "text/html": ".html", "text/csv": ".csv", "application/zip": ".zip",
}

func defaultName(sha, mediaType string) string {
	base, _, _ := strings.Cut(mediaType, ";")
	return "artifact-" + sha[:12] + extensions[strings.TrimSpace(base)]
}

// cleanMediaType returns the media type in its canonical form; what cannot be
// parsed is opaque bytes.
func cleanMediaType(s string) string {
	if len(s) > 200 {
		return defaultMediaType
	}
	base, params, err := mime.ParseMediaType(s)
	if err != nil || !strings.Contains(base, "/") {
		return defaultMediaType
	}
	if out := mime.FormatMediaType(base, params); out != "" {
		return out
	}
	return defaultMediaType
}
