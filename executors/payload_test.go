package executors

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

type samplePayload struct {
	Text  string             `json:"text"`
	Count int                `json:"count"`
	Share float64            `json:"share"`
	On    *bool              `json:"on"`
	Size  struct{ W, H int } `json:"size"`
	Steps []sampleStep       `json:"steps"`
	Extra map[string]int     `json:"extra"`
	Raw   json.RawMessage    `json:"raw"`
	Any   any                `json:"any"`
	sampleEmbedded
}

type sampleStep struct {
	Action string `json:"action"`
	MS     uint16 `json:"ms"`
}

type sampleEmbedded struct {
	Voice string `json:"voice"`
}

func TestDecodePayloadReads(t *testing.T) {
	t.Parallel()
	p := samplePayload{Count: 7, sampleEmbedded: sampleEmbedded{Voice: "default"}}
	err := DecodePayload(Task{Payload: json.RawMessage(`{
		"text": "Größe", "count": null, "share": 1, "on": true, "size": {"W": 3.0, "H": 1e2},
		"steps": [{"action": "go", "ms": 5}], "extra": {"a": 1}, "raw": [1, {"b": 2}], "any": {"c": [3]},
		"op": "speak", "timeout_ms": 100, "artifacts": {"ttl_s": 60}, "trace_id": "abc", "x_anything": {"at": "all"}
	}`)}, &p)
	if err != nil {
		t.Fatal(err)
	}
	on := true
	want := samplePayload{
		Text: "Größe", Count: 7, Share: 1, On: &on, Steps: []sampleStep{{"go", 5}}, Extra: map[string]int{"a": 1},
		Raw: json.RawMessage(`[1, {"b": 2}]`), Any: map[string]any{"c": []any{3.0}}, sampleEmbedded: sampleEmbedded{Voice: "default"},
	}
	want.Size.W, want.Size.H = 3, 100
	if !reflect.DeepEqual(p, want) {
		t.Errorf("decoded %+v\nwant    %+v", p, want)
	}
}

func TestDecodePayloadSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ payload, field, want string }{
		{`{"txet": "a"}`, "txet", "unknown field, did you mean text?"},
		{`{"timeout": 5}`, "timeout", "did you mean timeout_ms?"},
		{`{"zzzzzzzzzz": 5}`, "zzzzzzzzzz", "known are any, artifacts, count"},
		{`{"Text": "a"}`, "Text", "did you mean text?"},
		{`{"steps": [{"action": "a"}, {"acton": "b"}]}`, "steps[1].acton", "did you mean action?"},
		{`{"steps": [{"x_note": 1}]}`, "", ""},
		{`{"text": 5}`, "text", "must be a string, got 5"},
		{`{"count": "5"}`, "count", `must be a number, got "5"`},
		{`{"count": 1.5}`, "count", "must be a whole number, got 1.5"},
		{`{"count": 1e300}`, "count", "must be a whole number"},
		{`{"share": 1e999}`, "share", "in range"},
		{`{"steps": [{"ms": 70000}]}`, "steps[0].ms", "in range, got 70000"},
		{`{"steps": [{"ms": -1}]}`, "steps[0].ms", "not negative"},
		{`{"steps": {"a": 1}}`, "steps", `must be a list, got {"a": 1}`},
		{`{"size": [1]}`, "size", "must be an object, got [1]"},
		{`{"on": "yes"}`, "on", `must be true or false, got "yes"`},
		{`{"extra": {"a": "b"}}`, "extra.a", "must be a number"},
		{`{"text": "a", "text": "b"}`, "text", "is there twice"},
		{`{"size": {"W": 1, "W": 2}}`, "size.W", "is there twice"},
		{`{"count": "` + strings.Repeat("long ", 100) + `"}`, "count", "…"},
		{`{"op": 5}`, "op", "must be a string"},
		{`{"timeout_ms": 99}`, "timeout_ms", "at least 100, got 99"},
		{`{"timeout_ms": -5}`, "timeout_ms", "at least 100"},
		{`{"artifacts": {"ttl_s": 59}}`, "artifacts.ttl_s", "60 to 604800, got 59"},
		{`{"artifacts": {"inline_max_bytes": 65537}}`, "artifacts.inline_max_bytes", "0 to 65536"},
		{`{"artifacts": {"tll_s": 60}}`, "artifacts.tll_s", "did you mean ttl_s?"},
		{`{"trace_id": "a\u0007"}`, "trace_id", "printable"},
		{`{"trace_id": "` + strings.Repeat("a", 129) + `"}`, "trace_id", "at most 128"},
		{`[]`, "payload", "must be a JSON object, got []"},
		{`null`, "payload", "must be a JSON object"},
		{`{"a": }`, "payload", "not valid JSON"},
		{"{\"text\": \"\xff\"}", "payload", "UTF-8"},
		{``, "", ""},
		{`{}`, "", ""},
	} {
		var p samplePayload
		err := DecodePayload(Task{Payload: json.RawMessage(tt.payload)}, &p)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.payload, err)
			}
			continue
		}
		e := AsError(err)
		if e == nil || e.Code != CodeInvalidInput || e.Retryable || e.Field != tt.field || !strings.Contains(e.Message, tt.want) {
			t.Errorf("%.80s: error %+v, want field %s and %q", tt.payload, e, tt.field, tt.want)
		}
		if e != nil && len(e.Message) > 700 {
			t.Errorf("%.80s: the message has %d bytes", tt.payload, len(e.Message))
		}
	}
}

