package executors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/autobot-fleet/autobot/internal/rawjson"
)

// MaxInputs is how many artifacts one payload may refer to.
const MaxInputs = 64

// artifactPrefix opens a reference to an artifact; 64 hexadecimal digits follow.
const artifactPrefix = "sha256:"

// An ArtifactRef is how a payload refers to an artifact, wherever an operation
// takes large input: {"artifact": "sha256:<64 hexadecimal digits>"}.
type ArtifactRef struct {
	Artifact string `json:"artifact"`
}

// InputRefs returns the checksums of the artifacts that a payload refers to,
// each once, in the order in which they stand there. A reference is a text
// that begins with sha256: under the name artifact; a malformed one is
// INVALID_INPUT. Other texts under that name are the executor's business.
func InputRefs(payload json.RawMessage) ([]string, error) {
	// Most payloads refer to nothing. A backslash may hide what a text says.
	if bytes.IndexByte(payload, '\\') < 0 && !bytes.Contains(payload, []byte(artifactPrefix)) && rawjson.Valid(payload) {
		return nil, nil
	}
	var v any
	if err := json.Unmarshal(payload, &v); err != nil {
		return nil, Invalid("payload", "is not valid JSON: %s", syntaxProblem(payload))
	}
	r := &refs{seen: map[string]bool{}}
	if err := r.walk("", v); err != nil {
		return nil, err
	}
	return r.sums, nil
}

type refs struct {
	sums []string
	seen map[string]bool
}

func (r *refs) walk(path string, v any) error {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			if err := r.walk(fmt.Sprintf("%s[%d]", path, i), e); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			text, isText := v[name].(string)
			if name != "artifact" || !isText || !strings.HasPrefix(text, artifactPrefix) {
				if err := r.walk(join(path, name), v[name]); err != nil {
					return err
				}
				continue
			}
			sum, err := parseRef(join(path, name), text)
			if err != nil {
				return err
			}
			if r.seen[sum] {
				continue
			}
			if len(r.sums) == MaxInputs {
				return Invalid(join(path, name), "is one artifact more than the %d that a payload may refer to", MaxInputs)
			}
			r.seen[sum] = true
			r.sums = append(r.sums, sum)
		}
	}
	return nil
}

// parseRef returns the checksum of a reference.
func parseRef(field, ref string) (string, error) {
	sum, ok := strings.CutPrefix(ref, artifactPrefix)
	if !ok || len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" {
		return "", Invalid(field, "must be sha256: and 64 hexadecimal digits in lower case, got %q", cutRunes(ref, 80))
	}
	return sum, nil
}

// Input returns the path of an artifact that the payload refers to, for
// reading only. field is where the reference stands.
func (t Task) Input(field, ref string) (path string, err error) {
	sum, err := parseRef(field, ref)
	if err != nil {
		return "", err
	}
	path, ok := t.Inputs[sum]
	if !ok {
		e := Errorf(CodeNotFound, "%s: the artifact was not given to the executor", field)
		e.Field = field
		return "", e
	}
	return path, nil
}
