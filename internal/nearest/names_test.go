package nearest

import (
	"slices"
	"strings"
	"testing"
)

func TestNamesThatHoldTheWordComeFirst(t *testing.T) {
	t.Parallel()
	known := []string{"be", "de", "eo", "en-us", "en-gb", "en-us-joe-medium", "mini-llm", "all-minilm-l6-v2", "joes"}
	for word, want := range map[string][]string{
		"joe":        {"joes", "en-us-joe-medium"},
		"all-minilm": {"all-minilm-l6-v2"},
		"minilm":     {"all-minilm-l6-v2", "mini-llm"},
		"EN-US":      {"en-us", "en-us-joe-medium", "en-gb"},
		"en_us":      {"en-us"},
		"alloy":      nil,
		"":           nil,

		strings.Repeat("x", 1000): nil,
	} {
		if got := Names(word, known, 3); !slices.Equal(got, want) {
			t.Errorf("%.20s: %v, want %v", word, got, want)
		}
	}
}
