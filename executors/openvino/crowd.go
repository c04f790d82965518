package openvino

import (
	"cmp"
	"math/bits"
	"runtime"
)

// A model on a processor is compiled for one inference at a time: all cores
// work on it in step, which is best for a text that comes alone. For a crowd
// that is not the best. Whenever something else needs a core, and the results of
// a crowd are something else, all the others wait for the one that lost its
// turn. So a crowd runs on a second form of the model, of several streams that
// know nothing of each other, in small portions: a stream on one core has the
// same throughput from four texts on, and the first results are on their way
// while the last texts are computed.
const (
	maxStreams = 4
	maxPortion = 8 // texts in one inference of a stream

	// crowdTexts is how many texts that wait at once make the second form worth
	// its memory.
	crowdTexts = 2 * maxPortion
)

// streams is how many inferences for a crowd run side by side on a device, 0 if
// one at a time is as good.
func (m *models) streams(device string) int {
	n := min(maxStreams, cmp.Or(threads(m.settings.Threads), runtime.NumCPU()))
	if kind(device) != deviceCPU || n < 2 || m.settings.Slots > 1 {
		return 0
	}
	return n
}

// choose says on what the next inference runs: nil for the model itself, else
// its form for crowds, with one user more. ok is false if it has to wait for one
// that runs: the two forms use the same cores. Call with mu held and somebody
// waiting.
func (b *batcher) choose() (wide *model, ok bool) {
	switch {
	case b.wide > 0 && b.wide >= b.streams, b.plain >= b.slots:
		return nil, false
	case b.streams > 0 && b.plain == 0 && (b.wide > 0 || len(b.waiting) > 1):
		wide = b.crowdForm()
	}
	return wide, wide != nil || b.wide == 0
}

// crowdForm returns the form for crowds, with one user more, or nil if it is
// not there. It is loaded when there is a crowd.
func (b *batcher) crowdForm() *model {
	m := b.owner
	k := b.model.key
	k.streams = b.streams
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.loaded[k]
	if e != nil && e.model != nil {
		e.model.users++
		return e.model
	}
	if e == nil && len(b.waiting) >= crowdTexts && !m.closed && (b.form == nil || b.form.err == nil) {
		b.form = m.spare(k, b.model.want)
	}
	return nil
}

// portion is how many sequences the next inference of a stream takes: an even
// share for each idle stream, and always a power of two, which keeps the shapes
// few that each stream has memory for. Call with mu held.
func (b *batcher) portion() int {
	length, n := b.padded(b.waiting[0]), 0
	for _, s := range b.waiting {
		if b.padded(s) == length {
			n++
		}
	}
	idle := b.streams - b.wide
	n = min(maxPortion, (n+idle-1)/idle)
	return 1 << (bits.Len(uint(n)) - 1)
}

// spare begins to load a model if no other one has to go for it, else it
// returns nil. Call with mu held.
func (m *models) spare(k key, w want) *entry {
	need := estimate(w.card, k.file)
	used := m.leaving
	for _, e := range m.loaded {
		used += e.bytes
	}
	if used+need > m.settings.MaxLoadedMB<<20 {
		return nil
	}
	return m.begin(k, w, need)
}
