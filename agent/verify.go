package agent

import (
	"context"
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/agent/host"
)

// VerifyExecutors starts every executor that the configuration finds, apart
// from a running agent and with a state folder of its own, and returns what
// each says about itself. All of their processes have ended when it returns.
func VerifyExecutors(ctx context.Context, cfg *Config) (_ []ExecutorStatus, err error) {
	dir, err := os.MkdirTemp("", "autobot-verify-*")
	if err != nil {
		return nil, fmt.Errorf("make a folder to try the executors in: %w", err)
	}
	defer func() {
		if gone := os.RemoveAll(dir); err == nil {
			err = gone
		}
	}()
	h, err := host.New(hostConfig(*cfg, dir, dir), zap.NewNop(), nil)
	if err != nil {
		return nil, fmt.Errorf("try the executors: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	var list []ExecutorStatus
	select {
	case <-h.Probed():
		list = executorList(h.Status())
		cancel()
	case <-ctx.Done():
	}
	if err := <-ended; err != nil {
		return nil, fmt.Errorf("try the executors: %w", err)
	}
	if list == nil {
		return nil, fmt.Errorf("try the executors: %w", context.Cause(ctx))
	}
	return list, nil
}
