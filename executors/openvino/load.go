package openvino

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

// canaryCosine is how closely another device has to agree with the CPU.
const canaryCosine = 0.99

// load compiles a model, and on another device than the CPU compares it with
// the CPU first.
func (m *models) load(ctx context.Context, k key, w want) (*model, error) {
	if err := w.card.Verify(w.dir); err != nil {
		return nil, loadFailed(k, err)
	}
	began := time.Now()
	compiled, err := m.compile(ctx, k, w)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(k.device, deviceCPU) {
		if err := m.canary(ctx, k, w, compiled); err != nil {
			compiled.Close()
			return nil, err
		}
	}
	x := &model{
		key: k, card: w.card, compiled: compiled, requests: make(chan *ov.Request, m.settings.Slots),
		device: compiled.Device(), bytes: estimate(w.card, k.file), took: time.Since(began), last: time.Now(),
	}
	for range m.settings.Slots {
		r, err := compiled.NewRequest()
		if err != nil {
			close(x.requests)
			for r := range x.requests {
				r.Close()
			}
			compiled.Close()
			return nil, loadFailed(k, err)
		}
		x.requests <- r
	}
	return x, nil
}

func (m *models) compile(ctx context.Context, k key, w want) (*ov.Compiled, error) {
	options := ov.CompileOptions{CacheKey: k.sum, Precision: k.precision, Threads: m.settings.Threads}
	if k.precision == "" {
		options.Precision = w.card.Precision
	}
	if !dynamic(k.device) {
		options.Threads = 0
		var err error
		if options.Reshape, err = fixedShapes(w, k.length); err != nil {
			return nil, loadFailed(k, err)
		}
	}
	if w.card.Format == "ir" {
		options.CacheKey = "" // the weights are in a second file
	}
	compiled, err := m.rt.Compile(ctx, w.path(), k.device, options)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e := executors.Errorf(executors.CodeDeadlineExceeded, "model %s was not loaded for %s within %s", k.name, k.device, m.settings.LoadTimeout)
		e.Hint = "raise executors.openvino.load_timeout"
		return nil, e
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case isLost(k.device, err):
		return nil, m.lostDevice(k.device, err)
	case err != nil:
		return nil, loadFailed(k, err)
	}
	return compiled, nil
}

// fixedShapes gives each input its only shape, for a device that needs that: one text
// of length tokens, and what the card says of other models.
func fixedShapes(w want, length int) (map[string][]int64, error) {
	shapes := map[string][]int64{}
	for _, p := range w.card.Inputs {
		shape := append([]int64{}, p.Shape...)
		for i, d := range shape {
			switch {
			case d >= 0:
			case i == 0:
				shape[i] = 1
			case length > 0:
				shape[i] = int64(length)
			default:
				return nil, fmt.Errorf("input %s has open dimensions %v, which this device does not run: the card needs static_shapes or a fixed shape", p.Name, p.Shape)
			}
		}
		shapes[p.Name] = shape
	}
	return shapes, nil
}

// loadFailed says that a model cannot be used. A file that is not readable now
// may be later; one that is wrong stays so.
func loadFailed(k key, err error) error {
	e := executors.Errorf(executors.CodeModelLoadFailed, "model %s (%s) does not load for %s: %v", k.name, k.file, k.device, err)
	var path *os.PathError
	e.Retryable = errors.As(err, &path)
	e.Hint = "add the model again: autobot-agent models add, or engines install " + k.name
	return e
}

// lostDevice lets a device rest and drops its models.
func (m *models) lostDevice(device string, err error) error {
	m.devices.markLost(device)
	m.forget(device)
	e := executors.Errorf(executors.CodeDeviceLost, "device %s was lost: %v", device, err)
	e.Hint = fmt.Sprintf("it rests for %s; if this happens again, look at the kernel's log and reload its driver", m.settings.Cooldown)
	return e
}

// canary runs a fresh model with made-up input on its device and on the CPU. A
// device that computes something else is not used for this model again.
func (m *models) canary(ctx context.Context, k key, w want, compiled *ov.Compiled) error {
	reference := k
	reference.device = deviceCPU
	cpu, err := m.compile(ctx, reference, w)
	if err != nil {
		return err
	}
	defer cpu.Close()
	agreement, err := compare(ctx, compiled, cpu)
	if err != nil {
		if isLost(k.device, err) {
			return m.lostDevice(k.device, err)
		}
		return loadFailed(k, err)
	}
	if agreement.CosineMin >= canaryCosine {
		return nil
	}
	why := fmt.Sprintf("computes model %s wrongly (cosine %.4f against the CPU)", k.name, agreement.CosineMin)
	m.devices.distrust(k.device, k.sum, why)
	return executors.Errorf(executors.CodeNumericMismatch, "device %s %s", k.device, why)
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
			out.MaxAbs = max(out.MaxAbs, math.Abs(float64(x[i])-float64(y[i])))
		}
		out.CosineMin = min(out.CosineMin, cosine(x, y))
	}
	return out, nil
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
