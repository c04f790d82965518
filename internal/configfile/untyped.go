package configfile

import (
	"strconv"
	"strings"
)

// any returns n as plain Go values: map[string]any, []any, string, bool, int64,
// float64 or nil.
func (n *node) any() any {
	switch n.kind {
	case nullNode:
		return nil
	case listNode:
		out := make([]any, 0, len(n.items))
		for _, item := range n.items {
			out = append(out, item.any())
		}
		return out
	case mapNode:
		out := make(map[string]any, len(n.pairs))
		for _, p := range n.pairs {
			out[p.key] = p.value.any()
		}
		return out
	default:
		if n.plain {
			return plainScalar(n.text)
		}
		return n.text
	}
}

// plainScalar returns the bool or number that text stands for, else text.
func plainScalar(text string) any {
	number := strings.ReplaceAll(text, "_", "")
	if i, err := strconv.ParseInt(number, 10, 64); err == nil {
		return i
	}
	if f, err := strconv.ParseFloat(number, 64); err == nil {
		return f
	}
	switch text {
	case "true", "True", "TRUE":
		return true
	case "false", "False", "FALSE":
		return false
	}
	return text
}

// textAny reads the text of a variable or flag whose type nobody has declared,
// as YAML would read it. What is no YAML is text.
func textAny(text string) *node {
	root, problems := parseYAML("", []byte("value: "+text))
	if len(problems) > 0 || root == nil || len(root.pairs) != 1 || root.pairs[0].value.kind == nullNode {
		return &node{kind: scalarNode, text: text}
	}
	return root.pairs[0].value
}
