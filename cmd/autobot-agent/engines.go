package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/agent/engines"
	"github.com/autobot-fleet/autobot/internal/cli"
)

func newEngines(a *app) *cobra.Command {
	return cli.Group("engines", "Install what executors run on: inference engines, models, browser, sample data",
		newEnginesList(a), newEnginesInstall(a), newEnginesRemove(a), newEnginesVerify(a), newEnginesBundle(a))
}

// engineFlags are shared by the commands that look at the engines folder.
type engineFlags struct {
	into string
	from string
}

func (f *engineFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.into, "into", "", "engines folder (default: engines.dir of the configuration); models and data go beside it")
	_ = c.MarkFlagDirname("into")
}

// installer works on the folder of the flags, else of the configuration.
func (a *app) installer(f engineFlags) (*engines.Installer, error) {
	dir := f.into
	if dir == "" {
		cfg, _, err := a.load()
		if err != nil {
			return nil, err
		}
		dir = cfg.Engines.Dir
	}
	if dir == "" {
		return nil, cli.Usagef("engines.dir is empty in the configuration: name the folder with --into DIR")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	in, err := engines.New(engines.At(dir))
	if err != nil {
		return nil, err
	}
	in.Say = func(sentence string) { _, _ = fmt.Fprintln(a.Stderr, sentence) }
	if f.from != "" {
		if in.From, err = filepath.Abs(f.from); err != nil {
			return nil, err
		}
		if _, err := os.Stat(in.From); err != nil {
			return nil, cli.Usagef("--from: %w", err)
		}
	}
	return in, nil
}

// untilInterrupted is a context that ends with ctrl-C, so that programs that
// were started end too and half of a folder is not left behind.
func untilInterrupted(c *cobra.Command) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
}

// engineRow is what list prints about an entry.
type engineRow struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	About   string `json:"about"`
	Licence string `json:"licence"`
	Free    bool   `json:"free"`
	All     bool   `json:"all"`
	Why     string `json:"why,omitempty"`
	Install string `json:"install,omitempty"` // the line that installs it
}

func newEnginesList(a *app) *cobra.Command {
	var f engineFlags
	c := &cobra.Command{
		Use:   "list",
		Short: "List what can be installed, in which version, and what is",
		Args:  cli.NoArguments,
		RunE: func(_ *cobra.Command, _ []string) error {
			in, err := a.installer(f)
			if err != nil {
				return err
			}
			rows := make([]engineRow, 0, len(in.Catalogue))
			for _, e := range in.Catalogue {
				s := in.State(e)
				row := engineRow{e.Name, e.Version, string(e.Kind), s.State, s.Reason, e.About, e.Licence, e.Free, e.All, e.Why, ""}
				if s.State != engines.Installed && s.State != engines.ByHand {
					row.Install = in.InstallLine(e)
				}
				rows = append(rows, row)
			}
			return a.Print(rows, func(w io.Writer) error { return printEngines(w, rows) })
		},
	}
	f.add(c)
	return c
}

func printEngines(w io.Writer, list []engineRow) error {
	rows := make([][]string, len(list))
	for i, e := range list {
		note := e.About
		if e.Why != "" {
			note += "; not in \"all\": " + e.Why
		}
		rows[i] = []string{e.Name, e.Version, e.Kind, e.State, e.Licence, note}
	}
	return cli.Table(w, []string{"NAME", "VERSION", "KIND", "STATE", "LICENCE", "NOTE"}, rows)
}

func newEnginesInstall(a *app) *cobra.Command {
	var f engineFlags
	c := &cobra.Command{
		Use:   "install NAME... | all",
		Short: "Install engines, models and data; what is there already is left alone",
		Long: "Installs what the names mean (see engines list), checked against pinned checksums.\n" +
			"\"all\" is everything that is free and needed by the executors. Downloads go through\n" +
			"pip, npm and apt-get as this machine has them set up, and are kept in the user's\n" +
			"cache: a run that was interrupted goes on with what it had.",
		Example: "  autobot-agent engines install all\n" +
			"  autobot-agent engines install openvino@2025.4.1\n" +
			"  autobot-agent engines install all --from /media/stick/engines.tar",
		Args:              atLeastOneName("all"),
		ValidArgsFunction: a.completeEngines,
		RunE: func(c *cobra.Command, names []string) error {
			in, err := a.installer(f)
			if err != nil {
				return err
			}
			ctx, stop := untilInterrupted(c)
			defer stop()
			plan, err := in.Plan(ctx, names)
			if err != nil {
				return err
			}
			if plan.Empty() {
				_, err := fmt.Fprintf(a.Stdout, "%s: everything is installed in %s\n", strings.Join(names, ", "), filepath.Dir(in.Layout.EnginesDir))
				return err
			}
			in.Say(fmt.Sprintf("to install into %s: %s (%s to download, %s of disk)",
				filepath.Dir(in.Layout.EnginesDir), strings.Join(plan.Names(), ", "), engines.Megabytes(plan.Download()), engines.Megabytes(plan.Disk())))
			if err := in.Install(ctx, plan); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Stdout, "%s: installed in %s\n", strings.Join(names, ", "), filepath.Dir(in.Layout.EnginesDir))
			return err
		},
	}
	f.add(c)
	c.Flags().StringVar(&f.from, "from", "", "folder with the archives, or a bundle: nothing is fetched")
	return c
}

