package openvino

import (
	"context"
	"errors"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

// run is one inference with input that the executor made itself: if it does not
// fit, the model's card is wrong.
func (l *lease) run(ctx context.Context, inputs map[string]ov.Tensor) (map[string]ov.Tensor, error) {
	out, err := l.owner.infer(ctx, l.model, inputs)
	return out, cardFault(l.key, err)
}

// cardFault turns a misfit of made input into the fault of the model's card.
func cardFault(k key, err error) error {
	if !errors.Is(err, ov.ErrInput) {
		return err
	}
	e := executors.Errorf(executors.CodeModelLoadFailed, "model %s does not take the input that its card describes: %v", k.name, err)
	e.Hint = "correct the card, model.json in the folder of the model"
	return e
}

// infer is one inference. It waits for a free slot of the model. Input that
// does not fit is an ov.ErrInput.
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
		return nil, err
	case m.devices.isLost(x.key.device, err):
		return nil, m.lostDevice(x.key.device, err)
	}
	return nil, executors.Errorf(executors.CodeEngineError, "model %s on %s: %v", x.key.name, x.device, err)
}
