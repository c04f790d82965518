package openvino

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

// batcher puts token sequences of several tasks into one inference. What arrives
// while an inference runs makes the next one, so a lone text loses nothing and a
// crowd shares; see gather for the first of a crowd.
type batcher struct {
	owner *models
	model *model
	shape sequenceShape
	limit int // sequences in one inference

	mu      sync.Mutex
	waiting []*sequence
	crowd   bool // the last inference was for several tasks
	wake    chan struct{}
	stop    context.CancelFunc
	loops   sync.WaitGroup
}

// sequence is one text on its way through a model.
type sequence struct {
	ctx  context.Context
	ids  []int64
	pad  int64
	done chan vector // holds one
}

// vector is what became of a sequence.
type vector struct {
	values []float32
	err    error
}

// sequenceShape is what a model's ports demand of a batch.
type sequenceShape struct {
	ports  []ov.Port
	rows   int // fixed number of rows, 0: any
	most   int // rows that fit, 0: any number
	length int // fixed length, 0: any
}

// batch returns the batcher of a model; it runs until the model is freed.
func (l *lease) batch() (*batcher, error) {
	shape, err := sequencePorts(l.compiled)
	if err != nil {
		return nil, loadFailed(l.key, err)
	}
	l.batchOnce.Do(func() {
		ctx, stop := context.WithCancel(l.owner.life)
		b := &batcher{
			owner: l.owner, model: l.model, shape: shape, limit: l.owner.settings.MaxBatch,
			wake: make(chan struct{}, 1), stop: stop,
		}
		if shape.most > 0 && (shape.rows > 0 || shape.most < b.limit) {
			b.limit = shape.most // a fixed number of rows is computed whether they are filled or not
		}
		l.batcher = b
		for range l.owner.settings.Slots {
			b.loops.Go(func() { b.loop(ctx) })
		}
	})
	return l.batcher, nil
}

// sequencePorts checks that a model takes token ids and gives one row a token.
func sequencePorts(c *ov.Compiled) (sequenceShape, error) {
	var s sequenceShape
	for _, p := range c.Inputs() {
		switch p.Name {
		case "input_ids", "attention_mask", "token_type_ids":
		default:
			return s, fmt.Errorf("input %s is not one of a text model", p)
		}
		if p.Type != ov.I64 && p.Type != ov.I32 || len(p.Shape) != 2 {
			return s, fmt.Errorf("input %s: expected [rows,tokens] of i64 or i32", p)
		}
		if p.Shape[0].Fixed() {
			s.rows = int(p.Shape[0].Max)
		}
		if p.Shape[0].Max > 0 {
			s.most = int(p.Shape[0].Max)
		}
		if p.Shape[1].Fixed() {
			s.length = int(p.Shape[1].Max)
		}
		s.ports = append(s.ports, p)
	}
	if len(s.ports) == 0 {
		return s, fmt.Errorf("the model has no inputs")
	}
	return s, nil
}

// add hands sequences in; each is answered on its own channel.
func (b *batcher) add(list []*sequence) {
	b.mu.Lock()
	b.waiting = append(b.waiting, list...)
	b.mu.Unlock()
	b.poke()
}

func (b *batcher) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *batcher) loop(ctx context.Context) {
	for {
		list := b.take()
		if len(list) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-b.wake:
				b.gather(ctx)
			}
			continue
		}
		b.run(ctx, list)
	}
}

// take picks the sequences of the next inference: the oldest one, and those that
// are padded to the same length. With longer ones it would cost more, and become
// something else: where the runtime sums more padded numbers at once, rounding
// differs, which a model of whole numbers makes visible (cosine 0.99989).
func (b *batcher) take() []*sequence {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = slices.DeleteFunc(b.waiting, func(s *sequence) bool { return s.ctx.Err() != nil })
	if len(b.waiting) == 0 {
		return nil
	}
	length := b.padded(b.waiting[0])
	var list, rest []*sequence
	for _, s := range b.waiting {
		if len(list) < b.limit && b.padded(s) == length {
			list = append(list, s)
		} else {
			rest = append(rest, s)
		}
	}
	b.crowd = slices.ContainsFunc(list, func(s *sequence) bool { return s.ctx != list[0].ctx })
	if b.waiting = rest; len(rest) > 0 {
		b.poke() // another loop may be idle
	}
	return list
}

// run is one inference for all of list.
func (b *batcher) run(ctx context.Context, list []*sequence) {
	vectors, err := b.infer(ctx, list)
	for i, s := range list {
		v := vector{err: err}
		if err == nil {
			v.values = vectors[i]
		}
		s.done <- v
	}
}

