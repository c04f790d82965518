package openvino

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

// canary runs a fresh model with made-up input on its device and on the CPU. A
// device that computes something else is not used for this model again.
func (m *models) canary(ctx context.Context, k key, w want, compiled *ov.Compiled) error {
	reference := k
	reference.device, reference.precision = deviceCPU, ov.PrecisionF32
	cpu, _, err := m.compile(ctx, reference, w)
	if err != nil {
		return err
	}
	defer cpu.Close()
	agreement, err := compare(ctx, compiled, cpu)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case m.devices.isLost(k.device, err):
		return m.lostDevice(k.device, err)
	default:
		return loadFailed(k, err)
	}
	if agreement.CosineMin >= canaryCosine {
		return nil
	}
	w.file = k.file
	why := fmt.Sprintf("computes model %s wrongly (cosine %.4f against the CPU)", k.name, agreement.CosineMin)
	m.devices.distrust(k.device, w.subject(), why)
	return mismatch(k.device, why)
}

// agreement is how close a device's results are to those of the CPU.
type agreement struct {
	Reference string  `json:"reference"`
	MaxAbs    float64 `json:"max_abs"`
	CosineMin float64 `json:"cosine_min"`
}

// compare runs both with the same made-up input.
func compare(ctx context.Context, a, b *ov.Compiled) (agreement, error) {
	out := agreement{Reference: deviceCPU, CosineMin: 1}
	inputs, err := madeUp(a.Inputs())
	if err != nil {
		return out, err
	}
	first, err := runOnce(ctx, a, inputs)
	if err != nil {
		return out, err
	}
	second, err := runOnce(ctx, b, inputs)
	if err != nil {
		return out, err
	}
	for name, t := range first {
		x, err := t.Float32s()
		if err != nil {
			continue // not a floating-point output
		}
		y, err := second[name].Float32s()
		if err != nil || len(x) != len(y) {
			return out, fmt.Errorf("output %s differs in type or size from that of the CPU", name)
		}
		for i := range x {
			if alike(x[i], y[i]) {
				x[i], y[i] = 0, 0
				continue
			}
			out.MaxAbs = max(out.MaxAbs, math.Abs(float64(x[i])-float64(y[i])))
		}
		out.CosineMin = min(out.CosineMin, cosine(x, y))
	}
	return out, nil
}

// alike reports that both gave the same that is not a number: made-up input
// may be nothing that a model can compute.
func alike(x, y float32) bool {
	a, b := float64(x), float64(y)
	return math.IsNaN(a) && math.IsNaN(b) || math.IsInf(a, 1) && math.IsInf(b, 1) || math.IsInf(a, -1) && math.IsInf(b, -1)
}

func runOnce(ctx context.Context, c *ov.Compiled, inputs map[string]ov.Tensor) (map[string]ov.Tensor, error) {
	r, err := c.NewRequest()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.Infer(ctx, inputs)
}

// madeUp makes input for any model: a wave for floating-point ports, small
// numbers for whole ones, ones for masks. Open dimensions become 1, or 16 for
// the second of two.
func madeUp(ports []ov.Port) (map[string]ov.Tensor, error) {
	inputs := map[string]ov.Tensor{}
	for _, p := range ports {
		shape := make([]int64, len(p.Shape))
		for i, d := range p.Shape {
			shape[i] = max(d.Min, 1)
			if !d.Fixed() && i == 1 && len(p.Shape) == 2 && d.Allows(16) {
				shape[i] = 16
			}
		}
		t, err := ov.Zeros(p.Type, shape...)
		if err != nil {
			return nil, fmt.Errorf("make up input %s: %w", p.Name, err)
		}
		if err := fill(t, strings.Contains(p.Name, "mask"), strings.Contains(p.Name, "type")); err != nil {
			return nil, fmt.Errorf("make up input %s: %w", p.Name, err)
		}
		inputs[p.Name] = t
	}
	return inputs, nil
}

func fill(t ov.Tensor, mask, zero bool) error {
	value := func(i int) int64 {
		switch {
		case mask:
			return 1
		case zero:
			return 0
		}
		return int64(i%97) + 1
	}
	switch t.Type() {
	case ov.F32:
		data, err := ov.Data[float32](t)
		for i := range data {
			data[i] = float32(math.Sin(float64(i) * 0.37))
		}
		return err
	case ov.I64:
		data, err := ov.Data[int64](t)
		for i := range data {
			data[i] = value(i)
		}
		return err
	case ov.I32:
		data, err := ov.Data[int32](t)
		for i := range data {
			data[i] = int32(value(i))
		}
		return err
	case ov.U8:
		data, err := ov.Data[uint8](t)
		for i := range data {
			data[i] = uint8(value(i))
		}
		return err
	}
	return nil // zeros are input as well
}

// cosine of the angle between two vectors, 1 for equal directions. Two vectors
// of zeros are equal; NaN differs from everything.
func cosine(x, y []float32) float64 {
	var dot, xx, yy float64
	for i := range x {
		a, b := float64(x[i]), float64(y[i])
		dot, xx, yy = dot+a*b, xx+a*a, yy+b*b
	}
	if xx == 0 && yy == 0 {
		return 1
	}
	c := dot / math.Sqrt(xx*yy)
	if math.IsNaN(c) {
		return -1
	}
	return c
}
