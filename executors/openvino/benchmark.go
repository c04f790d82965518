package openvino

import (
	"context"
	"slices"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

type benchmarkPayload struct {
	target
	seed
	Warmup *int `json:"warmup"`
	Runs   *int `json:"runs"`
	Batch  *int `json:"batch"`
}

// benchmark is op benchmark: how long an inference with made-up input takes, and
// on another device than the CPU how close its results are.
func (e *Executor) benchmark(ctx context.Context, task executors.Task) (executors.Result, error) {
	var p benchmarkPayload
	if err := executors.DecodePayload(task, &p); err != nil {
		return executors.Result{}, err
	}
	w, err := e.find(p.target, e.settings.EmbedModel, "")
	if err != nil {
		return executors.Result{}, err
	}
	warmup, err := whole("warmup", p.Warmup, 5, 0, maxRuns)
	if err != nil {
		return executors.Result{}, err
	}
	runs, err := whole("runs", p.Runs, 50, 1, maxRuns)
	if err != nil {
		return executors.Result{}, err
	}
	batch, err := whole("batch", p.Batch, 1, 1, 256)
	if err != nil {
		return executors.Result{}, err
	}
	if n := len(w.card.StaticShapes); n > 0 {
		w.length = w.card.StaticShapes[0]
	}
	l, err := e.models.acquire(ctx, w, task.Progress)
	if err != nil {
		return executors.Result{}, err
	}
	defer l.release()
	inputs, err := batched(l.compiled.Inputs(), batch)
	if err != nil {
		return executors.Result{}, err
	}
	took := make([]time.Duration, 0, runs)
	for i := range warmup + runs {
		began := time.Now()
		if _, err := l.run(ctx, inputs); err != nil {
			return executors.Result{}, err
		}
		if i >= warmup {
			took = append(took, time.Since(began))
		}
		task.Progress(executors.Progress{Percent: 5 + 90*i/(warmup+runs), Stage: "infer", Done: int64(i), Total: int64(warmup + runs), Unit: "item"})
	}
	out := times(took, batch)
	out["model"], out["device"], out["batch"], out["runs"], out["warmup"] = info(w.card, w.card.Model), l.device, batch, runs, warmup
	out["compile_ms"], out["from_cache"] = l.took.Milliseconds(), l.compiled.FromCache()
	if kind(l.key.device) != deviceCPU {
		if out["agreement"], err = e.models.agree(ctx, l, w); err != nil {
			return executors.Result{}, err
		}
	}
	r, err := encode(opBenchmark, out, l.warnings)
	r.Load = l.load
	return r, err
}

// batched makes up input with batch rows where the model leaves their number
// open.
func batched(ports []ov.Port, batch int) (map[string]ov.Tensor, error) {
	if batch > 1 {
		ports = slices.Clone(ports)
		for i, p := range ports {
			if len(p.Shape) == 0 || !p.Shape[0].Allows(int64(batch)) {
				return nil, executors.Invalid("batch", "input %s does not take %d rows", p, batch)
			}
			ports[i].Shape = slices.Clone(p.Shape)
			ports[i].Shape[0] = ov.Dim{Min: int64(batch), Max: int64(batch)}
		}
	}
	inputs, err := madeUp(ports)
	if err != nil {
		return nil, executors.Errorf(executors.CodeUnsupported, "%v", err)
	}
	return inputs, nil
}

// times sums up how long inferences took, in milliseconds.
func times(took []time.Duration, batch int) map[string]any {
	slices.Sort(took)
	total := time.Duration(0)
	for _, d := range took {
		total += d
	}
	at := func(q float64) float64 { return ms(took[min(int(q*float64(len(took))), len(took)-1)]) }
	mean := total / time.Duration(len(took))
	return map[string]any{
		"p50_ms": at(0.5), "p90_ms": at(0.9), "p99_ms": at(0.99), "mean_ms": ms(mean),
		"throughput": round(float64(batch)/max(mean.Seconds(), 1e-9), 1),
	}
}

func ms(d time.Duration) float64 { return round(float64(d.Microseconds())/1000, 3) }

// agree compares a loaded model with the same model on the CPU.
func (m *models) agree(ctx context.Context, l *lease, w want) (agreement, error) {
	w.file = l.key.file
	reference := l.key
	reference.device, reference.precision = deviceCPU, ov.PrecisionF32
	cpu, _, err := m.compile(ctx, reference, w)
	if err != nil {
		return agreement{}, err
	}
	defer cpu.Close()
	a, err := compare(ctx, l.compiled, cpu)
	if err != nil {
		return a, executors.Errorf(executors.CodeEngineError, "compare model %s with the CPU: %v", l.key.name, err)
	}
	return a, nil
}
