package onnxtest

import "fmt"

// AddOne is y = x + 1 for floats of a fixed shape.
func AddOne(dims ...int64) *Model {
	m := New("add-one")
	m.Input("x", Float, dims...)
	m.Output("y", Float, dims...)
	m.Floats("one", []int64{1}, 1)
	m.Node("Add", []string{"x", "one"}, []string{"y"})
	return m
}

// Mean is y[b] = the mean of row b of x[?,?].
func Mean() *Model {
	m := New("mean")
	m.Input("x", Float, Any, Any)
	m.Output("y", Float, Any)
	m.Node("ReduceMean", []string{"x"}, []string{"y"}, Ints("axes", 1), Int("keepdims", 0))
	return m
}

// Product is c = a x b for matrices of any size, which must agree in the
// middle: the model fails while it runs if they do not.
func Product() *Model {
	m := New("product")
	m.Input("a", Float, Any, Any)
	m.Input("b", Float, Any, Any)
	m.Output("c", Float, Any, Any)
	m.Node("MatMul", []string{"a", "b"}, []string{"c"})
	return m
}

// Log is y = ln x: not a number for negative x, minus infinity for 0.
func Log(dims ...int64) *Model {
	m := New("log")
	m.Input("x", Float, dims...)
	m.Output("y", Float, dims...)
	m.Node("Log", []string{"x"}, []string{"y"})
	return m
}

// Slow multiplies x[size,size] by a constant matrix layers times, with a tanh
// after each. An inference can be cancelled between two layers; one of size
// 1024 takes tens of milliseconds of one core.
func Slow(size, layers int) *Model {
	m := New(fmt.Sprintf("slow-%d-%d", size, layers))
	n := int64(size)
	m.Input("x", Float, n, n)
	m.Output("y", Float, n, n)
	w := make([]float32, n*n)
	for i := range w {
		w[i] = float32(i%7-3) / float32(n)
	}
	m.Floats("w", []int64{n, n}, w...)
	last := "x"
	for i := range layers {
		product, next := fmt.Sprintf("p%d", i), fmt.Sprintf("h%d", i)
		if i == layers-1 {
			next = "y"
		}
		m.Node("MatMul", []string{last, "w"}, []string{product})
		m.Node("Tanh", []string{product}, []string{next})
		last = next
	}
	return m
}