func (b *batcher) infer(ctx context.Context, list []*sequence) ([][]float32, error) {
	rows, length := len(list), 0
	for _, s := range list {
		length = max(length, len(s.ids))
	}
	rows, length = b.shape.round(rows, length, b.limit, tokenLimit(b.model.card))
	inputs := map[string]ov.Tensor{}
	for _, p := range b.shape.ports {
		t, err := sequenceTensor(p, list, rows, length)
		if err != nil {
			return nil, err
		}
		inputs[p.Name] = t
	}
	out, err := b.owner.infer(ctx, b.model, inputs)
	if err != nil {
		return nil, cardFault(b.model.key, err)
	}
	return pool(out[b.model.compiled.Outputs()[0].Name], list, rows, length, b.model.card.Pooling)
}

// The steps in which batches grow. The runtime keeps memory for each shape that
// it has seen: with every number of rows and tokens of its own, that grew by a
// third over a thousand tasks.
const lengthStep = 8

var rowSteps = []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256}

// round returns the shape of a batch: what the model fixes, else the next step
// that is not beyond the limits.
func (s sequenceShape) round(rows, length, mostRows, mostTokens int) (int, int) {
	switch {
	case s.rows > 0:
		rows = s.rows
	default:
		if i, _ := slices.BinarySearch(rowSteps, rows); i < len(rowSteps) && rowSteps[i] <= mostRows && (s.most == 0 || rowSteps[i] <= s.most) {
			rows = rowSteps[i]
		}
	}
	return rows, s.tokens(length, mostTokens)
}

// tokens is what round does with a length.
func (s sequenceShape) tokens(length, most int) int {
	if s.length > 0 {
		return s.length
	}
	return max(length, min((length+lengthStep-1)/lengthStep*lengthStep, most))
}

// padded is how many tokens a sequence is computed as, alone and among others.
func (b *batcher) padded(s *sequence) int {
	return b.shape.tokens(len(s.ids), tokenLimit(b.model.card))
}

// sequenceTensor lays one input out. Rows without a sequence repeat the first,
// so that no row is empty.
func sequenceTensor(p ov.Port, list []*sequence, rows, length int) (ov.Tensor, error) {
	values := make([]int64, rows*length)
	for row := range rows {
		s := list[0]
		if row < len(list) {
			s = list[row]
		}
		for i := range length {
			at := row*length + i
			switch {
			case p.Name == "input_ids" && i < len(s.ids):
				values[at] = s.ids[i]
			case p.Name == "input_ids":
				values[at] = s.pad
			case p.Name == "attention_mask" && i < len(s.ids):
				values[at] = 1
			}
		}
	}
	if p.Type == ov.I64 {
		return ov.New(values, int64(rows), int64(length))
	}
	short := make([]int32, len(values))
	for i, v := range values {
		short[i] = int32(v)
	}
	return ov.New(short, int64(rows), int64(length))
}

// pool makes one vector a sequence of [rows,tokens,dim]: the mean over its
// tokens, or the first token's. A model that pools itself gives [rows,dim].
func pool(t ov.Tensor, list []*sequence, rows, length int, kind string) ([][]float32, error) {
	values, err := t.Float32s()
	if err != nil {
		return nil, executors.Errorf(executors.CodeEngineError, "the model's output: %v", err)
	}
	shape := t.Shape()
	whole := len(shape) == 2 && shape[0] == int64(rows)
	if !whole && (len(shape) != 3 || shape[0] != int64(rows) || shape[1] != int64(length)) {
		return nil, executors.Errorf(executors.CodeModelLoadFailed, "the model gives %v for %d texts of %d tokens, expected [texts,tokens,dim]", shape, rows, length)
	}
	dim := int(shape[len(shape)-1])
	out := make([][]float32, len(list))
	for row, s := range list {
		v := make([]float32, dim)
		switch {
		case whole:
			copy(v, values[row*dim:(row+1)*dim])
		case kind == "cls":
			copy(v, values[row*length*dim:row*length*dim+dim])
		default:
			sums := make([]float64, dim)
			for i := range s.ids {
				for d, x := range values[(row*length+i)*dim : (row*length+i+1)*dim] {
					sums[d] += float64(x)
				}
			}
			for d := range v {
				v[d] = float32(sums[d] / float64(len(s.ids)))
			}
		}
		out[row] = v
	}
	return out, nil
}

// close ends the batcher; whoever still waits gets the end of their context.
func (b *batcher) close() {
	b.stop()
	b.loops.Wait()
}
