package tts

import (
	"bytes"
	"encoding/json"

	"github.com/autobot-fleet/autobot/executors"
)

// decode reads the payload strictly and returns its op.
func decode(raw json.RawMessage, req *request) (string, error) {
	var full struct {
		request
		Op        string          `json:"op"`
		TimeoutMS int64           `json:"timeout_ms"`
		TraceID   string          `json:"trace_id"`
		Artifacts json.RawMessage `json:"artifacts"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&full); err != nil {
		return "", executors.Invalid("payload", "%v", err)
	}
	*req = full.request
	if full.Op == "" {
		full.Op = opSynthesize
	}
	return full.Op, nil
}
