package artifacts

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/autobot-fleet/autobot/internal/apiwire"
)

// stall is how long an upload or download may stand still.
const stall = 30 * time.Second

// Get answers GET and HEAD for one artifact, with ranges and conditions. The
// error, if any, is returned before anything has been written.
func (s *Store) Get(w http.ResponseWriter, r *http.Request, sha string) error {
	name := r.URL.Query().Get(apiwire.ParamArtifactName)
	if name != "" {
		if err := checkName(name); err != nil {
			return err
		}
	}
	f, m, err := s.open(sha)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	if name == "" {
		name = m.Name
	}
	h := w.Header()
	h.Set("Content-Type", m.MediaType)
	// A page may never be shown from here: it would run with our origin.
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("ETag", `"`+m.SHA256+`"`)
	left := max(0, int64(m.Expires.Sub(s.now())/time.Second))
	h.Set("Cache-Control", fmt.Sprintf("private, max-age=%d, immutable", left))
	h.Set("Expires", m.Expires.UTC().Format(http.TimeFormat)) // what an agent reads before it uploads
	h.Set(apiwire.HeaderPromised, m.promised().UTC().Format(http.TimeFormat))
	http.ServeContent(&stallWriter{ResponseWriter: w, ctl: http.NewResponseController(w)}, r, "", m.Created.Truncate(time.Second), f)
	return nil
}

// Put answers PUT for one artifact.
func (s *Store) Put(w http.ResponseWriter, r *http.Request, sha string) error {
	u := Upload{SHA256: sha, Bytes: r.ContentLength, MediaType: r.Header.Get("Content-Type")}
	u.Body = &stallReader{r: r.Body, ctl: http.NewResponseController(w)}
	q := r.URL.Query()
	u.Name, u.Kind = q.Get(apiwire.ParamArtifactName), q.Get(apiwire.ParamArtifactKind)
	if mt := q.Get(apiwire.ParamArtifactMediaType); mt != "" {
		u.MediaType = mt
	}
	for key, d := range map[string]*time.Duration{apiwire.ParamArtifactTTL: &u.TTL, apiwire.ParamArtifactResultTTL: &u.ResultTTL} {
		text := q.Get(key)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return refuse(http.StatusBadRequest, "%s: must be a whole number of seconds", key)
		}
		*d = max(time.Duration(n)*time.Second, 1)
	}
	m, _, err := s.Store(u)
	if err != nil {
		return err
	}
	body, err := json.Marshal(apiwire.ArtifactReply{
		SHA256: m.SHA256, Bytes: m.Bytes, Name: m.Name, Kind: m.Kind, MediaType: m.MediaType,
		URL: "/api/artifacts/" + m.SHA256, ExpiresAt: m.Expires.UTC().Truncate(time.Second),
	})
	if err != nil {
		return fmt.Errorf("answer upload: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("ETag", `"`+m.SHA256+`"`)
	w.WriteHeader(http.StatusOK) // new or not: an upload can be repeated
	_, _ = w.Write(body)         // a caller who has gone does not need it
	return nil
}

// stallReader moves the connection's read deadline as long as bytes come in:
// a large upload may take its time, a dead one may not. The write deadline
// moves along, or the answer to a long upload would come too late.
type stallReader struct {
	r   io.Reader
	ctl *http.ResponseController
}

func (s *stallReader) Read(p []byte) (int, error) {
	now := time.Now()
	_ = s.ctl.SetReadDeadline(now.Add(stall)) // not supported in tests without a connection
	_ = s.ctl.SetWriteDeadline(now.Add(2 * stall))
	return s.r.Read(p)
}

// stallWriter does the same for downloads.
type stallWriter struct {
	http.ResponseWriter
	ctl *http.ResponseController
}

func (s *stallWriter) Write(p []byte) (int, error) {
	_ = s.ctl.SetWriteDeadline(time.Now().Add(stall)) // as above
	return s.ResponseWriter.Write(p)
}
