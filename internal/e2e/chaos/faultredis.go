package chaos

import (
	"context"
	"fmt"
	"time"
)

// redis carries out a fault of the server, whose lock the caller holds.
func (in *injector) redis(ctx context.Context, fault Fault) error {
	rdb := in.f.direct
	switch fault.Kind {
	case ClientPause:
		mode := "ALL"
		if fault.Pick < 0.5 {
			mode = "WRITE"
		}
		err := insist("pause", func(ctx context.Context) error {
			return rdb.Do(ctx, "CLIENT", "PAUSE", fault.For.Milliseconds(), mode).Err()
		})
		pause(fault.For)
		return err
	case DebugSleep:
		// The answer comes when it has slept, perhaps after our patience.
		ctx, cancel := context.WithTimeout(ctx, fault.For+time.Minute)
		defer cancel()
		_ = rdb.Do(ctx, "DEBUG", "SLEEP", fmt.Sprintf("%.3f", fault.For.Seconds())).Err()
		return nil
	case RestartRedis:
		_ = rdb.Do(ctx, "SHUTDOWN").Err() // the answer is the end of the connection
		in.f.srv.Stop()
		pause(fault.For)
		in.f.srv.Restart()
		return nil
	case KillRedis:
		in.f.srv.Kill()
		pause(fault.For)
		in.f.srv.Restart()
		return nil
	case FullMemory:
		if err := insist("fill the memory", func(ctx context.Context) error { return rdb.ConfigSet(ctx, "maxmemory", "1").Err() }); err != nil {
			return err
		}
		pause(fault.For)
		return insist("give memory", func(ctx context.Context) error { return rdb.ConfigSet(ctx, "maxmemory", "0").Err() })
	}
	return fmt.Errorf("%s is no fault of the server", fault.Kind)
}

// atOnce carries out what is over at once and needs nobody's lock. It reports
// false when there was nothing to do it to.
func (in *injector) atOnce(ctx context.Context, fault Fault) (bool, error) {
	switch fault.Kind {
	case KillExecutor, FreezeExecutor:
		return in.executor(fault), nil
	case ClientKill:
		kind := "normal"
		if fault.Pick < 0.3 {
			kind = "pubsub"
		}
		return in.f.direct.Do(ctx, "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes").Err() == nil, nil
	case ScriptFlush:
		return in.f.direct.ScriptFlush(ctx).Err() == nil, nil
	case CancelTask:
		return in.cancel(ctx, fault), nil
	case RetryTask:
		return in.retry(ctx, fault), nil
	}
	return false, fmt.Errorf("%s is not known", fault.Kind)
}
