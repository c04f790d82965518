package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	maxFileBytes = 1 << 20
	maxDepth     = 32
)

type nodeKind int

const (
	nullNode nodeKind = iota
	scalarNode
	listNode
	mapNode
)

// node is a value as it was written. It is all that the rest of the package
// knows about YAML.
type node struct {
	kind   nodeKind
	text   string // of a scalar
	plain  bool   // scalar without quotes: 1, true and ~ have their own types
	items  []*node
	pairs  []pair
	line   int
	column int
}

type pair struct {
	key   string
	at    *node // the key, for its position
	value *node
}

// parseYAML reads one file. It returns nil for a file without content and for
// one that cannot be read at all.
func parseYAML(path string, text []byte) (*node, []Problem) {
	at := place{file: path}
	fail := func(format string, args ...any) (*node, []Problem) {
		return nil, []Problem{{Message: fmt.Sprintf(format, args...), Source: at.exact()}}
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		at.line, at.column = invalidAt(text)
		return fail("is not UTF-8 text (repair: iconv -t UTF-8)")
	}
	if at.line = tooDeep(string(text)); at.line != 0 {
		at.column = 1
		return fail("values are nested more than %d deep", maxDepth)
	}
	file, err := safeParse(text)
	if err != nil {
		var syntax yaml.Error
		if !errors.As(err, &syntax) || syntax.GetToken() == nil {
			return fail("is no valid YAML")
		}
		// The parser's own text quotes the line, which may hold a secret.
		at.line, at.column = syntax.GetToken().Position.Line, syntax.GetToken().Position.Column
		if strings.Contains(syntax.GetMessage(), "'\t'") {
			return fail("is no valid YAML: a tab stands where the indentation must be spaces")
		}
		return fail("is no valid YAML: %s", syntax.GetMessage())
	}
	c := converter{path: path}
	var root *node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			pos := doc.Body.GetToken().Position
			at.line, at.column = pos.Line, pos.Column
			return fail("holds a second document; join them or use a drop-in file in %s", DropInDir(path))
		}
		root = c.convert(doc.Body, 0)
	}
	if root != nil && root.kind == nullNode {
		root = nil
	}
	if root != nil && root.kind != mapNode && len(c.problems) == 0 {
		at.line, at.column = root.line, root.column
		return fail("must hold lines of the form key: value")
	}
	return root, c.problems
}

// safeParse turns a panic of the parser, which hostile input has caused in
// the past, into an error.
func safeParse(text []byte) (file *ast.File, err error) {
	defer func() {
		if recover() != nil {
			file, err = nil, errors.New("the parser failed")
		}
	}()
	return parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
}

// tooDeep returns the first line that opens more brackets, dashes or question
// marks than we allow, 0 if there is none. The parser recurses on each.
func tooDeep(text string) int {
	flow, line, starts := 0, 0, 0
	for _, tk := range lexer.Tokenize(text) {
		if tk.Position != nil && tk.Position.Line != line {
			line, starts = tk.Position.Line, 0
		}
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			starts++
		}
		if flow > maxDepth || starts > maxDepth {
			return line
		}
	}
	return 0
}

func invalidAt(text []byte) (line, column int) {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if (r == utf8.RuneError && size == 1) || r == 0 {
			start := bytes.LastIndexByte(text[:i], '\n') + 1
			return bytes.Count(text[:i], []byte("\n")) + 1, utf8.RuneCount(text[start:i]) + 1
		}
		i += size
	}
	return 0, 0
}

// converter turns the parser's tree into ours and collects what we refuse.
type converter struct {
	path     string
	problems []Problem
}

func (c *converter) convert(n ast.Node, depth int) *node {
	out := &node{}
	if n == nil {
		return out
	}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		out.line, out.column = tk.Position.Line, tk.Position.Column
	}
	if depth > maxDepth {
		c.refuse(out, "values are nested more than %d deep", maxDepth)
		return out
	}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.MappingNode:
		c.convertPairs(out, n.MapRange(), depth)
	case *ast.MappingValueNode:
		c.convertPairs(out, n.MapRange(), depth)
	case *ast.SequenceNode:
		out.kind = listNode
		for _, item := range n.Values {
			out.items = append(out.items, c.convert(item, depth+1))
		}
	case *ast.StringNode:
		out.kind, out.text = scalarNode, n.Value
		// A plain word is the same as a quoted one: it is no number or bool.
	case *ast.LiteralNode:
		out.kind, out.text = scalarNode, n.Value.Value
	case ast.ScalarNode: // also anchors, aliases and tags
		c.convertScalar(out, n)
	default:
		c.refuse(out, "this form of YAML is not supported; write key: value")
	}
	return out
}

func (c *converter) convertScalar(out *node, n ast.ScalarNode) {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.plain, out.text = scalarNode, true, n.GetToken().Value
	default:
		c.convertSpecial(out, n)
	}
}

// convertSpecial handles nodes that the parser counts as scalars but that stand
// for something else.
func (c *converter) convertSpecial(out *node, n ast.ScalarNode) {
	switch n.Type() {
	case ast.AnchorType, ast.AliasType:
		c.refuse(out, "anchors and aliases (& and *) are not supported; write the value where it is used")
	case ast.TagType:
		c.refuse(out, "tags (!) are not supported; quote the value if it is text")
	default:
		c.refuse(out, "this form of YAML is not supported; write key: value")
	}
}

func (c *converter) convertPairs(out *node, pairs *ast.MapNodeIter, depth int) {
	out.kind = mapNode
	first := map[string]int{}
	for pairs.Next() {
		key := pairs.Key()
		at := &node{}
		if tk := key.GetToken(); tk != nil && tk.Position != nil {
			at.line, at.column = tk.Position.Line, tk.Position.Column
		}
		if out.pairs == nil {
			out.line, out.column = at.line, at.column
		}
		name, ok := keyText(key)
		if !ok {
			c.refuse(at, "this form of key is not supported; write key: value")
			continue
		}
		if line, twice := first[name]; twice {
			c.problems = append(c.problems, Problem{
				Key: name, Message: fmt.Sprintf("is given twice, first on line %d; remove one", line),
				Source: c.place(at).exact(),
			})
			continue
		}
		first[name] = at.line
		out.pairs = append(out.pairs, pair{key: name, at: at, value: c.convert(pairs.Value(), depth+1)})
	}
}

// keyText returns the name that a key stands for.
func keyText(key ast.MapKeyNode) (string, bool) {
	switch k := key.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return strings.TrimSpace(k.GetToken().Value), true
	default:
		return "", false
	}
}

func (c *converter) refuse(at *node, format string, args ...any) {
	c.problems = append(c.problems, Problem{Message: fmt.Sprintf(format, args...), Source: c.place(at).exact()})
}

func (c *converter) place(n *node) place {
	return place{file: c.path, line: n.line, column: n.column}
}
