package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// idleRow measures an agent with an executor of six task types, five lists
// each, that has nothing to do.
func idleRow(ctx context.Context, b *bench) error {
	const executor = taskType + "6"
	if err := b.build(ctx, executor); err != nil {
		return err
	}
	for _, profile := range []string{"seed", "fast"} {
		var commands, redis, cpu, rss series
		lists := 0
		for round := range min(b.rounds, 2) {
			x, err := b.idle(ctx, agentConfig{redis: b.redis, id: "bench", slots: 4, profile: profile, executor: executor})
			if err != nil {
				return err
			}
			lists = x.lists
			commands, redis = append(commands, x.commands), append(redis, x.redis)
			cpu, rss = append(cpu, x.cpu), append(rss, x.rss)
			b.say("  round %d, %s: %.1f commands/s, %.3f %% of a core in Redis, agent %.2f %% and %.1f MiB (%d lists)",
				round+1, profile, x.commands, x.redis, x.cpu, x.rss, x.lists)
		}
		what := fmt.Sprintf(" of an idle agent, profile %s, 6 task types, %d lists", profile, lists)
		b.table.add(line{figure: "Redis commands" + what, ours: commands.text("/s"), goal: atMost(commands.median(), 10, 0, "/s")})
		b.table.add(line{figure: "processor time of Redis" + what, ours: redis.text(" % of a core")})
		b.table.add(line{figure: "processor time" + what, ours: cpu.text(" % of a core"), goal: atMost(cpu.median(), 0.3, 1, " %")})
		b.table.add(line{figure: "resident memory" + what, ours: rss.text(" MiB"), goal: atMost(rss.median(), 30, 50, " MiB")})
	}
	return nil
}

type idleness struct {
	commands   float64 // per second
	redis, cpu float64 // parts of a core in a hundred, of the server and of the agent without its executors
	rss        float64 // MiB of the agent without its executors
	lists      int
}

func (b *bench) idle(ctx context.Context, a agentConfig) (x idleness, err error) {
	if err := b.redis.empty(ctx); err != nil {
		return x, err
	}
	r, err := b.startAgent(ctx, a)
	if err != nil {
		return x, err
	}
	defer r.stop()
	status, err := r.status(ctx)
	if err != nil {
		return x, err
	}
	x.lists = len(status.Queues)
	settle, watch := 5*time.Second, 30*time.Second // the latter has two beats of the profile seed in it
	if b.quick {
		settle, watch = 200*time.Millisecond, time.Second
	}
	if err := pause(ctx, settle); err != nil {
		return x, err
	}
	pid := r.cmd.Process.Pid
	before, err := b.redis.usage(ctx)
	if err != nil {
		return x, err
	}
	used, err := cpuOf(pid)
	if err != nil {
		return x, err
	}
	began := time.Now()
	if err := pause(ctx, watch); err != nil {
		return x, err
	}
	took := time.Since(began).Seconds()
	usedNow, err := cpuOf(pid)
	if err != nil {
		return x, err
	}
	after, err := b.redis.usage(ctx)
	if err != nil {
		return x, err
	}
	if x.rss, err = rssOf(pid); err != nil {
		return x, err
	}
	const asked = 1 // by usage itself
	x.commands = float64(after.commands-before.commands-asked) / took
	x.redis = 100 * (after.cpu - before.cpu).Seconds() / took
	x.cpu = 100 * (usedNow - used).Seconds() / took
	return x, nil
}

// pause waits: what happens meanwhile is what is measured.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cpuOf is the processor time that a process has used, in steps of the
// scheduler's accounting (nanoseconds, /proc/PID/schedstat of all threads).
func cpuOf(pid int) (time.Duration, error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, t := range tasks {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, t.Name()))
		if err != nil {
			continue // the thread has ended
		}
		ns, _, _ := strings.Cut(string(raw), " ")
		n, err := strconv.ParseInt(ns, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n)
	}
	return sum, nil
}

// rssOf is the resident memory of a process in MiB.
func rssOf(pid int) (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmRSS", pid)
}
