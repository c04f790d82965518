package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/cli"
)

func newStatus(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say whether the agent on this machine is claiming tasks, and if not why",
		Args:  cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := a.local()
			if err != nil {
				return err
			}
			s, err := api.status(c.Context())
			if err != nil {
				return err
			}
			return a.Print(s, func(w io.Writer) error { return printStatus(w, s) })
		},
	}
}

// printStatus writes the status for people. Its first line is the answer to
// the first question: is it claiming, and if not why.
func printStatus(w io.Writer, s agent.Status) error {
	first := "claiming"
	if !s.Claiming {
		first = "not claiming: " + s.Reason
	}
	lines := []string{
		first, "",
		"worker      " + s.WorkerID + " (generation " + fmt.Sprint(s.Generation) + ", version " + s.Version + ")",
		fmt.Sprintf("running     %d of %d tasks", len(s.Running), s.MaxConcurrent),
		"redis       " + redisLine(s),
		"types       " + orNone(s.Types),
		fmt.Sprintf("load        CPU %.0f %%, memory %.0f %% (%.0f MB available), disk %.0f MB free", s.Load.CPUPercent, s.Load.MemoryPercent, s.Load.MemoryAvailableMB, s.Load.DiskFreeMB),
		"up          " + seconds(s.UptimeSeconds) + " (pid " + fmt.Sprint(s.PID) + ")",
		"pairing     " + pairingLine(s),
		"local API   " + orText(s.API, "off (socket only)"),
		"state       " + s.StateDir,
	}
	for _, w := range s.Redis.Warnings {
		lines = append(lines, "warning     "+w)
	}
	if s.ConfigErrors != "" {
		lines = append(lines, "config      the last reload changed nothing: "+s.ConfigErrors)
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, cli.Printable(line)); err != nil {
			return err
		}
	}
	if len(s.Executors) > 0 {
		_, _ = fmt.Fprintln(w)
		if err := printExecutors(w, s.Executors); err != nil {
			return err
		}
	}
	if len(s.Running) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w)
	rows := make([][]string, len(s.Running))
	for i, r := range s.Running {
		rows[i] = []string{r.ID, fmt.Sprint(r.Attempt), r.Type, r.Queue, r.Stage, seconds(r.RunningSeconds)}
	}
	return cli.Table(w, []string{"TASK", "ATTEMPT", "TYPE", "QUEUE", "STAGE", "TIME"}, rows)
}

func redisLine(s agent.Status) string {
	switch {
	case s.Redis.URL == "":
		return "not configured (set redis.url)"
	case !s.Redis.Connected:
		return s.Redis.URL + " unreachable: " + s.Redis.Error
	case s.LastBeat.IsZero():
		return s.Redis.URL
	}
	return fmt.Sprintf("%s (last beat %s ago, clock differs by %.0f ms)", s.Redis.URL, seconds(time.Since(s.LastBeat).Seconds()), s.ClockSkewMS)
}

func pairingLine(s agent.Status) string {
	if s.Paired {
		return "paired with " + s.ControlURL
	}
	return "not paired (works with redis.url of its configuration)"
}

// seconds prints a duration as people say it.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", max(d.Seconds(), 0))
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

func joined(list []string) string { return strings.Join(list, ", ") }

func orNone(list []string) string { return orText(joined(list), "none") }

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
