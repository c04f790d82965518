package executors

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInputRefsAreFoundAtAnyDepth(t *testing.T) {
	t.Parallel()
	a, b := strings.Repeat("a", 64), strings.Repeat("0b", 32)
	payload := `{"image":{"artifact":"sha256:` + b + `"},"list":[{"x":{"artifact":"sha256:` + a + `"}},{"artifact":"sha256:` + b + `"}],"artifacts":{"ttl_s":60},"artifact":{"n":1}}`
	got, err := InputRefs(json.RawMessage(payload))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{b, a}, got); d != "" {
		t.Error(d)
	}
	task := Task{Inputs: map[string]string{a: "/spool/a"}}
	if path, err := task.Input("image.artifact", "sha256:"+a); err != nil || path != "/spool/a" {
		t.Errorf("%q, %v", path, err)
	}
	if _, err := task.Input("image.artifact", "sha256:"+b); !IsCode(err, CodeNotFound) {
		t.Errorf("not given: %v", err)
	}
}

func TestMalformedInputRefsNameTheirPlace(t *testing.T) {
	t.Parallel()
	for payload, field := range map[string]string{
		`{"steps":[{},{"artifact":"sha256:` + strings.Repeat("A", 64) + `"}]}`:                      "steps[1].artifact",
		`{"image":{"artifact":"sha256:` + strings.Repeat("a", 63) + `"}}`:                           "image.artifact",
		`{"l":[` + manyRefs(MaxInputs) + `,{"artifact":"sha256:` + strings.Repeat("f", 64) + `"}]}`: "l[64].artifact",
	} {
		_, err := InputRefs(json.RawMessage(payload))
		if e := AsError(err); e == nil || e.Code != CodeInvalidInput || e.Field != field {
			t.Errorf("%.60s: %v, want INVALID_INPUT at %s", payload, err, field)
		}
	}
}

func manyRefs(n int) string {
	var list []string
	for i := range n {
		list = append(list, `{"artifact":"sha256:`+strings.Repeat("0", 62)+string("0123456789abcdef"[i/16])+string("0123456789abcdef"[i%16])+`"}`)
	}
	return strings.Join(list, ",")
}

func FuzzInputRefs(f *testing.F) {
	f.Add(`{"image":{"artifact":"sha256:` + strings.Repeat("a", 64) + `"}}`)
	f.Add(`[[[{"artifact":1}]]]`)
	f.Fuzz(func(t *testing.T, payload string) {
		sums, err := InputRefs(json.RawMessage(payload))
		if err != nil && AsError(err).Code != CodeInvalidInput {
			t.Errorf("%q: %v", payload, err)
		}
		if len(sums) > MaxInputs {
			t.Errorf("%d references", len(sums))
		}
	})
}
