package openvino

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/autobot-fleet/autobot/executors"
)

// encodeRows is encode for an output whose largest member is a list of vectors:
// they are written by themselves, because encoding/json takes as long for them
// as for all the rest of a task together. The shortest text that reads back as
// the same 32-bit float stands for each. The numbers must be finite.
func encodeRows(op, name string, rows [][]float32, output any, warnings []executors.Warning) (executors.Result, error) {
	rest, err := json.Marshal(output)
	if err != nil {
		return executors.Result{}, fmt.Errorf("encode the result: %w", err)
	}
	const each = 13 // bytes of a number at most usual
	size := len(name) + len(rest) + 8
	for _, row := range rows {
		size += each*len(row) + 2
	}
	doc := make([]byte, 0, size)
	doc = append(doc, '{', '"')
	doc = append(doc, name...)
	doc = append(doc, '"', ':', '[')
	for i, row := range rows {
		if i > 0 {
			doc = append(doc, ',')
		}
		doc = append(doc, '[')
		for d, x := range row {
			if d > 0 {
				doc = append(doc, ',')
			}
			doc = strconv.AppendFloat(doc, float64(x), 'g', -1, 32)
		}
		doc = append(doc, ']')
	}
	doc = append(doc, ']')
	if len(rest) > 2 {
		doc = append(doc, ',')
	}
	return executors.Result{Op: op, Output: append(doc, rest[1:]...), Warnings: warnings}, nil
}