func TestOp(t *testing.T) {
	t.Parallel()
	typ := TypeDescription{Type: "tts", Ops: []string{"synthesize", "list_voices"}}
	for _, tt := range []struct {
		payload, want string
		code          Code
		says          string
	}{
		{`{}`, "synthesize", "", ""},
		{`{"op": null}`, "synthesize", "", ""},
		{`{"op": ""}`, "synthesize", "", ""},
		{`{"op": "list_voices"}`, "list_voices", "", ""},
		{`{"op": "list_voice"}`, "", CodeUnsupported, "did you mean list_voices?"},
		{`{"op": "fly"}`, "", CodeUnsupported, "supported: synthesize, list_voices"},
		{`{"op": 1}`, "", CodeInvalidInput, "op: must be a string, got 1"},
		{`7`, "", CodeInvalidInput, "object"},
	} {
		got, err := Op(Task{Payload: json.RawMessage(tt.payload)}, typ)
		if got != tt.want || (tt.code != "") != (err != nil) || err != nil && (!IsCode(err, tt.code) || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %q, %v; want %q, %s %s", tt.payload, got, err, tt.want, tt.code, tt.says)
		}
	}
}

type sampleSettings struct {
	Dir     string            `json:"dir"`
	Timeout time.Duration     `json:"timeout"`
	Deep    struct{ N int }   `json:"deep"`
	Env     map[string]string `json:"env"`
	invalid error
}

func (s *sampleSettings) Validate() error { return s.invalid }

func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		text, want string
		timeout    time.Duration
	}{
		{`{"dir": "/a", "timeout": "1.5s"}`, "", 1500 * time.Millisecond},
		{`{"timeout": 90}`, "", 90 * time.Second},
		{`{"timeout": "2d"}`, "", 48 * time.Hour},
		{`{}`, "", time.Minute},
		{`null`, "", time.Minute},
		{`{"timeout": "soon"}`, `timeout: must be a duration such as "15s", or seconds, got "soon"`, 0},
		{`{"dri": "/a"}`, "dri: is an unknown field, did you mean dir?", 0},
		{`{"deep": {"n": 1}}`, "deep.n: is an unknown field, did you mean N?", 0},
		{`{"dir": `, "are not JSON", 0},
		{`[]`, "must be an object", 0},
	} {
		path := filepath.Join(t.TempDir(), "settings.json")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(EnvConfig, path)
		s := sampleSettings{Timeout: time.Minute}
		err := Settings(&s)
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: error %v, want %q", tt.text, err, tt.want)
			}
		} else if err != nil || s.Timeout != tt.timeout {
			t.Errorf("%s: timeout %s, %v; want %s", tt.text, s.Timeout, err, tt.timeout)
		}
	}
	t.Setenv(EnvConfig, "")
	if err := Settings(&sampleSettings{invalid: os.ErrInvalid}); err == nil {
		t.Error("Validate was not called")
	}
	t.Setenv(EnvConfig, "/nowhere.json")
	if err := Settings(&sampleSettings{}); err == nil {
		t.Error("a missing file is no error")
	}
}

func FuzzDecodePayload(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"text": "a", "steps": [{"ms": 1}]}`, `{"size": {"W": 1e3}}`, `{"x_a": 1, "op": "b"}`,
		`{"count": 99999999999999999999}`, `{"steps": [null]}`, `{"extra": {"": 0}}`, `{"": 1}`, "{\"a\xff\": 1}", `{"raw": "\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var p, q samplePayload
		err := DecodePayload(Task{Payload: payload}, &p)
		if err != nil {
			e := AsError(err)
			if e.Code != CodeInvalidInput && e.Code != CodeTooLarge || e.Retryable || len(e.Message) > 2000 {
				t.Fatalf("error %+v", e)
			}
			return
		}
		// What the strict decoder accepts, the standard one reads alike.
		if len(strings.TrimSpace(string(payload))) == 0 {
			return
		}
		dec := json.NewDecoder(strings.NewReader(string(payload)))
		if err := dec.Decode(&q); err != nil && !strings.Contains(err.Error(), "number") {
			t.Fatalf("accepted, but encoding/json says %v", err)
		} else if err == nil && p.Text != q.Text {
			t.Fatalf("text %q, encoding/json reads %q", p.Text, q.Text)
		}
	})
}

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"en-us", "en-gb", "de", "fr-fr", "en-us-joe-medium"}
	for word, want := range map[string][]string{
		"en_us": {"en-us"}, "EN-US": {"en-us", "en-gb", "en-us-joe-medium"}, "zzzzzzz": nil, "joe": {"de", "en-us-joe-medium"},
	} {
		if got := Nearest(word, names, 3); !reflect.DeepEqual(got, want) {
			t.Errorf("nearest to %s: %v, want %v", word, got, want)
		}
	}
	if got := Nearest("", nil, 3); got != nil {
		t.Errorf("nearest to nothing: %v", got)
	}
}
