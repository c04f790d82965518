package redislist

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/queue"
)

// runDurable is run that also waits, where that is asked for, until the
// replicas have what the script wrote. Both go in one round trip over one
// connection: WAIT speaks of what its own connection has written. short is
// ErrUnreplicated where fewer than asked for have confirmed; it says nothing
// about the script.
func (b *Backend) runDurable(ctx context.Context, s *redis.Script, keys []string, args ...any) (cmd *redis.Cmd, short error) {
	if b.o.WaitReplicas <= 0 {
		return b.run(ctx, s, keys, args...), nil
	}
	args = append([]any{string(b.key)}, args...)
	cmd, wait := b.waited(ctx, func(p redis.Pipeliner) *redis.Cmd { return s.EvalSha(ctx, p, keys, args...) })
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		cmd, wait = b.waited(ctx, func(p redis.Pipeliner) *redis.Cmd { return s.Eval(ctx, p, keys, args...) })
	}
	if err := cmd.Err(); err != nil {
		cmd.SetErr(tidy(err))
		return cmd, nil
	}
	confirmed, err := wait.Int()
	switch {
	case err != nil:
		short = fmt.Errorf("%w: %w (redis.wait_replicas needs the command WAIT)", queue.ErrUnreplicated, err)
	case confirmed < b.o.WaitReplicas:
		short = fmt.Errorf("%w: %d of %d in %v (redis.wait_replicas)", queue.ErrUnreplicated, confirmed, b.o.WaitReplicas, b.o.WaitTimeout)
	}
	return cmd, short
}

// waited sends a script and then WAIT.
func (b *Backend) waited(ctx context.Context, send func(redis.Pipeliner) *redis.Cmd) (cmd, wait *redis.Cmd) {
	pipe := b.rdb.Pipeline()
	cmd = send(pipe)
	wait = pipe.Do(ctx, "wait", b.o.WaitReplicas, b.o.WaitTimeout.Milliseconds())
	_, _ = pipe.Exec(ctx) // each command tells its own error
	return cmd, wait
}
