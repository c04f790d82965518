package worker

import (
	"context"

	"github.com/autobot-fleet/autobot/executors"
)

// inputs fetches the artifacts that the payload refers to, for a type that
// takes them, so that the executor finds files.
func (a *attempt) inputs(ctx context.Context, dir string) (map[string]string, error) {
	if !a.typ.Inputs {
		return nil, nil
	}
	sums, err := executors.InputRefs(a.r.claim.Payload)
	if err != nil || len(sums) == 0 {
		return nil, err
	}
	files := make(map[string]string, len(sums))
	for _, sum := range sums {
		path, err := a.w.o.Spool.Fetch(ctx, dir, sum)
		if err != nil {
			if ctx.Err() != nil {
				return nil, cause(ctx)
			}
			return nil, err
		}
		files[sum] = path
	}
	return files, nil
}
