package rawjson

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

var samples = []string{
	``, ` `, `{}`, ` { } `, `[]`, `[1,]`, `[1 2]`, `{"a":1,}`, `{"a":1}x`, `{"a" :1 , "b":[true,false,null]}`, `{a:1}`, `{"a"}`, `{"a":}`,
	`0`, `-0`, `01`, `-`, `1.`, `.5`, `1.5e`, `1e+`, `1E-7`, `+1`, `0x1`, `1e5 `, `tru`, `true`, `nul`, `NaN`,
	`"`, `"a`, `"a\"`, `"a\\"`, `"\u00e9"`, `"\u00g9"`, `"\u12"`, `"\x"`, "\"a\nb\"", "\"12345678\x1f\"", `"1234567\n"`, "\"\x80\xff12345678\"", `"ünï"`,
	`{"a":1,"a":2}`, `{"\u0061":1}`, `{"deep":{"a":[{}]}}`, `null`, "\v1", "\ufeff1",
	strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth),
	strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1),
	strings.Repeat(`{"a":`, maxDepth) + "1" + strings.Repeat("}", maxDepth),
	strings.Repeat(`{"a":`, maxDepth+1) + "1" + strings.Repeat("}", maxDepth+1),
}

// same compares with encoding/json, which is the judge.
func same(t *testing.T, b []byte) {
	t.Helper()
	shown := b[:min(len(b), 80)]
	if got, want := Valid(b), json.Valid(b); got != want {
		t.Fatalf("Valid(%q) = %t, want %t", shown, got, want)
	}
	var want map[string]json.RawMessage
	is := json.Unmarshal(b, &want) == nil && want != nil
	got := map[string]json.RawMessage{}
	if ok := Members(b, func(name string, v json.RawMessage) bool {
		got[name] = v
		return true
	}); ok != is {
		t.Fatalf("Members(%q) = %t, want %t", shown, ok, is)
	}
	if is && !maps.EqualFunc(got, want, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
		t.Fatalf("members of %q: %q, want %q", shown, got, want)
	}
	var text *string
	is = json.Unmarshal(b, &text) == nil && text != nil
	if s, ok := Text(b); json.Valid(b) && (ok != is || is && s != *text) {
		t.Fatalf("Text(%q) = %q, %t; want %t", shown, s, ok, is)
	}
}

func TestValidAndMembersAgreeWithEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, s := range samples {
		same(t, []byte(s))
	}
	for pad := range 20 { // what means something is found at every place of a word
		for _, end := range []string{`"`, `\n"`, "\x01\"", `\`, `é"`} {
			same(t, []byte(`{"k":"`+strings.Repeat("~", pad)+end+`}`))
		}
	}
}

func TestMembersEndsWhereItIsTold(t *testing.T) {
	t.Parallel()
	n := 0
	if Members([]byte(`{"a":1,"b":2}`), func(string, json.RawMessage) bool { n++; return false }) || n != 1 {
		t.Errorf("%d calls, want one and false", n)
	}
}

func FuzzAgreesWithEncodingJSON(f *testing.F) {
	for _, s := range samples {
		if len(s) < 1000 {
			f.Add([]byte(s))
		}
	}
	f.Fuzz(same)
}

// BenchmarkPicture is a payload with a picture of 100 kB in it.
func BenchmarkPicture(b *testing.B) {
	doc := []byte(`{"op":"detect","image":"` + strings.Repeat("QUJD", 25_000) + `"}`)
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if !Valid(doc) {
			b.Fatal("not valid")
		}
	}
}
