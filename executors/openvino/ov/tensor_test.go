package ov

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTensorsShareTheirMemoryAndKnowTheirShape(t *testing.T) {
	in := []int64{1, 2, 3, 4, 5, 6}
	x := tensor(t, in, 2, 3)
	if x.Type() != I64 || x.Len() != 6 || len(x.Bytes()) != 48 || !cmp.Equal(x.Shape(), []int64{2, 3}) {
		t.Fatalf("got %s %v, %d elements in %d bytes", x.Type(), x.Shape(), x.Len(), len(x.Bytes()))
	}
	in[5] = 60
	if got := data[int64](t, x); got[5] != 60 {
		t.Errorf("the tensor has %v", got)
	}
	if scalar := tensor(t, []float32{7}); scalar.Len() != 1 || len(scalar.Shape()) != 0 {
		t.Errorf("scalar has shape %v", scalar.Shape())
	}
	if empty := tensor(t, []float32{}, 3, 0); empty.Len() != 0 || len(data[float32](t, empty)) != 0 {
		t.Errorf("empty tensor has %d elements", empty.Len())
	}
}

func TestTensorsRefuseWhatDoesNotFit(t *testing.T) {
	for _, tt := range []struct {
		name  string
		make  func() error
		parts string
	}{
		{"too few elements", func() error { _, err := New([]float32{1}, 2); return err }, "needs 2 elements, got 1"},
		{"negative dimension", func() error { _, err := New([]float32{1}, -1, -1); return err }, "negative"},
		{"product beyond 64 bits", func() error { _, err := New([]float32{}, math.MaxInt64, math.MaxInt64); return err }, "larger than"},
		{"product that wraps to the length", func() error { _, err := New([]uint8{}, 1<<32, 1<<32); return err }, "larger than"},
		{"too large", func() error { _, err := Zeros(F32, 1<<40); return err }, "larger than"},
		{"negative beside zero", func() error { _, err := Zeros(F32, 0, -1); return err }, "negative"},
		{"too many dimensions", func() error { _, err := Zeros(F32, make([]int64, 17)...); return err }, "at most 16"},
		{"type below a byte", func() error { _, err := Zeros(U4, 2); return err }, "u4"},
		{"type without a number", func() error { _, err := Zeros(ElementType(99), 2); return err }, "99"},
		{"other type read", func() error { _, err := Data[int32](tensor(t, []float32{1}, 1)); return err }, "f32, not i32"},
		{"no tensor read", func() error { _, err := Data[float32](Tensor{}); return err }, "dynamic, not f32"},
	} {
		t.Run(tt.name, func(t *testing.T) { wantError(t, tt.make(), nil, tt.parts) })
	}
}

func TestFloat32sConverts(t *testing.T) {
	want := []float32{1.5, -2}
	for _, x := range []Tensor{
		tensor(t, want, 2),
		tensor(t, []float64{1.5, -2}, 2),
		tensor(t, []Float16{ToFloat16(1.5), ToFloat16(-2)}, 2),
	} {
		got, err := x.Float32s()
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %v, %v", x.Type(), got, err)
		}
	}
	if _, err := tensor(t, []int64{1}, 1).Float32s(); err == nil {
		t.Error("integers became floats")
	}
}

func TestEveryHalfComesBackFromFloat32(t *testing.T) {
	for i := range 1 << 16 {
		h := Float16(i)
		f := h.Float32()
		back := ToFloat16(f)
		if math.IsNaN(float64(f)) {
			if !math.IsNaN(float64(back.Float32())) {
				t.Fatalf("%#04x: not a number became %v", i, back.Float32())
			}
			continue
		}
		if back != h {
			t.Fatalf("%#04x is %v, which becomes %#04x", i, f, uint16(back))
		}
	}
}

func TestHalvesRoundToNearestEven(t *testing.T) {
	for _, tt := range []struct {
		in   float32
		want Float16
	}{
		{0, 0}, {float32(math.Copysign(0, -1)), 0x8000}, {1, 0x3c00}, {-2, 0xc000}, {65504, 0x7bff},
		{65519.996, 0x7bff}, {65520, 0x7c00}, {1e10, 0x7c00}, {float32(math.Inf(-1)), 0xfc00},
		{1 + 1.0/2048, 0x3c00}, {1 + 3.0/2048, 0x3c02}, {1 + 1.001/2048, 0x3c01},
		{6.1035156e-5, 0x0400}, {5.9604645e-8, 0x0001}, {2.9802322e-8, 0x0000}, {2.9802326e-8, 0x0001}, {1e-30, 0},
		{6.1e-5, 0x03ff}, {float32(math.NaN()), 0x7e00},
	} {
		if got := ToFloat16(tt.in); got != tt.want {
			t.Errorf("%v: %#04x, want %#04x", tt.in, uint16(got), uint16(tt.want))
		}
	}
}

func TestDimensionsSayWhatTheyAllow(t *testing.T) {
	for _, tt := range []struct {
		dim     Dim
		text    string
		in, out int64
	}{
		{Dim{3, 3}, "3", 3, 4},
		{Dim{0, -1}, "?", 1 << 40, -1},
		{Dim{256, -1}, "256..", 256, 255},
		{Dim{1, 512}, "1..512", 512, 513},
	} {
		if tt.dim.String() != tt.text || !tt.dim.Allows(tt.in) || tt.dim.Allows(tt.out) {
			t.Errorf("%+v: %q, %d %v, %d %v", tt.dim, tt.dim, tt.in, tt.dim.Allows(tt.in), tt.out, tt.dim.Allows(tt.out))
		}
	}
	if s := (Port{Name: "x", Type: F32, AnyRank: true}).String(); s != "x f32 [...]" {
		t.Error(s)
	}
}
