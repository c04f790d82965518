package openvino

import (
	"testing"
	"time"
)

func TestVectorsAreForgottenByAgeAndNumber(t *testing.T) {
	t.Parallel()
	clock := time.Now()
	v := newVectors(2, time.Minute)
	v.now = func() time.Time { return clock }
	keyed := func(id int64) vectorKey { return keyOf(key{digest: "d"}, "CPU", []int64{id}) }
	known := func(id int64) bool {
		got, ok := v.get(keyed(id))
		if ok && got[0] != float32(id) {
			t.Errorf("%d became %v", id, got)
		}
		return ok
	}
	put := func(id int64) { v.put(keyed(id), []float32{float32(id)}) }
	put(1)
	put(2)
	if !known(1) || !known(2) {
		t.Error("two of two are not known")
	}
	known(1)
	put(3) // 2 was used longest ago
	if !known(1) || known(2) || !known(3) {
		t.Errorf("known: %v %v %v", known(1), known(2), known(3))
	}
	clock = clock.Add(30 * time.Second)
	put(3)
	clock = clock.Add(31 * time.Second)
	if known(1) || !known(3) {
		t.Errorf("after a minute: %v, after half of one: %v", known(1), known(3))
	}
	if len(v.byKey) != v.order.Len() {
		t.Errorf("%d keys for %d vectors", len(v.byKey), v.order.Len())
	}
	for _, none := range []*vectors{newVectors(0, time.Minute), newVectors(5, 0)} {
		none.put(keyed(1), []float32{1})
		if _, ok := none.get(keyed(1)); ok {
			t.Error("it was to remember none")
		}
	}
}

func TestKeysOfVectorsDifferInEachPart(t *testing.T) {
	t.Parallel()
	seen := map[vectorKey]bool{}
	k := key{digest: "ab", file: "c", precision: "f32"}
	for _, key := range []vectorKey{
		keyOf(k, "CPU", []int64{1, 2}), keyOf(k, "CPU", []int64{1}), keyOf(k, "CPU", []int64{2, 1}), keyOf(k, "NPU", []int64{1, 2}),
		keyOf(key{digest: "a", file: "bc", precision: "f32"}, "CPU", []int64{1, 2}), keyOf(key{digest: "ab", file: "c"}, "CPU", []int64{1, 2}),
	} {
		if seen[key] {
			t.Error("two keys are the same")
		}
		seen[key] = true
	}
}
