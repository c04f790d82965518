package apiwire

import "time"

// Query parameters of PUT /api/artifacts/{sha256}. The body is the file, its
// Content-Type the media type; Content-Length is required. All parameters are
// optional; the name is [A-Za-z0-9._-]{1,100} and the lifetime is clamped to
// 60 s .. 7 days, 24 h when absent. GET accepts the name too and then offers
// the file under that name.
const (
	ParamArtifactName = "name"
	ParamArtifactTTL  = "ttl_s" // whole seconds
)

// ArtifactReply answers PUT /api/artifacts/{sha256} with status 200, also when
// the file was there already (its expiry moves forward only).
type ArtifactReply struct {
	SHA256    string    `json:"sha256"`
	Bytes     int64     `json:"bytes"`
	Name      string    `json:"name"`
	MediaType string    `json:"media_type"`
	URL       string    `json:"url"` // path on this server
	ExpiresAt time.Time `json:"expires_at"`
}
