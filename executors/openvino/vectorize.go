package openvino

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/wordpiece"
)

// embedded is what vectorsOf found.
type embedded struct {
	values    [][]float32 // as the model gives them; not to be changed
	tokens    []int
	truncated []bool
	model     modelInfo
	device    string
	hits      int

	thresholds *engines.Thresholds // of the model's card, or nil

	warnings []executors.Warning
	load     time.Duration
}

// vectorsOf computes or remembers the vectors of texts. name gives the field of
// each.
func (e *Executor) vectorsOf(ctx context.Context, task executors.Task, t target, texts []string, name func(int) string, truncate string) (*embedded, error) {
	w, err := e.find(t, e.settings.EmbedModel, engines.TaskEmbed)
	if err != nil {
		return nil, err
	}
	tok, err := e.tokenizer(w)
	if err != nil {
		return nil, err
	}
	out := &embedded{model: info(w.card, w.card.Model), thresholds: w.card.Thresholds, values: make([][]float32, len(texts))}
	job := &embedding{task: task, pad: tok.Pad(), name: name, out: out}
	if job.ids, err = tokenize(tok, w.card, texts, name, truncate, out); err != nil {
		return nil, err
	}
	groups := byBucket(job.ids, w.card.StaticShapes)
	for len(groups) > 0 {
		w.length = groups[0].bucket
		l, err := e.models.acquire(ctx, w, func(p executors.Progress) {
			job.told = true
			task.Progress(p)
		})
		if err != nil {
			return nil, err
		}
		now, later := groups[:1], groups[1:]
		if dynamic(l.key.device) { // buckets are only for devices that need them
			now, later = groups, nil
		}
		err = e.embedGroups(ctx, job, l, now)
		l.release()
		if err != nil {
			return nil, err
		}
		groups = later
	}
	return out, nil
}

// tokenize turns texts into ids of at most what the model reads.
func tokenize(tok *wordpiece.Tokenizer, card engines.Card, texts []string, name func(int) string, truncate string, out *embedded) ([][]int64, error) {
	switch truncate {
	case "", truncateError, truncateEnd:
	default:
		return nil, executors.Invalid("truncate", "must be error or end, got %q", cut(truncate))
	}
	limit := tokenLimit(card)
	ids := make([][]int64, len(texts))
	cutTexts := 0
	for i, text := range texts {
		var all int
		ids[i], all = tok.Encode(text, limit)
		if all > limit {
			if truncate != truncateEnd {
				err := executors.Invalid(name(i), "has %d tokens, model %s reads %d", all, card.Name, limit)
				err.Hint = `split the text, or set truncate to "end" to drop what is too long`
				return nil, err
			}
			cutTexts++
		}
		out.tokens = append(out.tokens, len(ids[i]))
		out.truncated = append(out.truncated, all > limit)
	}
	if cutTexts > 0 {
		out.warnings = append(out.warnings, executors.Warning{Code: "TRUNCATED", Message: fmt.Sprintf("%d of %d texts were cut to %d tokens", cutTexts, len(texts), limit)})
	}
	return ids, nil
}

// tokenLimit is how many tokens a model reads.
func tokenLimit(card engines.Card) int {
	limit := 512
	if card.MaxTokens > 0 {
		limit = card.MaxTokens
	}
	for _, p := range card.Inputs {
		if p.Name == "input_ids" && len(p.Shape) == 2 && p.Shape[1] > 0 {
			limit = min(limit, int(p.Shape[1]))
		}
	}
	return limit
}

// bucket is a length that devices without open dimensions are compiled for, and
// the texts that it is the smallest for.
type bucket struct {
	bucket  int
	members []int
}

func byBucket(ids [][]int64, shapes []int) []bucket {
	var out []bucket
	for i, list := range ids {
		length := 0
		for _, s := range shapes {
			if s >= len(list) {
				length = s
				break
			}
		}
		at := slices.IndexFunc(out, func(b bucket) bool { return b.bucket == length })
		if at < 0 {
			out = append(out, bucket{bucket: length})
			at = len(out) - 1
		}
		out[at].members = append(out[at].members, i)
	}
	return out
}

