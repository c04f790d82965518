package cli

import (
	"fmt"
	"io"

	"github.com/autobot-fleet/autobot/internal/check"
)

// PrintChecks writes what a doctor found. If there is a fault among it, the
// command exits with faultCode.
func (a *App) PrintChecks(checks check.List, faultCode int) error {
	if err := a.Print(checks, func(w io.Writer) error { return listChecks(w, checks) }); err != nil {
		return err
	}
	if faults, _ := checks.Count(); faults > 0 {
		return Exit(faultCode, nil)
	}
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// listChecks writes one line per check, and its repair below it.
func listChecks(w io.Writer, checks check.List) error {
	for _, c := range checks {
		if _, err := fmt.Fprintf(w, "%-8s %-12s %s\n", c.Level, c.Name, Printable(c.Detail)); err != nil {
			return err
		}
		if c.Repair != "" {
			if _, err := fmt.Fprintf(w, "%21s repair: %s\n", "", Printable(c.Repair)); err != nil {
				return err
			}
		}
	}
	last := "everything is in order"
	if faults, warnings := checks.Count(); faults+warnings > 0 {
		last = count(faults, "fault") + ", " + count(warnings, "warning")
	}
	_, err := fmt.Fprintln(w, last)
	return err
}
