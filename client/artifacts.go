package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

// Artifact is a file that a task left, as its result document names it.
type Artifact struct {
	Name         string            `json:"name"`
	Kind         string            `json:"kind"` // audio, image, document, tensor, download
	MediaType    string            `json:"media_type"`
	Bytes        int64             `json:"bytes"`
	SHA256       string            `json:"sha256"` // 64 hex digits
	Meta         map[string]string `json:"meta,omitempty"`
	URL          string            `json:"url"`
	ExpiresAt    time.Time         `json:"expires_at"`
	InlineBase64 string            `json:"inline_base64,omitempty"`
}

// Artifacts lists the artifacts in a result or failure document.
func Artifacts(document json.RawMessage) ([]Artifact, error) {
	var doc struct {
		Artifacts []Artifact `json:"artifacts"`
	}
	if len(document) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		var typed *json.UnmarshalTypeError
		if errors.As(err, &typed) && !strings.HasPrefix(typed.Field, "artifacts") {
			return nil, nil // a document that is no object has none
		}
		return nil, fmt.Errorf("read the list of artifacts: %w", err)
	}
	return doc.Artifacts, nil
}

var hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// artifact implements link.
func (r *remote) artifact(ctx context.Context, digest string) (io.ReadCloser, error) {
	if !hexDigest.MatchString(digest) {
		return nil, &queue.InvalidError{Field: "sha256", Rule: fmt.Sprintf("must be 64 hex digits, got %.80q", digest)}
	}
	//nolint:bodyclose // the caller closes what it gets
	resp, err := r.send(ctx, request{method: http.MethodGet, path: "/api/artifacts/" + digest}, nil, nil)
	if err != nil {
		return nil, err
	}
	return &checked{body: resp.Body, want: digest, sum: sha256.New()}, nil
}

// checked is content that has to have a digest.
type checked struct {
	body io.ReadCloser
	want string
	sum  hash.Hash
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.body.Read(p)
	_, _ = c.sum.Write(p[:n]) // never fails
	if errors.Is(err, io.EOF) && hex.EncodeToString(c.sum.Sum(nil)) != c.want {
		err = fmt.Errorf("artifact %s arrived damaged: its content has another sha256", c.want)
	}
	return n, err
}

// Close ends the transfer.
func (c *checked) Close() error { return c.body.Close() }

// Saved is an artifact that was written to a file.
type Saved struct {
	Artifact
	Path string `json:"path"`
}

// SaveArtifacts writes the artifacts of a result document into dir, which is
// made if it is missing, and checks their content. Files get the artifacts'
// names; one that is there with other content is kept, and the new file is
// numbered ("speech-2.wav"), unless overwrite is set. What was saved before an
// error is returned with it.
func (c *Client) SaveArtifacts(ctx context.Context, document json.RawMessage, dir string, overwrite bool) ([]Saved, error) {
	list, err := Artifacts(document)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make the folder for artifacts: %w", err)
	}
	root, err := os.OpenRoot(dir) // no name and no link in it leads out of it
	if err != nil {
		return nil, fmt.Errorf("open the folder for artifacts: %w", err)
	}
	defer func() { _ = root.Close() }()
	out := make([]Saved, 0, len(list))
	for _, a := range list {
		name, err := c.save(ctx, root, a, overwrite)
		if err != nil {
			return out, fmt.Errorf("save artifact %q: %w", a.Name, err)
		}
		out = append(out, Saved{Artifact: a, Path: filepath.Join(dir, name)})
	}
	return out, nil
}

// save writes one artifact beside its place and then moves it there.
func (c *Client) save(ctx context.Context, root *os.Root, a Artifact, overwrite bool) (string, error) {
	if !hexDigest.MatchString(a.SHA256) {
		return "", fmt.Errorf("its sha256 is %.80q, which is no digest", a.SHA256)
	}
	content, err := c.open(ctx, a)
	if err != nil {
		return "", err
	}
	defer func() { _ = content.Close() }()
	part := ".part-" + a.SHA256[:16] + "-" + strconv.Itoa(os.Getpid())
	_ = root.Remove(part) // left by a process of the same number
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, content)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, root.Remove(part))
	}
	name := fileName(a)
	if !overwrite {
		if name, err = freeName(root, name, a.SHA256); err != nil {
			return "", errors.Join(err, root.Remove(part))
		}
	}
	if err := root.Rename(part, name); err != nil {
		return "", errors.Join(err, root.Remove(part))
	}
	return name, nil
}

// bringFiles is what lets files reach the control plane.
const bringFiles = "set control.url, control.ca_file and control.key_file on the agents"

// open returns the content: from the document itself, or the control plane.
func (c *Client) open(ctx context.Context, a Artifact) (io.ReadCloser, error) {
	if a.InlineBase64 != "" {
		raw, err := base64.StdEncoding.DecodeString(a.InlineBase64)
		if err != nil {
			return nil, fmt.Errorf("its inline content is not base64: %w", err)
		}
		return &checked{body: io.NopCloser(bytes.NewReader(raw)), want: a.SHA256, sum: sha256.New()}, nil
	}
	content, err := c.Artifact(ctx, a.SHA256)
	if errors.Is(err, queue.ErrNotFound) {
		switch {
		case !a.ExpiresAt.IsZero() && time.Now().After(a.ExpiresAt):
			return nil, fmt.Errorf("it has expired on %s: %w", a.ExpiresAt.Format(time.RFC3339), err)
		case strings.HasPrefix(a.URL, "http"):
			return nil, fmt.Errorf("its worker did not bring it to the control plane and keeps it at %s (%s): %w", a.URL, bringFiles, err)
		default: // the control plane keeps what it has got until then
			return nil, fmt.Errorf("its worker did not bring it to the control plane (%s): %w", bringFiles, err)
		}
	}
	return content, err
}

var goodName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$`)

// fileName is the artifact's name if it can be the plain name of a file: a
// foreign worker may have written anything, and a dot file could change what
// programs do.
func fileName(a Artifact) string {
	if goodName.MatchString(a.Name) {
		return a.Name
	}
	return "artifact-" + a.SHA256[:12]
}

// freeName numbers a name until no file with other content has it.
func freeName(root *os.Root, name, digest string) (string, error) {
	ext := filepath.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for n := 1; n < 10000; n++ {
		try := name
		if n > 1 {
			try = fmt.Sprintf("%s-%d%s", stem, n, ext)
		}
		info, err := root.Lstat(try)
		if errors.Is(err, os.ErrNotExist) {
			return try, nil
		}
		if err != nil {
			return "", err
		}
		if info.Mode().IsRegular() && sameContent(root, try, digest) {
			return try, nil
		}
	}
	return "", fmt.Errorf("the folder has 10000 files named like %q", name)
}

func sameContent(root *os.Root, name, digest string) bool {
	f, err := root.Open(name)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return false
	}
	return hex.EncodeToString(sum.Sum(nil)) == digest
}
