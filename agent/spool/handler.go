package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"time"
)

// Handler serves GET and HEAD /api/artifacts/{sha256} from the local store,
// with ranges and conditional requests. Content is always an attachment and
// never sniffed, whatever a task wrote into it. Errors are {"detail": ...}.
// It does not authenticate: the caller puts it behind what guards its API.
func (s *Spool) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/artifacts/{sha256}", s.serveArtifact)
	return mux
}

func (s *Spool) serveArtifact(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		replyDetail(w, http.StatusMethodNotAllowed, "artifacts of an agent can only be read: use GET or HEAD")
		return
	}
	sum := r.PathValue("sha256")
	if !hexDigest.MatchString(sum) {
		replyDetail(w, http.StatusBadRequest, "an artifact is named by 64 lower-case hexadecimal digits, its SHA-256")
		return
	}
	f, meta, err := s.store.open(sum)
	switch {
	case errors.Is(err, errExpired):
		replyDetail(w, http.StatusGone, fmt.Sprintf("artifact %s expired at %s", sum, meta.Expires.Format(time.RFC3339)))
		return
	case errors.Is(err, fs.ErrNotExist):
		replyDetail(w, http.StatusNotFound, "no artifact "+sum+" on this agent")
		return
	case err != nil:
		replyDetail(w, http.StatusInternalServerError, "artifact "+sum+" cannot be read")
		return
	}
	defer func() { _ = f.Close() }()
	s.store.touch(sum)
	h := w.Header()
	h.Set("Content-Type", meta.MediaType)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": meta.Name}))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "private, immutable")
	h.Set("ETag", `"`+sum+`"`)
	http.ServeContent(w, r, "", meta.Created, f)
}

func replyDetail(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"detail": detail}) // the caller has gone: nobody to tell
}
