package engines

import (
	"bytes"
	"sync"
)

// known remembers cards by file, with the bytes that they were read from:
// every task asks for its model's card, and reading JSON and checking it takes
// longer than the rest of the question. A card that was written anew has other
// bytes, whatever its time says.
var known struct {
	mu    sync.Mutex
	cards map[string]knownCard
}

type knownCard struct {
	raw  []byte
	card Card
}

// maxKnown bounds what is remembered; models are few.
const maxKnown = 1000

// parseKnown is ParseCard for the content of a file. The card shares its lists
// with what is remembered: they must not be changed.
func parseKnown(path string, raw []byte) (Card, error) {
	known.mu.Lock()
	k, ok := known.cards[path]
	known.mu.Unlock()
	if ok && bytes.Equal(k.raw, raw) {
		return k.card, nil
	}
	card, err := ParseCard(raw)
	if err != nil {
		return Card{}, err
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	if known.cards == nil || len(known.cards) >= maxKnown {
		known.cards = map[string]knownCard{}
	}
	known.cards[path] = knownCard{raw, card}
	return card, nil
}
