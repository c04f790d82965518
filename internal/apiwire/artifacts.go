package apiwire

import "time"

// Query parameters of PUT /api/artifacts/{sha256}; the body is the file, and
// Content-Length is required. All are optional: the name is
// [A-Za-z0-9._-]{1,100}, the kind one of audio, image, document, tensor and
// download, the media type defaults to Content-Type, and the lifetime is
// clamped to 60 s .. 7 days, 24 h when absent. The lifetime of the result that
// names the file, 1 h when absent and at most 3650 days, is the least for the
// file's too: before it is over nothing removes the file. GET accepts the name
// too and then offers the file under that name.
const (
	ParamArtifactName      = "name"
	ParamArtifactKind      = "kind"
	ParamArtifactMediaType = "media_type"
	ParamArtifactTTL       = "ttl_s"        // whole seconds
	ParamArtifactResultTTL = "result_ttl_s" // whole seconds

	// HeaderPromised, in answers to GET and HEAD, is the HTTP date before
	// which nothing removes the file.
	HeaderPromised = "X-Promised-Until"
)

// ArtifactReply answers PUT /api/artifacts/{sha256} with status 200, also when
// the file was there already (its expiry moves forward only).
type ArtifactReply struct {
	SHA256    string    `json:"sha256"`
	Bytes     int64     `json:"bytes"`
	Name      string    `json:"name"`
	Kind      string    `json:"kind,omitempty"`
	MediaType string    `json:"media_type"`
	URL       string    `json:"url"` // path on this server
	ExpiresAt time.Time `json:"expires_at"`
}
