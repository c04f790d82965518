package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/agent/engines"
	model "github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/internal/cli"
)

func newModels(a *app) *cobra.Command {
	return cli.Group("models", "List, add or remove the models of this machine", newModelsList(a), newModelsAdd(a), newModelsRemove(a))
}

func newModelsList(a *app) *cobra.Command {
	var f engineFlags
	c := &cobra.Command{
		Use:   "list",
		Short: "List the models that executors find on this machine",
		Args:  cli.NoArguments,
		RunE: func(_ *cobra.Command, _ []string) error {
			in, err := a.installer(f)
			if err != nil {
				return err
			}
			list, err := in.Models()
			if err != nil {
				return err
			}
			return a.Print(list, func(w io.Writer) error { return printModels(w, list, in.Layout.ModelsDir) })
		},
	}
	f.add(c)
	return c
}

func printModels(w io.Writer, list []engines.ModelStatus, dir string) error {
	if len(list) == 0 {
		_, err := fmt.Fprintf(w, "no models in %s (autobot-agent engines install all, or models add FILE)\n", dir)
		return err
	}
	rows := make([][]string, len(list))
	for i, m := range list {
		rows[i] = []string{m.Name, m.Task, m.Format, engines.Megabytes(m.Size), orText(m.Licence, "-"), orText(m.Problem, "ok"), m.Source}
	}
	return cli.Table(w, []string{"MODEL", "TASK", "FORMAT", "SIZE", "LICENCE", "STATE", "SOURCE"}, rows)
}

// modelFlags are the flags of models add that need reading.
type modelFlags struct {
	size, mean, scale string
	score, iou        float64
}

func newModelsAdd(a *app) *cobra.Command {
	var f engineFlags
	var m engines.NewModel
	var mf modelFlags
	c := &cobra.Command{
		Use:   "add FILE --name NAME --task TASK",
		Short: "Add a model of your own: copies it, loads it once, writes its card",
		Long: "Adds an ONNX, TensorFlow Lite or OpenVINO model (.xml with its .bin beside it). The\n" +
			"openvino executor loads it once; what it says about inputs and outputs goes into the\n" +
			"card (model.json), with what the flags say. Nothing is added that does not load.",
		Example: "  autobot-agent models add yolov8n.onnx --name yolov8 --task detect --labels coco.txt\n" +
			"  autobot-agent models add net.xml --name my-net --task infer",
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) != 1:
				return cli.Usagef("models add needs one FILE, got %d (see %s --help)", len(args), c.CommandPath())
			case m.Name == "" || m.Task == "":
				return cli.Usagef("models add needs --name and --task, for example: %s %s --name yolov8 --task detect --labels coco.txt", c.CommandPath(), args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			cfg, _, err := a.load() // once, as its warnings are printed
			if err != nil {
				return err
			}
			if f.into == "" {
				f.into = cfg.Engines.Dir
			}
			in, err := a.installer(f)
			if err != nil {
				return err
			}
			m.File = args[0]
			if err := mf.into(c, &m); err != nil {
				return err
			}
			ctx, stop := untilInterrupted(c)
			defer stop()
			checker := engines.ExecutorChecker{Dirs: cfg.Executors.Dirs, EnginesDir: in.Layout.EnginesDir}
			card, err := in.AddModel(ctx, m, checker)
			if err != nil {
				return err
			}
			return a.Print(card, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s: added (%s, %s), loaded once without a fault\n", card.Name, card.Format, card.Task)
				return err
			})
		},
	}
	f.add(c)
	flags := c.Flags()
	flags.StringVar(&m.Name, "name", "", "name that tasks use: a-z, 0-9, dot, dash, underscore")
	flags.StringVar(&m.Task, "task", "", "what it is for: embed, detect, classify, vad, filetype, tts or infer (ocr has several parts: write its model.json by hand, see docs/executors.md)")
	flags.StringVar(&m.Labels, "labels", "", "file with the names of the classes, one a line")
	flags.StringVar(&m.Vocab, "vocab", "", "embed: vocabulary of a WordPiece tokenizer, one token a line")
	flags.StringVar(&m.Voice, "voice", "", "tts: JSON file of the voice")
	flags.StringVar(&m.Layout, "layout", "", "detect: ssd-mediapipe, yolo, yolo-transposed or yolo-end2end (default: what the outputs look like)")
	flags.StringVar(&m.Pooling, "pooling", "", "embed: mean (default) or cls")
	flags.IntVar(&m.MaxTokens, "max-tokens", 0, "embed: longest input (default 512)")
	flags.StringVar(&mf.size, "size", "", "size of the input picture as WIDTHxHEIGHT (default: the model's)")
	flags.StringVar(&m.Preprocess.Fit, "fit", "", "stretch or letterbox (default: letterbox for yolo, else stretch)")
	flags.StringVar(&m.Preprocess.Channels, "channels", "", "rgb (default), bgr or gray")
	flags.StringVar(&mf.mean, "mean", "", "subtracted from 0 to 255, one number or one for each channel (default 0, ssd-mediapipe 127.5)")
	flags.StringVar(&mf.scale, "scale", "", "then divided by, the same way (default 255, ssd-mediapipe 127.5)")
	flags.Float64Var(&mf.score, "score", 0, "least probability of a result where a task gives none (0 to 1)")
	flags.Float64Var(&mf.iou, "iou", 0.45, "boxes of one class that overlap more are one (0 to 1)")
	flags.StringVar(&m.Licence, "licence", "", "licence of the model, for the card")
	flags.BoolVar(&m.Replace, "replace", false, "replace a model of that name")
	return c
}

