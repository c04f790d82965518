package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/internal/check"
	"github.com/autobot-fleet/autobot/internal/configfile"
)

// errOdd has an exit code that only the program knows.
var errOdd = errors.New("odd")

// invoke runs a program that has one command, which ends as do does.
func invoke(do func(*App, *cobra.Command) error, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	a := &App{
		Program: Program{
			Name: "prog", EnvPrefix: "CLITEST", SetExample: "a.b=1",
			Keys: []KeyFlag{{Flag: "redis-url", Key: "redis.url", Help: "address"}},
			Code: func(err error) int {
				if errors.Is(err, errOdd) {
					return 42
				}
				return 0
			},
		},
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
	}
	root := a.Root()
	act := &cobra.Command{Use: "act", Args: NoArguments, RunE: func(c *cobra.Command, _ []string) error { return do(a, c) }}
	act.Flags().Duration("wait", 0, "")
	root.AddCommand(act)
	code = a.Run(root, args)
	return code, out.String(), errs.String()
}

func TestEachErrorHasItsExitCode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		err    error
		code   int
		stderr string
	}{
		{"none", nil, ExitOK, ""},
		{"any", errors.New("broken"), ExitFailure, "prog: broken\n"},
		{"usage", Usagef("no %s", "such"), ExitUsage, "prog: no such\n"},
		{"wrapped", fmt.Errorf("ask: %w", Unreachablef("gone")), ExitUnreachable, "prog: gone\n"},
		{"silent", Exit(ExitTryLater, nil), ExitTryLater, ""},
		{"the program's own", fmt.Errorf("act: %w", errOdd), 42, "prog: act: odd\n"},
		{"configuration", fmt.Errorf("load: %w", &configfile.Error{Problems: []configfile.Problem{{Key: "a", Message: "is bad"}}}), ExitBadConfig, "is bad"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := invoke(func(*App, *cobra.Command) error { return tt.err }, "act")
			if code != tt.code || !strings.Contains(stderr, tt.stderr) || (tt.stderr == "") != (stderr == "") {
				t.Errorf("code %d, want %d; %q", code, tt.code, stderr)
			}
		})
	}
}

func TestVariablesSetFlagsThatWereNotGiven(t *testing.T) {
	t.Setenv("CLITEST_WAIT", "3s")
	t.Setenv("CLITEST_REDIS_URL", "left to the configuration")
	wait := func(a *App, c *cobra.Command) error {
		d, err := c.Flags().GetDuration("wait")
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(a.Stdout, d, c.Flags().Changed("wait"), a.KeyFlags())
		return err
	}
	if code, stdout, stderr := invoke(wait, "act"); code != 0 || stdout != "3s true map[]" {
		t.Errorf("code %d, %q %q", code, stdout, stderr)
	}
	if code, stdout, stderr := invoke(wait, "act", "--wait", "4s", "--redis-url", "r"); code != 0 || stdout != "4s true map[redis.url:r]" {
		t.Errorf("code %d, %q %q", code, stdout, stderr)
	}
	t.Setenv("CLITEST_WAIT", "soon")
	if code, _, stderr := invoke(wait, "act"); code != ExitUsage || !strings.Contains(stderr, `CLITEST_WAIT="soon"`) {
		t.Errorf("code %d, %q", code, stderr)
	}
}

func TestHelpOffersCommands(t *testing.T) {
	t.Parallel()
	code, stdout, _ := invoke(nil, "__complete", "help", "a")
	if code != 0 || !strings.HasPrefix(stdout, "act\n") {
		t.Errorf("code %d, %q", code, stdout)
	}
}

func TestAFaultDecidesTheExitCode(t *testing.T) {
	t.Parallel()
	var fine, bad check.List
	fine.OK("disk", "%d MB", 9)
	fine.Warn("clock", "is off", "set it")
	bad.Fault("redis", "is away\n", "start it")
	show := func(l check.List) func(*App, *cobra.Command) error {
		return func(a *App, _ *cobra.Command) error { return a.PrintChecks(l, ExitUnreachable) }
	}
	if code, stdout, _ := invoke(show(fine), "act"); code != 0 || !strings.Contains(stdout, "repair: set it") || !strings.HasSuffix(stdout, "0 faults, 1 warning\n") {
		t.Errorf("code %d, %q", code, stdout)
	}
	if code, stdout, stderr := invoke(show(bad), "act", "-o", "json"); code != ExitUnreachable || !strings.Contains(stdout, `"level": "fault"`) || stderr != "" {
		t.Errorf("code %d, %q %q", code, stdout, stderr)
	}
}

func TestPeopleAreWrittenToOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	act := func(a *App, _ *cobra.Command) error {
		return a.Print(map[string]int{"count": 1}, func(w io.Writer) error { _, err := fmt.Fprint(w, "one"); return err })
	}
	for output, want := range map[string]string{"table": "one", "json": "{\n  \"count\": 1\n}\n", "yaml": "count: 1\n"} {
		if code, stdout, stderr := invoke(act, "act", "--output", output); code != 0 || stdout != want {
			t.Errorf("%s: code %d, %q %q", output, code, stdout, stderr)
		}
	}
}