// embedding is one task's texts on their way.
type embedding struct {
	task executors.Task
	ids  [][]int64
	pad  int64
	name func(int) string
	out  *embedded
	done int
	told bool // how far it is
}

// embedGroups computes the vectors of the texts of groups on a loaded model.
func (e *Executor) embedGroups(ctx context.Context, job *embedding, l *lease, groups []bucket) error {
	job.out.used(l)
	b, err := l.batch()
	if err != nil {
		return err
	}
	var list []*sequence
	var missing []int
	keys := map[int]vectorKey{}
	for _, g := range groups {
		for _, i := range g.members {
			keys[i] = keyOf(l.key, l.device, job.ids[i])
			if v, ok := e.vectors.get(keys[i]); ok {
				job.out.values[i] = v
				job.out.hits++
				job.done++
				continue
			}
			if most := b.shape.length; most > 0 && len(job.ids[i]) > most {
				return executors.Invalid(job.name(i), "has %d tokens, model %s reads %d", len(job.ids[i]), l.key.name, most)
			}
			missing = append(missing, i)
			list = append(list, &sequence{ctx: ctx, ids: job.ids[i], pad: job.pad, done: make(chan vector, 1)})
		}
	}
	if len(list) == 0 {
		return nil
	}
	b.add(list)
	if job.told {
		job.progress()
	}
	tick := time.NewTicker(quick)
	defer tick.Stop()
	for n := 0; n < len(list); {
		select {
		case v := <-list[n].done:
			if err := e.keep(v, keys[missing[n]], job.name(missing[n])); err != nil {
				return err
			}
			job.out.values[missing[n]] = v.values
			job.done++
			n++
		case <-tick.C:
			job.progress()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// quick is how long a task may take before it tells how far it is. Most have
// their vectors after a few milliseconds; telling it of each of them costs the
// agent and Redis as much as the result does.
const quick = 100 * time.Millisecond

func (job *embedding) progress() {
	total := len(job.ids)
	job.told = true
	job.task.Progress(executors.Progress{Percent: 5 + 90*job.done/total, Stage: "infer", Done: int64(job.done), Total: int64(total), Unit: "item"})
}

// used notes on which device texts are computed.
func (o *embedded) used(l *lease) {
	switch {
	case o.device == "":
		o.device = l.device
	case !slices.Contains(strings.Split(o.device, ","), l.device): // lost in between
		o.device += "," + l.device
	}
	o.load += l.load
	for _, w := range l.warnings {
		if !slices.Contains(o.warnings, w) {
			o.warnings = append(o.warnings, w)
		}
	}
}

// keep checks and remembers a vector.
func (e *Executor) keep(v vector, key vectorKey, field string) error {
	if v.err != nil {
		return v.err
	}
	for i, x := range v.values {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			err := executors.Errorf(executors.CodeNumericError, "%s: value %d of the vector is %v", field, i, f)
			err.Hint = "another device or the precision f32 may compute it"
			return err
		}
	}
	e.vectors.put(key, v.values)
	return nil
}

// tokenizer returns the tokenizer of a model, read once.
func (e *Executor) tokenizer(w want) (*wordpiece.Tokenizer, error) {
	t := w.card.Tokenizer
	if t == nil {
		err := executors.Errorf(executors.CodeUnsupported, "model %s makes vectors of pictures, not of texts", w.card.Name)
		err.Field, err.Hint = "model", "use op embed_image, or a model for texts"
		return nil, err
	}
	path := filepath.Join(w.dir, t.Vocab)
	id := path + " " + fileSum(w.card, t.Vocab)
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := e.tokenizers[id]; known != nil {
		return known, nil
	}
	loaded, err := wordpiece.Load(path, wordpiece.Options{Cased: t.Cased})
	if err != nil {
		return nil, executors.Errorf(executors.CodeModelLoadFailed, "model %s: %v", w.card.Name, err)
	}
	e.tokenizers[id] = loaded
	return loaded, nil
}
