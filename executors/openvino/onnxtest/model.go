package onnxtest

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// Type is a TensorProto.DataType.
type Type int64

// The types that models of tests are made of.
const (
	Float   Type = 1
	Uint8   Type = 2
	Int8    Type = 3
	Int32   Type = 6
	Int64   Type = 7
	Bool    Type = 9
	Float16 Type = 10
	Double  Type = 11
)

// Any is a dimension of any size.
const Any int64 = -1

// Numbers of the fields in onnx.proto.
const (
	modelIRVersion, modelGraph, modelOpset          = 1, 7, 8
	opsetVersion                                    = 2
	graphNode, graphName, graphInitializer          = 1, 2, 5
	graphInput, graphOutput                         = 11, 12
	nodeInput, nodeOutput, nodeOp, nodeAttribute    = 1, 2, 4, 5
	attrName, attrFloat, attrInt, attrString        = 1, 2, 3, 4
	attrInts, attrType                              = 8, 20
	kindFloat, kindInt, kindString, kindInts        = 1, 2, 3, 7
	tensorDims, tensorType, tensorName, tensorBytes = 1, 2, 8, 9
	valueName, valueType                            = 1, 2
	typeTensor, typeElem, typeShape                 = 1, 1, 2
	shapeDim, dimValue, dimParam                    = 1, 1, 2
)

// Model is a model in the making.
type Model struct {
	name  string
	graph []byte
}

// New starts a model.
func New(name string) *Model {
	return &Model{name: name, graph: text(nil, graphName, name)}
}

// Input adds an input. Dimensions of Any are open.
func (m *Model) Input(name string, typ Type, dims ...int64) {
	m.graph = message(m.graph, graphInput, valueInfo(name, typ, dims))
}

// Output adds an output.
func (m *Model) Output(name string, typ Type, dims ...int64) {
	m.graph = message(m.graph, graphOutput, valueInfo(name, typ, dims))
}

// Floats adds a constant of floats.
func (m *Model) Floats(name string, dims []int64, values ...float32) {
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	m.constant(name, Float, dims, raw)
}

// Int64s adds a constant of integers.
func (m *Model) Int64s(name string, dims []int64, values ...int64) {
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	m.constant(name, Int64, dims, raw)
}

func (m *Model) constant(name string, typ Type, dims []int64, raw []byte) {
	var t []byte
	for _, d := range dims {
		t = number(t, tensorDims, d)
	}
	t = number(t, tensorType, int64(typ))
	t = text(t, tensorName, name)
	t = message(t, tensorBytes, raw)
	m.graph = message(m.graph, graphInitializer, t)
}

// Node adds an operation.
func (m *Model) Node(op string, inputs, outputs []string, attributes ...Attribute) {
	var n []byte
	for _, in := range inputs {
		n = text(n, nodeInput, in)
	}
	for _, out := range outputs {
		n = text(n, nodeOutput, out)
	}
	n = text(n, nodeOp, op)
	for _, a := range attributes {
		n = message(n, nodeAttribute, a)
	}
	m.graph = message(m.graph, graphNode, n)
}

// Attribute is an attribute of a node.
type Attribute []byte

// Int is an integer attribute.
func Int(name string, v int64) Attribute {
	return number(number(text(nil, attrName, name), attrInt, v), attrType, kindInt)
}

// Ints is an attribute of several integers.
func Ints(name string, values ...int64) Attribute {
	a := text(nil, attrName, name)
	for _, v := range values {
		a = number(a, attrInts, v)
	}
	return number(a, attrType, kindInts)
}

// Real is a float attribute.
func Real(name string, v float32) Attribute {
	a := protowire.AppendTag(text(nil, attrName, name), attrFloat, protowire.Fixed32Type)
	return number(protowire.AppendFixed32(a, math.Float32bits(v)), attrType, kindFloat)
}

// Text is a string attribute.
func Text(name, v string) Attribute {
	return number(text(text(nil, attrName, name), attrString, v), attrType, kindString)
}

// Bytes is the model as a file has it.
func (m *Model) Bytes() []byte {
	b := number(nil, modelIRVersion, 8)
	b = message(b, modelOpset, number(nil, opsetVersion, 13))
	return message(b, modelGraph, m.graph)
}

// Write writes the model to a file in dir and returns its path.
func (m *Model) Write(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, m.name+".onnx")
	if err := os.WriteFile(path, m.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func valueInfo(name string, typ Type, dims []int64) []byte {
	var shape []byte
	for i, d := range dims {
		var dim []byte
		if d == Any {
			dim = text(nil, dimParam, fmt.Sprintf("%s_%d", name, i))
		} else {
			dim = number(nil, dimValue, d)
		}
		shape = message(shape, shapeDim, dim)
	}
	tensor := message(number(nil, typeElem, int64(typ)), typeShape, shape)
	return message(text(nil, valueName, name), valueType, message(nil, typeTensor, tensor))
}

func number(b []byte, field protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
}

func message(b []byte, field protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), content)
}

func text(b []byte, field protowire.Number, s string) []byte {
	return message(b, field, []byte(s))
}
