package configfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// words is a list that may also be written as one text.
type words []string

func (w *words) UnmarshalText(text []byte) error {
	*w = strings.Fields(string(text))
	return nil
}

func TestListWithUnmarshalTextIsReadAsTextOrList(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"one text": "words: a b\n", "a list": "words: [a, b]\n", "a block list": "words:\n  - a\n  - b\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "x.yaml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var target struct {
				Words words `yaml:"words"`
			}
			if _, err := Load(Options{Path: path}, &target); err != nil || !slices.Equal(target.Words, words{"a", "b"}) {
				t.Errorf("got %q, %v", target.Words, err)
			}
		})
	}
	for _, text := range []string{"a b", "[a, b]"} {
		var target struct {
			Words words `yaml:"words"`
		}
		if _, err := Load(Options{Overrides: map[string]string{"words": text}}, &target); err != nil || !slices.Equal(target.Words, words{"a", "b"}) {
			t.Errorf("flag %q: got %q, %v", text, target.Words, err)
		}
	}
}
