package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/internal/redisconn"
)

func newRedisCommand(env *environment) *cobra.Command {
	return cli.Group("redis", "Look at the Redis databases", newRedisHealth(env), newRedisInfo(env))
}

// askRedis connects as the control plane would and asks one database, or with
// an empty name every named one, for a sign of life.
func askRedis(ctx context.Context, env *environment, name string, then func(*redisconn.Manager, []redisconn.Info) error) error {
	cfg, _, err := env.load()
	if err != nil {
		return err
	}
	names := redisconn.Databases()
	if name != "" {
		names = []string{name}
	}
	m, err := redisconn.New(cfg.Redis, zap.NewNop(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = m.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	infos := make([]redisconn.Info, 0, len(names))
	for _, n := range names {
		if _, err := m.Client(n); err != nil {
			return cli.Usagef("--database: %v", err)
		}
		info := m.Info(ctx, n)
		infos = append(infos, info)
		if !info.Connected {
			break // the databases are on one server
		}
	}
	return then(m, infos)
}

// unreachable is the end of a command whose database did not answer.
func unreachable(infos []redisconn.Info) error {
	for _, i := range infos {
		if !i.Connected {
			return cli.Unreachablef("database %s: %s (autobot-control doctor has the repair)", i.Database, i.Error)
		}
	}
	return nil
}

func newRedisHealth(env *environment) *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "health",
		Short: "Ask the databases for a sign of life and print their state",
		Long: "Ask every named database, or one, for a sign of life and print the state of the\n" +
			"connections. The exit code is 69 if one does not answer. What a running control plane\n" +
			"has counted is at GET /api/redis/health.",
		Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return askRedis(c.Context(), env, name, func(m *redisconn.Manager, infos []redisconn.Info) error {
				if _, err := m.Facts(c.Context()); err != nil && unreachable(infos) == nil {
					return err // Facts also finds a policy that drops keys
				}
				h := m.Health()
				if err := env.Print(h, func(w io.Writer) error { return printHealth(w, h) }); err != nil {
					return err
				}
				return unreachable(infos)
			})
		},
	}
	addDatabaseFlag(c, &name, "ask only this database")
	return c
}

func printHealth(w io.Writer, h redisconn.Health) error {
	word := "healthy"
	if !h.OverallHealthy {
		word = "not healthy"
	}
	if _, err := fmt.Fprintf(w, "%s: %d of %d databases, %d requests, %d failed\n", word,
		h.HealthyDatabases, h.TotalDatabases, h.TotalRequests, h.TotalFailures); err != nil {
		return err
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(h.Databases)) {
		d := h.Databases[name]
		rows = append(rows, []string{name, d.State, d.Metrics.CircuitBreakerState,
			fmt.Sprintf("%.1f ms", d.Metrics.AvgResponseTimeMS), text(d.Metrics.LastError)})
	}
	return cli.Table(w, []string{"DATABASE", "STATE", "BREAKER", "ANSWERS IN", "LAST ERROR"}, rows)
}

func newRedisInfo(env *environment) *cobra.Command {
	name := redisconn.Main
	c := &cobra.Command{
		Use:   "info",
		Short: "Print what is known about one database and its server",
		Args:  cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return askRedis(c.Context(), env, name, func(m *redisconn.Manager, infos []redisconn.Info) error {
				info := infos[0]
				err := env.Print(info, func(w io.Writer) error {
					if !info.Connected {
						return nil // the error says it
					}
					return printInfo(c.Context(), w, m, info)
				})
				if err != nil {
					return err
				}
				return unreachable(infos)
			})
		},
	}
	addDatabaseFlag(c, &name, "which database")
	return c
}

func printInfo(ctx context.Context, w io.Writer, m *redisconn.Manager, i redisconn.Info) error {
	rows := [][]string{
		{"database", i.Database}, {"address", m.Address()}, {"health", i.Health},
		{"circuit breaker", i.Metrics.CircuitBreakerState}, {"answers in", fmt.Sprintf("%.1f ms", i.Metrics.AvgResponseTimeMS)},
	}
	if f, err := m.Facts(ctx); err == nil {
		rows = append(rows, []string{"version", f.Version}, []string{"maxmemory-policy", f.MaxmemoryPolicy},
			[]string{"appendonly", f.Appendonly}, []string{"maxclients", f.MaxClients})
	}
	return cli.Table(w, []string{"WHAT", "VALUE"}, rows)
}

func addDatabaseFlag(c *cobra.Command, name *string, help string) {
	c.Flags().StringVar(name, "database", *name, help)
	_ = c.RegisterFlagCompletionFunc("database", cobra.FixedCompletions(redisconn.Databases(), cobra.ShellCompDirectiveNoFileComp))
}

// text returns what a pointer holds.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