// into reads the flags that are not plain values.
func (mf modelFlags) into(c *cobra.Command, m *engines.NewModel) error {
	if mf.size != "" {
		w, h, _ := strings.Cut(mf.size, "x")
		var bad [2]error
		m.Preprocess.Width, bad[0] = strconv.Atoi(w)
		m.Preprocess.Height, bad[1] = strconv.Atoi(h)
		if errors.Join(bad[:]...) != nil {
			return cli.Usagef("--size must be WIDTHxHEIGHT, for example 640x640, got %q", mf.size)
		}
	}
	var err error
	if m.Preprocess.Mean, err = numbers("mean", mf.mean); err != nil {
		return err
	}
	if m.Preprocess.Scale, err = numbers("scale", mf.scale); err != nil {
		return err
	}
	if c.Flags().Changed("score") || c.Flags().Changed("iou") {
		m.Thresholds = &model.Thresholds{Score: mf.score, IoU: mf.iou}
	}
	return nil
}

// numbers reads "0.5" or "0.5,0.4,0.3".
func numbers(flag, text string) ([]float64, error) {
	if text == "" {
		return nil, nil
	}
	var out []float64
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil {
			return nil, cli.Usagef("--%s must be a number, or one for each channel as in 0.5,0.5,0.5, got %q", flag, text)
		}
		out = append(out, n)
	}
	return out, nil
}

func newModelsRemove(a *app) *cobra.Command {
	var f engineFlags
	c := &cobra.Command{
		Use:   "remove NAME...",
		Short: "Remove models from this machine",
		Args:  atLeastOneName("yolov8"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			in, err := a.installer(f)
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			names, _ := in.Layout.Models()
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, names []string) error {
			in, err := a.installer(f)
			if err != nil {
				return err
			}
			ctx, stop := untilInterrupted(c)
			defer stop()
			var problems []error
			for _, name := range names {
				if err := in.RemoveModel(ctx, name); err != nil {
					problems = append(problems, err)
					continue
				}
				_, _ = fmt.Fprintf(a.Stdout, "%s: removed\n", name)
			}
			return errors.Join(problems...)
		},
	}
	f.add(c)
	return c
}
