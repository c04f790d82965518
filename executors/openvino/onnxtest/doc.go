// Package onnxtest writes small ONNX models for tests, by hand, so that what a
// model computes is known.
//
//	m := onnxtest.New("sum")
//	m.Input("x", onnxtest.Float, 1, 4)
//	m.Output("y", onnxtest.Float, 1, 4)
//	m.Floats("one", []int64{1}, 1)
//	m.Node("Add", []string{"x", "one"}, []string{"y"})
//	path := m.Write(t, t.TempDir())
//
// The format is that of onnx.proto (opset 13). models.go has models that
// several tests need.
package onnxtest
