package wordpiece

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/autobot-fleet/autobot/executors/engines"
)

func installed(t testing.TB, o Options) *Tokenizer {
	t.Helper()
	card, dir, err := engines.Locate().Model("all-minilm-l6-v2")
	if err != nil {
		t.Fatalf("%v (scripts/setup installs what the tests need)", err)
	}
	tok, err := Load(filepath.Join(dir, card.Tokenizer.Vocab), o)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestIDsAreThoseOfTheReference compares with the library tokenizers 0.23.3 on
// the tokenizer.json that comes with the model.
func TestIDsAreThoseOfTheReference(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var references []struct {
		Text string  `json:"text"`
		IDs  []int64 `json:"ids"`
	}
	if err := json.Unmarshal(raw, &references); err != nil {
		t.Fatal(err)
	}
	tok := installed(t, Options{})
	for _, ref := range references {
		got, whole := tok.Encode(ref.Text, 512)
		if d := cmp.Diff(ref.IDs, got); d != "" || whole != len(got) {
			t.Errorf("%q (%d tokens): %s", ref.Text, whole, d)
		}
	}
}

func TestLongTextIsCutBehindItsLastWholeToken(t *testing.T) {
	t.Parallel()
	tok := installed(t, Options{})
	text := strings.Repeat("word ", 1000)
	ids, whole := tok.Encode(text, 256)
	if len(ids) != 256 || whole != 1002 || ids[0] != tok.start || ids[255] != tok.end || slices.Contains(ids[1:255], tok.end) {
		t.Errorf("%d of %d tokens, %v … %v", len(ids), whole, ids[:2], ids[254:])
	}
	if ids, _ := tok.Encode("", 0); !slices.Equal(ids, []int64{tok.start, tok.end}) {
		t.Errorf("an empty text is %v", ids)
	}
}

func TestSpecialTokensInATextAreReadAsAsked(t *testing.T) {
	t.Parallel()
	honoured, _ := installed(t, Options{}).Encode("a [SEP] b", 16)
	plain, _ := installed(t, Options{PlainSpecials: true}).Encode("a [SEP] b", 16)
	tok := installed(t, Options{})
	if n := count(honoured, tok.end); n != 2 {
		t.Errorf("honoured: %d times [SEP] in %v", n, honoured)
	}
	if n := count(plain, tok.end); n != 1 {
		t.Errorf("plain: %d times [SEP] in %v", n, plain)
	}
}

func count(ids []int64, id int64) (n int) {
	for _, i := range ids {
		if i == id {
			n++
		}
	}
	return n
}

func TestACasedVocabularyKeepsCapitalsAndAccents(t *testing.T) {
	t.Parallel()
	tok, err := New([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "Été", "été", "ete", "##s"}, Options{Cased: true})
	if err != nil {
		t.Fatal(err)
	}
	if ids, _ := tok.Encode("Étés ete", 16); !slices.Equal(ids, []int64{2, 4, 7, 6, 3}) {
		t.Errorf("ids %v", ids)
	}
}

func TestAVocabularyWithoutItsSpecialTokensIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := New([]string{"[PAD]", "[UNK]", "[CLS]", "a"}, Options{}); err == nil || !strings.Contains(err.Error(), "[SEP]") {
		t.Errorf("%v", err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none"), Options{}); err == nil {
		t.Error("a missing file is no error")
	}
}

func FuzzEncode(f *testing.F) {
	tok := installed(f, Options{})
	for _, s := range []string{"Hello", "[MASK][", "\x00\xff", "東京", strings.Repeat("x", 200)} {
		f.Add(s, 32)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		ids, whole := tok.Encode(text, limit)
		if len(ids) < 2 || len(ids) > max(limit, 2) || whole < len(ids) && limit >= 2 || ids[0] != tok.start || ids[len(ids)-1] != tok.end {
			t.Errorf("%q up to %d: %v of %d", text, limit, ids, whole)
		}
		for _, id := range ids {
			if id < 0 || id >= int64(tok.Size()) {
				t.Errorf("%q: id %d is outside of the vocabulary", text, id)
			}
		}
		if utf8.RuneCountInString(text)+2 < whole-2*strings.Count(text, "[") && utf8.ValidString(text) {
			t.Errorf("%q: %d tokens", text, whole)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	tok := installed(b, Options{})
	for b.Loop() {
		tok.Encode("The quick brown fox jumps over the lazy dog near the river bank.", 256)
	}
}
