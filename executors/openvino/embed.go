package openvino

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/autobot-fleet/autobot/executors"
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
// are in the file embeddings.f32; else encodeRows writes them.
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
	v, err := e.vectorsOf(ctx, task, p.target, texts, func(i int) string { return at(field, i) }, p.Truncate)
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
	var r executors.Result
	if 4*len(rows)*out.Dim > inlineBytes {
		if err := writeFloats(task, "embeddings.f32", rows, map[string]string{
			"dtype": "f32", "shape": fmt.Sprintf("%d,%d", len(rows), out.Dim), "byte_order": "little",
		}); err != nil {
			return executors.Result{}, err
		}
		r, err = encode(opEmbed, out, v.warnings)
	} else {
		r, err = encodeRows(opEmbed, "embeddings", rows, out, v.warnings)
	}
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
