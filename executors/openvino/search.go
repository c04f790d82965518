package openvino

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/autobot-fleet/autobot/executors"
)

// Limits of op search.
const (
	maxVectors     = 100_000
	maxVectorBytes = 100 << 20
)

// defaultSimilarity is the threshold where neither task nor card has one.
const defaultSimilarity = 0.7

// searchPayload is the payload of op search: what to look for, and among what.
// The names of older producers are query_text, document_embeddings,
// document_metadata and similarity_threshold.
type searchPayload struct {
	target
	seed
	Query     *string           `json:"query"`
	QueryText *string           `json:"query_text"`
	Vector    []float32         `json:"vector"`
	Vectors   [][]float32       `json:"vectors"`
	Documents [][]float32       `json:"document_embeddings"`
	Texts     []string          `json:"texts"`
	Artifact  string            `json:"artifact"` // rows of 32-bit floats, as embeddings.f32
	Metadata  []json.RawMessage `json:"metadata"`
	DocMeta   []json.RawMessage `json:"document_metadata"`
	TopK      *int              `json:"top_k"`
	Threshold *float64          `json:"threshold"`
	Least     *float64          `json:"similarity_threshold"`
	Truncate  string            `json:"truncate"`
}

// hit is one result of op search.
type hit struct {
	Index    int             `json:"index"`
	Score    float64         `json:"score"` // cosine, -1 to 1
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// bestHit is the row nearest to what is searched, above the threshold or not.
type bestHit struct {
	Index int     `json:"index"`
	Score float64 `json:"score"`
}

// searchOutput is the output of op search.
type searchOutput struct {
	Results   []hit      `json:"results"`
	Best      *bestHit   `json:"best"` // null where nothing was searched
	Count     int        `json:"count"`
	Searched  int        `json:"searched"`
	Threshold float64    `json:"threshold"` // that was used
	Model     *modelInfo `json:"model,omitempty"`
	Device    string     `json:"device,omitempty"`
	CacheHits *int       `json:"cache_hits,omitempty"`
}

// search is op search. An older producer, who counts on 0.7 where its payload
// has no threshold, does not get that of the model's card.
func (e *Executor) search(ctx context.Context, task executors.Task, old bool) (executors.Result, error) {
	p, topK, err := readSearch(task)
	if err != nil {
		return executors.Result{}, err
	}
	out := searchOutput{Threshold: defaultSimilarity}
	var warnings []executors.Warning
	var load embedded
	rows := p.Vectors
	var texts []string
	if p.Query != nil {
		texts = append(texts, *p.Query)
	}
	texts = append(texts, p.Texts...)
	var computed [][]float32
	if len(texts) > 0 {
		name := func(i int) string {
			if p.Query == nil {
				return at("texts", i)
			}
			if i == 0 {
				return "query"
			}
			return at("texts", i-1)
		}
		v, err := e.vectorsOf(ctx, task, p.target, texts, name, p.Truncate)
		if err != nil {
			return executors.Result{}, err
		}
		load, warnings, computed = *v, v.warnings, v.values
		out.Model, out.Device, out.CacheHits = &v.model, v.device, &v.hits
		if t := v.thresholds; t != nil && !old {
			out.Threshold = t.Score
		}
	}
	query := p.Vector
	if p.Query != nil {
		query, computed = computed[0], computed[1:]
	}
	if p.Texts != nil {
		rows = computed
	}
	if p.Artifact != "" {
		raw, err := readInput(task, "artifact", p.Artifact, maxVectorBytes)
		if err != nil {
			return executors.Result{}, err
		}
		if rows, err = decodeFloats(raw, len(query)); err != nil {
			return executors.Result{}, executors.Invalid("artifact", "%v: the query has %d dimensions", err, len(query))
		}
	}
	if p.Threshold != nil {
		out.Threshold = *p.Threshold
	}
	if out.Results, out.Best, err = nearest(query, rows, p.Metadata, topK, out.Threshold); err != nil {
		return executors.Result{}, err
	}
	out.Count, out.Searched = len(out.Results), len(rows)
	if out.Count == 0 && out.Best != nil {
		warnings = append(warnings, belowThreshold(out.Best.Score, out.Threshold))
	}
	r, err := encode(opSearch, out, warnings)
	r.Load = load.load
	return r, err
}

// belowThreshold is the warning that nothing was near enough.
func belowThreshold(best, threshold float64) executors.Warning {
	decimals := 2
	for decimals < 9 && round(best, decimals) >= round(threshold, decimals) {
		decimals++ // until the two differ
	}
	return executors.Warning{Code: "BELOW_THRESHOLD", Message: fmt.Sprintf("the best score %.*f is below the threshold %.*f; set threshold", decimals, best, decimals, threshold)}
}

// readSearch reads and checks the payload, and folds the older names in.
func readSearch(task executors.Task) (p searchPayload, topK int, err error) {
	if err = executors.DecodePayload(task, &p); err != nil {
		return p, 0, err
	}
	if p.Query == nil {
		p.Query = p.QueryText
	}
	if p.Vectors == nil {
		p.Vectors = p.Documents
	}
	if p.Metadata == nil {
		p.Metadata = p.DocMeta
	}
	if p.Threshold == nil {
		p.Threshold = p.Least
	}
	if (p.Query == nil) == (p.Vector == nil) {
		return p, 0, executors.Invalid("query", "give either query, a text, or vector")
	}
	sources := 0
	for _, given := range []bool{p.Vectors != nil, p.Texts != nil, p.Artifact != ""} {
		if given {
			sources++
		}
	}
	if sources != 1 {
		return p, 0, executors.Invalid("vectors", "give one of vectors, texts and artifact")
	}
	if p.Texts != nil {
		if err = checkTexts("texts", p.Texts); err != nil {
			return p, 0, err
		}
	}
	if p.Query != nil {
		if err = checkTexts("query", []string{*p.Query}); err != nil {
			return p, 0, err
		}
	}
	if topK, err = whole("top_k", p.TopK, 10, 1, maxTopK); err != nil {
		return p, 0, err
	}
	if t := p.Threshold; t != nil && !(*t >= -1 && *t <= 1) {
		return p, 0, executors.Invalid("threshold", "must be between -1 and 1, got %v", *t)
	}
	return p, topK, nil
}

// nearest returns the rows with the smallest angle to query, best first, and
// the best of all, even below the threshold: nil only where there are no rows.
func nearest(query []float32, rows [][]float32, metadata []json.RawMessage, topK int, threshold float64) ([]hit, *bestHit, error) {
	if len(rows) > maxVectors {
		return nil, nil, executors.Errorf(executors.CodeTooLarge, "vectors: there are %d, the limit is %d", len(rows), maxVectors)
	}
	if metadata != nil && len(metadata) != len(rows) {
		return nil, nil, executors.Invalid("metadata", "has %d entries for %d vectors", len(metadata), len(rows))
	}
	if err := direction("vector", query); err != nil {
		return nil, nil, err
	}
	hits := []hit{}
	var best *bestHit
	for i, row := range rows {
		if len(row) != len(query) {
			return nil, nil, executors.Invalid(at("vectors", i), "has %d dimensions, the query has %d", len(row), len(query))
		}
		if err := direction(at("vectors", i), row); err != nil {
			return nil, nil, err
		}
		score := max(min(cosine(query, row), 1), -1)
		if best == nil || score > best.Score {
			best = &bestHit{Index: i, Score: score}
		}
		if score < threshold {
			continue
		}
		h := hit{Index: i, Score: score}
		if metadata != nil {
			h.Metadata = metadata[i]
		}
		hits = append(hits, h)
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits[:min(len(hits), topK)], best, nil
}

// direction refuses a vector that points nowhere.
func direction(field string, v []float32) error {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return executors.Invalid(field, "has no direction: it is empty, all zeros, or not made of numbers")
	}
	return nil
}
