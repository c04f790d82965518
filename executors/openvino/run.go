package openvino

import (
	"context"
	"errors"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

// run is one inference. It waits for a free slot of the model.
func (l *lease) run(ctx context.Context, inputs map[string]ov.Tensor) (map[string]ov.Tensor, error) {
	return l.owner.infer(ctx, l.model, inputs)
}

func (m *models) infer(ctx context.Context, x *model, inputs map[string]ov.Tensor) (map[string]ov.Tensor, error) {
	var r *ov.Request
	select {
	case r = <-x.requests:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out, err := r.Infer(ctx, inputs)
	x.requests <- r
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, ov.ErrInput):
		e := executors.Invalid("inputs", "%v", err)
		return nil, e
	case isLost(x.key.device, err):
		return nil, m.lostDevice(x.key.device, err)
	}
	e := executors.Errorf(executors.CodeEngineError, "model %s on %s: %v", x.key.name, x.device, err)
	return nil, e
}
