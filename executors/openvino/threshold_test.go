package openvino

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// scored is how near two texts are, and whether they are about the same.
type scored struct {
	score float64
	same  bool
}

// pairs computes the cosines of the pairs in testdata/pairs.tsv: forty short
// queries with a sentence that answers it or says the same in other
// words, and forty with one that does not: half of them of the same field.
func pairs(t *testing.T) (list []scored) {
	t.Helper()
	vectors := map[string][]float32{}
	lines := strings.Split(strings.TrimSpace(string(readFile(t, "testdata/pairs.tsv"))), "\n")
	var texts []string
	for _, line := range lines {
		texts = append(texts, strings.Split(line, "\t")[1:]...)
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	for part := range slices.Chunk(texts, 32) { // more would become a file
		var out embedOutput
		must(t, "embedding", obj{"texts": part}, &out)
		for i, text := range part {
			vectors[text] = out.Embeddings[i]
		}
	}
	for _, line := range lines {
		f := strings.Split(line, "\t")
		list = append(list, scored{cosine(vectors[f[1]], vectors[f[2]]), f[0] == "same"})
	}
	return list
}

// f1 is the harmonic mean of precision and recall of a threshold.
func f1(list []scored, threshold float64) float64 {
	var right, wrong, missed float64
	for _, p := range list {
		switch found := p.score >= threshold; {
		case found && p.same:
			right++
		case found:
			wrong++
		case p.same:
			missed++
		}
	}
	return 2 * right / (2*right + wrong + missed)
}

// The threshold of the usual model's card is a measured one: near the one that
// tells related pairs from others best.
func TestTheThresholdOfTheCardTellsWhatIsMeantFromWhatIsNot(t *testing.T) {
	t.Parallel()
	card, _, err := real(t).layout.Model("all-minilm-l6-v2")
	if err != nil {
		t.Fatal(err)
	}
	if card.Thresholds == nil {
		t.Fatal("the card of all-minilm-l6-v2 has no thresholds (install the model again: autobot-agent engines install all-minilm-l6-v2)")
	}
	list := pairs(t)
	best, at := 0.0, 0.0
	for percent := range 100 {
		threshold := float64(percent) / 100
		if f := f1(list, threshold); f > best {
			best, at = f, threshold
		}
	}
	got := f1(list, card.Thresholds.Score)
	t.Logf("of %d pairs: best F1 %.3f at %.2f; the card's threshold %.2f has %.3f", len(list), best, at, card.Thresholds.Score, got)
	if len(list) != 80 || math.Abs(card.Thresholds.Score-at) > 0.05 || got < best-0.05 {
		t.Errorf("F1 of the card's threshold %.2f is %.3f, %.2f has %.3f", card.Thresholds.Score, got, at, best)
	}
}
