package openvino

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/wordpiece"
)

// inlineBytes is how large vectors and tensors may be in a result; larger ones
// become files.
const inlineBytes = 64 << 10

// What happens to a text that is longer than the model reads.
const (
	truncateError = "error"
	truncateEnd   = "end"
)

// embedPayload is the payload of op embed.
type embedPayload struct {
	target
	seed
	Text       *string  `json:"text"`
	Texts      []string `json:"texts"`
	Normalize  *bool    `json:"normalize"`
	Truncate   string   `json:"truncate"`
	Dimensions *int     `json:"dimensions"`
	InputData  *struct {
		Text  *string  `json:"text"`
		Texts []string `json:"texts"`
	} `json:"input_data"` // as older producers nest it
}

// embedOutput is the output of op embed. Embeddings are left out where they
// are in the file embeddings.f32.
type embedOutput struct {
	Embeddings [][]float32 `json:"embeddings,omitempty"`
	Count      int         `json:"count"`
	Dim        int         `json:"dim"`
	Normalized bool        `json:"normalized"`
	Tokens     []int       `json:"tokens"`
	Truncated  []bool      `json:"truncated"`
	Model      modelInfo   `json:"model"`
	Device     string      `json:"device"`
	CacheHits  int         `json:"cache_hits"`
}

func (e *Executor) embed(ctx context.Context, task executors.Task, old bool) (executors.Result, error) {
	var p embedPayload
	if err := executors.DecodePayload(task, &p); err != nil {
		return executors.Result{}, err
	}
	texts, field, err := p.texts()
	if err != nil {
		return executors.Result{}, err
	}
	if p.Truncate == "" && old {
		p.Truncate = truncateEnd // what that producer knows
	}
	v, err := e.vectorsOf(ctx, task, p.target, texts, field, p.Truncate)
	if err != nil {
		return executors.Result{}, err
	}
	normalize := p.Normalize == nil || *p.Normalize
	out := embedOutput{
		Count: len(texts), Normalized: normalize, Tokens: v.tokens, Truncated: v.truncated,
		Model: v.model, Device: v.device, CacheHits: v.hits,
	}
	out.Dim, err = whole("dimensions", p.Dimensions, len(v.values[0]), 1, len(v.values[0]))
	if err != nil {
		return executors.Result{}, err
	}
	rows := make([][]float32, len(v.values))
	for i, raw := range v.values {
		rows[i] = slices.Clone(raw[:out.Dim])
		if normalize {
			normalizeL2(rows[i])
		}
	}
	if 4*len(rows)*out.Dim > inlineBytes {
		if err := writeFloats(task, "embeddings.f32", rows, map[string]string{
			"dtype": "f32", "shape": fmt.Sprintf("%d,%d", len(rows), out.Dim), "byte_order": "little",
		}); err != nil {
			return executors.Result{}, err
		}
	} else {
		out.Embeddings = rows
	}
	r, err := encode(opEmbed, out, v.warnings)
	r.Load = v.load
	return r, err
}

// texts returns the texts of a payload and the name of their field.
func (p embedPayload) texts() ([]string, string, error) {
	given := 0
	var texts []string
	field := "texts"
	for _, c := range []struct {
		one  *string
		many []string
		name string
	}{{p.Text, p.Texts, "text"}, {p.inner(), p.innerMany(), "input_data.text"}} {
		if c.one != nil {
			given++
			texts, field = []string{*c.one}, c.name
		}
		if c.many != nil {
			given++
			texts, field = c.many, c.name+"s"
		}
	}
	switch {
	case given == 0:
		return nil, "", executors.Invalid("texts", "is required: a list of 1 to %d texts, or text", maxTexts)
	case given > 1:
		return nil, "", executors.Invalid("texts", "give either texts or text")
	}
	return texts, field, checkTexts(field, texts)
}

func (p embedPayload) inner() *string {
	if p.InputData == nil {
		return nil
	}
	return p.InputData.Text
}

func (p embedPayload) innerMany() []string {
	if p.InputData == nil {
		return nil
	}
	return p.InputData.Texts
}

func checkTexts(field string, texts []string) error {
	if len(texts) == 0 || len(texts) > maxTexts {
		return executors.Invalid(field, "must list 1 to %d texts, got %d", maxTexts, len(texts))
	}
	for i, text := range texts {
		if len(text) > maxTextBytes {
			e := executors.Errorf(executors.CodeTooLarge, "%s: has %d bytes, the limit is %d", at(field, i), len(text), maxTextBytes)
			e.Field = at(field, i)
			return e
		}
	}
	return nil
}

