package openvino

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"
)

// vectors remembers the vectors of texts, the least recently used go first.
// What is remembered is as the model gave it, before it is normalised or cut.
type vectors struct {
	size int
	ttl  time.Duration
	now  func() time.Time

	mu    sync.Mutex
	byKey map[vectorKey]*list.Element
	order *list.List // most recently used first
}

// vectorKey is everything that a vector depends on: the model with its card,
// the device, precision, and the tokens.
type vectorKey [sha256.Size]byte

type remembered struct {
	key    vectorKey
	values []float32
	until  time.Time
}

func newVectors(size int, ttl time.Duration) *vectors {
	return &vectors{size: size, ttl: ttl, now: time.Now, byKey: map[vectorKey]*list.Element{}, order: list.New()}
}

func keyOf(k key, device string, ids []int64) vectorKey {
	h := sha256.New()
	for _, s := range []string{k.digest, k.file, device, k.precision} {
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(s))))
		h.Write([]byte(s))
	}
	raw := make([]byte, 0, 8*len(ids))
	for _, id := range ids {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(id))
	}
	h.Write(raw)
	return vectorKey(h.Sum(nil))
}

// get returns a vector, which must not be changed.
func (v *vectors) get(key vectorKey) ([]float32, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e, ok := v.byKey[key]
	if !ok {
		return nil, false
	}
	r := e.Value.(*remembered)
	if v.now().After(r.until) {
		v.order.Remove(e)
		delete(v.byKey, key)
		return nil, false
	}
	v.order.MoveToFront(e)
	return r.values, true
}

// put remembers a vector.
func (v *vectors) put(key vectorKey, values []float32) {
	if v.size == 0 || v.ttl == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if e, ok := v.byKey[key]; ok {
		v.order.Remove(e)
	}
	v.byKey[key] = v.order.PushFront(&remembered{key, values, v.now().Add(v.ttl)})
	for v.order.Len() > v.size {
		last := v.order.Back()
		v.order.Remove(last)
		delete(v.byKey, last.Value.(*remembered).key)
	}
}