// atLeastOneName refuses a command line without names.
func atLeastOneName(example string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cli.Usagef("%s needs a name, for example: %s %s", cli.Words(c), c.CommandPath(), example)
		}
		return nil
	}
}

// completeEngines offers the names of the catalogue.
func (a *app) completeEngines(_ *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
	c, err := engines.Pinned()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := []string{engines.All}
	for i, e := range c {
		name := e.Name
		if i > 0 && c[i-1].Name == name {
			name = e.ID()
		}
		if strings.HasPrefix(name, start) {
			names = append(names, name+"\t"+e.About)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func newEnginesRemove(a *app) *cobra.Command {
	var f engineFlags
	var downloads bool
	c := &cobra.Command{
		Use:               "remove NAME...",
		Short:             "Remove engines, models or data; packages of the distribution stay",
		Args:              atLeastOneName("openvino@2025.4.1"),
		ValidArgsFunction: a.completeEngines,
		RunE: func(c *cobra.Command, names []string) error {
			in, err := a.installer(f)
			if err != nil {
				return err
			}
			ctx, stop := untilInterrupted(c)
			defer stop()
			entries, err := in.Select(names)
			if err != nil {
				return err
			}
			var problems []error
			for _, e := range entries {
				if err := in.Remove(ctx, e, downloads); err != nil {
					problems = append(problems, err)
					continue
				}
				_, _ = fmt.Fprintf(a.Stdout, "%s: removed\n", e.ID())
			}
			return errors.Join(problems...)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&downloads, "downloads", false, "remove their archives from the cache too")
	return c
}

// verifyRow is what verify prints about an entry.
type verifyRow struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"`
}

func newEnginesVerify(a *app) *cobra.Command {
	var f engineFlags
	c := &cobra.Command{
		Use:   "verify [NAME...]",
		Short: "Read every installed file and compare it with the pinned checksums",
		Long: "Without names: everything that is installed. With names: these, and what is\n" +
			"missing of them is a problem.",
		ValidArgsFunction: a.completeEngines,
		RunE: func(_ *cobra.Command, names []string) error {
			in, err := a.installer(f)
			if err != nil {
				return err
			}
			entries, err := in.Select(names)
			if err != nil {
				return err
			}
			if len(names) == 0 {
				entries = in.Present()
			}
			rows := make([]verifyRow, 0, len(entries))
			bad := false
			for _, e := range entries {
				row := verifyRow{e.Name, e.Version, true, ""}
				if err := in.Verify(e); err != nil {
					row.OK, row.Problem, bad = false, err.Error()+" (repair: "+in.InstallLine(e)+")", true
				}
				rows = append(rows, row)
			}
			if err := a.Print(rows, func(w io.Writer) error { return printVerified(w, rows) }); err != nil {
				return err
			}
			if bad {
				return cli.Exit(cli.ExitFailure, nil)
			}
			return nil
		},
	}
	f.add(c)
	return c
}

func printVerified(w io.Writer, list []verifyRow) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "nothing is installed (autobot-agent engines install all)")
		return err
	}
	rows := make([][]string, len(list))
	for i, v := range list {
		rows[i] = []string{v.Name, v.Version, orText(v.Problem, "ok")}
	}
	return cli.Table(w, []string{"NAME", "VERSION", "FILES"}, rows)
}

func newEnginesBundle(a *app) *cobra.Command {
	var arch string
	c := &cobra.Command{
		Use:   "bundle FILE [NAME...]",
		Short: "Write the downloads into one tar file for machines without a network",
		Long: "Writes the archives of the named entries (default: all) into FILE, to be installed\n" +
			"with: autobot-agent engines install all --from FILE",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("%s needs the file to write, for example: %s engines.tar", cli.Words(c), c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			in, err := a.installer(engineFlags{})
			if err != nil {
				return err
			}
			in.Arch = arch
			names := args[1:]
			if len(names) == 0 {
				names = []string{engines.All}
			}
			ctx, stop := untilInterrupted(c)
			defer stop()
			system, err := in.Bundle(ctx, names, args[0])
			if err != nil {
				return err
			}
			info, err := os.Stat(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Stdout, "%s: %s\n", args[0], engines.Megabytes(info.Size()))
			if len(system) > 0 && err == nil {
				_, err = fmt.Fprintf(a.Stdout, "not in it, install them there: apt-get install %s\n", strings.Join(system, " "))
			}
			return err
		},
	}
	c.Flags().StringVar(&arch, "arch", "", "processor of the other machines: amd64 or arm64 (default: this one's)")
	return c
}