// at names one text of a list, or the only one.
func at(field string, i int) string {
	if field == "text" || field == "input_data.text" || field == "query" {
		return field
	}
	return field + "[" + strconv.Itoa(i) + "]"
}

// embedded is what vectorsOf found.
type embedded struct {
	values    [][]float32 // as the model gives them; not to be changed
	tokens    []int
	truncated []bool
	model     modelInfo
	device    string
	hits      int
	warnings  []executors.Warning
	load      time.Duration
}

// vectorsOf computes or remembers the vectors of texts.
func (e *Executor) vectorsOf(ctx context.Context, task executors.Task, t target, texts []string, field, truncate string) (*embedded, error) {
	w, err := e.find(t, e.settings.EmbedModel, engines.TaskEmbed)
	if err != nil {
		return nil, err
	}
	tok, err := e.tokenizer(w)
	if err != nil {
		return nil, err
	}
	out := &embedded{model: info(w.card, w.card.Model), values: make([][]float32, len(texts))}
	ids, err := tokenize(tok, w.card, texts, field, truncate, out)
	if err != nil {
		return nil, err
	}
	for _, group := range byBucket(ids, w.card.StaticShapes) {
		w.length = group.bucket
		if err := e.embedGroup(ctx, task, w, tok.Pad(), ids, group.members, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// tokenize turns texts into ids of at most what the model reads.
func tokenize(tok *wordpiece.Tokenizer, card engines.Card, texts []string, field, truncate string, out *embedded) ([][]int64, error) {
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
				err := executors.Invalid(at(field, i), "has %d tokens, model %s reads %d", all, card.Name, limit)
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

// embedGroup computes the vectors of texts that share a bucket.
func (e *Executor) embedGroup(ctx context.Context, task executors.Task, w want, pad int64, ids [][]int64, members []int, out *embedded) error {
	l, err := e.models.acquire(ctx, w, task.Progress)
	if err != nil {
		return err
	}
	defer l.release()
	out.device = l.device
	out.load += l.load
	if out.warnings == nil || len(l.warnings) > 0 && !slices.Contains(out.warnings, l.warnings[0]) {
		out.warnings = append(out.warnings, l.warnings...)
	}
	b, err := l.batch()
	if err != nil {
		return err
	}
	var list []*sequence
	keys := map[int]vectorKey{}
	var missing []int
	for _, i := range members {
		keys[i] = keyOf(l.key.sum, l.device, l.key.precision, w.card.Pooling, ids[i])
		if v, ok := e.vectors.get(keys[i]); ok {
			out.values[i] = v
			out.hits++
			continue
		}
		missing = append(missing, i)
		list = append(list, &sequence{ctx: ctx, ids: ids[i], pad: pad, done: make(chan vector, 1)})
	}
	if len(list) > 0 {
		b.add(list)
	}
	for n, s := range list {
		if len(list) > 1 {
			task.Progress(executors.Progress{Percent: 5 + 90*n/len(list), Stage: "infer", Done: int64(n), Total: int64(len(list)), Unit: "item"})
		}
		select {
		case v := <-s.done:
			if err := e.keep(v, keys[missing[n]], at("texts", missing[n])); err != nil {
				return err
			}
			out.values[missing[n]] = v.values
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
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
		return nil, executors.Errorf(executors.CodeModelLoadFailed, "model %s has no tokenizer in its card", w.card.Name)
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

// normalizeL2 makes the length of a vector 1. A vector of zeros stays.
func normalizeL2(v []float32) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return
	}
	f := 1 / math.Sqrt(sum)
	for i := range v {
		v[i] = float32(float64(v[i]) * f)
	}
}

// writeFloats leaves numbers as a file: 32-bit floats, little-endian, row by
// row.
func writeFloats(task executors.Task, name string, rows [][]float32, meta map[string]string) error {
	var raw []byte
	for _, row := range rows {
		for _, x := range row {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
	}
	return writeArtifact(task, executors.Artifact{Name: name, Kind: "tensor", MediaType: "application/octet-stream", Meta: meta}, raw)
}

// decodeFloats reads what writeFloats writes.
func decodeFloats(raw []byte, dim int) ([][]float32, error) {
	if dim < 1 || len(raw)%(4*dim) != 0 {
		return nil, fmt.Errorf("%d bytes are no rows of %d 32-bit floats", len(raw), dim)
	}
	rows := make([][]float32, len(raw)/4/dim)
	for i := range rows {
		rows[i] = make([]float32, dim)
		for d := range rows[i] {
			rows[i][d] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*(i*dim+d):]))
		}
	}
	return rows, nil
}
