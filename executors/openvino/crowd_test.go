package openvino

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// crowded is an executor on two threads, whatever the machine has.
func crowded(t testing.TB, change func(*Settings)) *Executor {
	t.Helper()
	return on(t, real(t).layout.ModelsDir, func(s *Settings) {
		s.Threads = 2
		if change != nil {
			change(s)
		}
	})
}

// vectorsOfCrowd computes texts that come at once, each for a task of its own.
func vectorsOfCrowd(t *testing.T, e *Executor, l *lease, texts []string) [][]float32 {
	t.Helper()
	tok, err := e.tokenizer(l.want)
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.batch()
	if err != nil {
		t.Fatal(err)
	}
	list := make([]*sequence, len(texts))
	for i, text := range texts {
		ids, _ := tok.Encode(text, 256)
		list[i] = &sequence{ctx: context.WithValue(t.Context(), ctxKey{}, i), ids: ids, pad: tok.Pad(), done: make(chan vector, 1)}
	}
	b.add(list)
	vectors := make([][]float32, len(list))
	for i, s := range list {
		v := <-s.done
		if v.err != nil {
			t.Fatal(v.err)
		}
		vectors[i] = v.values
	}
	return vectors
}

// forms lists the loaded forms for crowds.
func (m *models) forms() (list []*entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, e := range m.loaded {
		if k.streams > 0 {
			list = append(list, e)
		}
	}
	return list
}

// form waits for the only one.
func (m *models) form(t *testing.T) *model {
	t.Helper()
	list := m.forms()
	if len(list) != 1 {
		t.Fatalf("there are %d forms for a crowd, expected one", len(list))
	}
	<-list[0].ready
	if list[0].err != nil {
		t.Fatal(list[0].err)
	}
	return list[0].model
}

func TestACrowdHasAFormOfTheModelOfItsOwn(t *testing.T) {
	t.Parallel()
	e := crowded(t, nil)
	l := take(t, e, "all-minilm-l6-v2")
	defer l.release()
	texts := sentences(2 * crowdTexts)
	for i := range texts { // of several lengths
		texts[i] += strings.Repeat(" It ends later.", i%5)
	}
	var want [][]float32
	for i := range texts {
		want = append(want, vectorsOfCrowd(t, e, l, texts[i:i+1])...)
	}
	vectorsOfCrowd(t, e, l, texts[:crowdTexts-1])
	if n := len(e.models.forms()); n != 0 {
		t.Fatalf("%d texts at once have a form of their own", crowdTexts-1)
	}
	same := func(got [][]float32) {
		for i := range texts {
			if c := cosine(got[i], want[i]); c < 0.9999 {
				t.Errorf("text %d: alone and in a crowd differ, cosine %.6f", i, c)
			}
		}
	}
	same(vectorsOfCrowd(t, e, l, texts))
	form := e.models.form(t)
	began := time.Now()
	same(vectorsOfCrowd(t, e, l, texts))
	e.models.mu.Lock()
	defer e.models.mu.Unlock()
	if !form.last.After(began) || form.users != 0 {
		t.Errorf("the second crowd did not use it, or still does: %d users", form.users)
	}
}

func TestNoModelHasToGoForACrowd(t *testing.T) {
	t.Parallel()
	e := crowded(t, func(s *Settings) { s.MaxLoadedMB = 64 })
	l := take(t, e, "all-minilm-l6-v2")
	defer l.release()
	vectorsOfCrowd(t, e, l, sentences(2*crowdTexts))
	if n := len(e.models.forms()); n != 0 {
		t.Errorf("there are %d forms for crowds, max_loaded_mb allows none", n)
	}
}

func TestTheFormForCrowdsIsFreedWhenThereIsNone(t *testing.T) {
	t.Parallel()
	e := crowded(t, nil)
	l := take(t, e, "all-minilm-l6-v2")
	defer l.release()
	vectorsOfCrowd(t, e, l, sentences(2*crowdTexts))
	e.models.form(t)
	e.models.sweep(time.Now().Add(e.settings.IdleUnload))
	if n := len(e.models.forms()); n != 0 || len(e.models.names()) != 1 {
		t.Errorf("%d forms for crowds and the models %v are left", n, e.models.names())
	}
	vectorsOfCrowd(t, e, l, sentences(2*crowdTexts))
	if n := len(e.models.forms()); n != 1 {
		t.Errorf("the next crowd has %d forms", n)
	}
}

// portions takes what may run at once: how many sequences on which form, those
// on the model itself negative.
func portions(t *testing.T, running int, lengths ...int) (list []int) {
	t.Helper()
	m := &models{loaded: map[key]*entry{{streams: 2}: {model: &model{}}}}
	b := &batcher{owner: m, model: &model{}, limit: 32, slots: 1, streams: 2, wide: running, wake: make(chan struct{}, 1)}
	for _, n := range lengths {
		b.add([]*sequence{{ctx: t.Context(), ids: make([]int64, n)}})
	}
	for next := b.take(); next != nil; next = b.take() {
		for _, s := range next.list {
			if got, want := b.padded(s), b.padded(next.list[0]); got != want {
				t.Errorf("sequences that are padded to %d and to %d share an inference", got, want)
			}
		}
		if next.wide != nil {
			list = append(list, len(next.list))
		} else {
			list = append(list, -len(next.list))
		}
	}
	return list
}

func TestACrowdIsDividedIntoPortions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		running int
		lengths []int
		want    string
	}{
		{0, slices.Repeat([]int{20}, 1), "[-1]"},
		{0, slices.Repeat([]int{20}, 2), "[1 1]"},
		{0, slices.Repeat([]int{20}, 5), "[2 2]"},
		{0, slices.Repeat([]int{20}, 32), "[8 8]"},
		{1, slices.Repeat([]int{20}, 1), "[1]"},
		{1, slices.Repeat([]int{20}, 9), "[8]"},
		{2, slices.Repeat([]int{20}, 9), "[]"},
		{0, []int{9, 30, 16, 31, 12, 32, 15, 1}, "[2 2]"},
	} {
		if got := fmt.Sprint(portions(t, tt.running, tt.lengths...)); got != tt.want {
			t.Errorf("%d run and %v wait: portions of %s, want %s", tt.running, tt.lengths, got, tt.want)
		}
	}
}

func TestOnlyAProcessorWithCoresDividesACrowd(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		device         string
		threads, slots int
		want           int
	}{
		{"CPU", 2, 1, 2}, {"CPU", 64, 1, maxStreams}, {"CPU", 1, 1, 0}, {"CPU", 2, 2, 0}, {"GPU", 2, 1, 0}, {"NPU", 2, 1, 0},
	} {
		m := &models{settings: Settings{Threads: tt.threads, Slots: tt.slots}}
		if got := m.streams(tt.device); got != tt.want {
			t.Errorf("%+v: %d streams", tt, got)
		}
	}
}

// Whoever ends an inference begins the next one, and has to tell the others when
// there is more to do than that.
func TestTheRestOfACrowdIsBegunByTheOthers(t *testing.T) {
	t.Parallel()
	m := &models{loaded: map[key]*entry{{streams: 2}: {model: &model{}}}}
	b := &batcher{owner: m, model: &model{}, limit: 32, slots: 1, streams: 2, wake: make(chan struct{}, 1)}
	b.add(slices.Repeat([]*sequence{{ctx: t.Context(), ids: make([]int64, 20)}}, 12))
	<-b.wake
	b.take()
	select {
	case <-b.wake:
	default:
		t.Error("six of twelve wait, and nobody was told")
	}
}
