package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/cli"
)

// attachment is a file that a field of a payload refers to.
type attachment struct {
	field string // as it was given, with dots between the names
	path  string
}

// parseAttachments reads --attach FIELD=FILE and looks whether the files are
// there, before anything is sent.
func parseAttachments(given []string) ([]attachment, error) {
	out := make([]attachment, 0, len(given))
	for _, g := range given {
		field, path, ok := strings.Cut(g, "=")
		if !ok || field == "" || path == "" {
			return nil, cli.Usagef("--attach takes FIELD=FILE, for example image=cat.png, got %q", g)
		}
		for _, name := range strings.Split(field, ".") {
			if name == "" {
				return nil, cli.Usagef("--attach: %q is no path of a field: names with one dot between them, for example inputs.x", field)
			}
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, cli.Usagef("--attach %s: %v", field, err)
		}
		if !info.Mode().IsRegular() {
			return nil, cli.Usagef("--attach %s: %s is no regular file", field, path)
		}
		out = append(out, attachment{field, path})
	}
	return out, nil
}

// unsent stands for the digest of a file until it is known.
var unsent = strings.Repeat("0", 64)

// attach writes references to artifacts into a payload. digests belong to the
// attachments; nil checks only that their fields are free.
func attach(payload json.RawMessage, list []attachment, digests []string) (json.RawMessage, error) {
	if len(list) == 0 {
		return payload, nil
	}
	if len(payload) == 0 {
		payload = json.RawMessage("{}")
	}
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber() // large numbers stay what they are
	var object map[string]any
	if err := dec.Decode(&object); err != nil || object == nil {
		return nil, cli.Usagef("payload: --attach needs a JSON object to write into")
	}
	for i, a := range list {
		digest := unsent
		if digests != nil {
			digest = digests[i]
		}
		if err := setReference(object, a.field, "sha256:"+digest); err != nil {
			return nil, err
		}
	}
	out, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("write the payload: %w", err)
	}
	return out, nil
}

// setReference puts a reference at the path of a field. Objects on the way are
// made. A path that ends in artifact names the reference's own text, beside
// which the object may say more, as tensors do.
func setReference(object map[string]any, field, reference string) error {
	names := strings.Split(field, ".")
	for i, name := range names[:len(names)-1] {
		switch next := object[name].(type) {
		case nil:
			made := map[string]any{}
			object[name] = made
			object = made
		case map[string]any:
			object = next
		default:
			return cli.Usagef("--attach %s: %s is in the payload already and is no object", field, strings.Join(names[:i+1], "."))
		}
	}
	last := names[len(names)-1]
	if _, taken := object[last]; taken {
		return cli.Usagef("--attach %s: the payload has this field already: leave it out there, or attach to another one", field)
	}
	if last == "artifact" {
		object[last] = reference
	} else {
		object[last] = map[string]any{"artifact": reference}
	}
	return nil
}

// uploadAll brings the files to the control plane and returns their digests.
func uploadAll(ctx context.Context, cl *client.Client, list []attachment) ([]string, error) {
	digests := make([]string, 0, len(list))
	for _, a := range list {
		digest, err := cl.PutArtifact(ctx, a.path)
		if err != nil {
			return nil, fmt.Errorf("--attach %s: %w", a.field, err)
		}
		digests = append(digests, digest)
	}
	return digests, nil
}
