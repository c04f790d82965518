package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/autobot-fleet/autobot/executors/engines"
)

// NewModel is a model that an administrator adds. What is not given is taken
// from the model itself where it can be.
type NewModel struct {
	File   string // .onnx, .tflite, or .xml with its .bin beside it
	Name   string
	Task   string
	Labels string // file with one name a line
	Vocab  string // embed: file of a WordPiece tokenizer
	Voice  string // tts: file with phoneme ids

	Layout     string // detect; default what the outputs look like
	Pooling    string // embed; default mean
	MaxTokens  int    // embed; default 512
	Preprocess engines.Preprocess
	Thresholds *engines.Thresholds // default: the executor's
	Licence    string
	Replace    bool // a model of that name may be there
}

// AddModel copies a model into the models folder and writes its card, after the
// checker has loaded it once. Nothing is left of a model that does not pass.
func (in *Installer) AddModel(ctx context.Context, m NewModel, checker Checker) (engines.Card, error) {
	if !engines.ValidName(m.Name) {
		return engines.Card{}, fmt.Errorf("the name of a model must be 1 to 64 of a-z, 0-9, dot, dash and underscore, got %q", m.Name)
	}
	format, err := formatOf(m.File)
	if err != nil {
		return engines.Card{}, err
	}
	if m.Task == engines.TaskOCR {
		return engines.Card{}, errors.New("a model of task ocr has several parts, which cannot be added by one command (write its model.json by hand: docs/executors.md)")
	}
	unlock, err := in.lock(ctx)
	if err != nil {
		return engines.Card{}, err
	}
	defer unlock()
	target := filepath.Join(in.Layout.ModelsDir, m.Name)
	if _, err := os.Lstat(target); err == nil && !m.Replace {
		return engines.Card{}, fmt.Errorf("there is a model %s already (autobot-agent models remove %s, or --replace)", m.Name, m.Name)
	}
	if err := mkdir(in.Layout.ModelsDir); err != nil {
		return engines.Card{}, err
	}
	dir, err := os.MkdirTemp(in.Layout.ModelsDir, unfinished)
	if err != nil {
		return engines.Card{}, fmt.Errorf("make a folder for the model: %w (run this as the user who owns the folder, or as root)", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	card, err := m.build(ctx, dir, format, checker)
	if err != nil {
		return engines.Card{}, err
	}
	return card, place(dir, target)
}

// build fills dir and returns the card that is written there.
func (m NewModel) build(ctx context.Context, dir, format string, checker Checker) (engines.Card, error) {
	c := engines.Card{
		Name: m.Name, Format: format, Task: engines.TaskInfer, Model: "model" + strings.ToLower(filepath.Ext(m.File)),
		Licence: m.Licence, Source: "added from " + filepath.Base(m.File),
	}
	files := [][2]string{{m.File, c.Model}}
	if format == engines.FormatIR {
		files = append(files, [2]string{strings.TrimSuffix(m.File, filepath.Ext(m.File)) + ".bin", "model.bin"})
	}
	for _, f := range files {
		if err := copyInto(&c, dir, f[0], f[1]); err != nil {
			return c, err
		}
	}
	if err := writeModel(c, dir); err != nil { // what the engine needs to load it
		return c, err
	}
	found, err := checker.Check(ctx, dir)
	if err != nil {
		return c, err
	}
	c.Task, c.Inputs, c.Outputs = m.Task, found.Inputs, found.Outputs
	if err := m.extras(&c, dir); err != nil {
		return c, err
	}
	m.fill(&c, found)
	if c.Task == engines.TaskDetect && c.Layout == "" {
		return c, fmt.Errorf("the outputs of this model look like no detector that is known (%s): name it with --layout, or add it with --task infer", shapes(c.Outputs))
	}
	if err := checkLabels(c, dir); err != nil {
		return c, err
	}
	return c, writeModel(c, dir)
}

// extras copies labels, vocabulary and voice.
func (m NewModel) extras(c *engines.Card, dir string) error {
	if m.Labels != "" {
		c.Labels = "labels.txt"
		if strings.EqualFold(filepath.Ext(m.Labels), ".json") {
			c.Labels = "labels.json"
		}
		if err := copyInto(c, dir, m.Labels, c.Labels); err != nil {
			return err
		}
	}
	if m.Vocab != "" {
		c.Tokenizer = &engines.Tokenizer{Kind: "wordpiece", Vocab: "vocab.txt"}
		if err := copyInto(c, dir, m.Vocab, "vocab.txt"); err != nil {
			return err
		}
	}
	if m.Voice != "" {
		c.Voice = "voice.json"
		return copyInto(c, dir, m.Voice, c.Voice)
	}
	return nil
}

// fill sets what follows from the model where nothing was given.
func (m NewModel) fill(c *engines.Card, found Checked) {
	c.Thresholds = m.Thresholds
	switch c.Task {
	case engines.TaskDetect, engines.TaskClassify:
		if c.Task == engines.TaskDetect {
			c.Layout = m.Layout
			if c.Layout == "" {
				c.Layout = found.Layout
			}
		}
		p := m.Preprocess
		guessPicture(&p, *c)
		c.Preprocess = &p
	case engines.TaskEmbed:
		c.Pooling, c.MaxTokens = m.Pooling, m.MaxTokens
		if c.Pooling == "" {
			c.Pooling = "mean"
		}
		if c.MaxTokens == 0 {
			c.MaxTokens = 512
		}
		if len(c.Outputs) > 0 && len(c.Outputs[0].Shape) > 0 {
			c.Dim = int(max(0, c.Outputs[0].Shape[len(c.Outputs[0].Shape)-1]))
		}
	}
}

// guessPicture takes size and order from the shape of the first input, and else
// what most models of the task and layout are trained with.
func guessPicture(p *engines.Preprocess, c engines.Card) {
	order, h, w := "nchw", int64(0), int64(0)
	if len(c.Inputs) > 0 && len(c.Inputs[0].Shape) == 4 {
		s := c.Inputs[0].Shape
		h, w = s[2], s[3]
		if s[3] == 3 || s[3] == 1 {
			order, h, w = "nhwc", s[1], s[2]
		}
	}
	set := func(to *string, value string) {
		if *to == "" {
			*to = value
		}
	}
	set(&p.Order, order)
	set(&p.Channels, "rgb")
	fit := engines.FitLetterbox
	if c.Task == engines.TaskClassify || c.Layout == engines.LayoutSSD {
		fit = engines.FitStretch
	}
	set(&p.Fit, fit)
	if p.Width == 0 && w > 0 {
		p.Width = int(w)
	}
	if p.Height == 0 && h > 0 {
		p.Height = int(h)
	}
	switch { // to -1..1, or to 0..1
	case p.Scale == nil && p.Mean == nil && c.Layout == engines.LayoutSSD:
		p.Mean, p.Scale = []float64{127.5}, []float64{127.5}
	case p.Scale == nil:
		p.Scale = []float64{255}
	}
}

// checkLabels compares the number of labels with the classes of the output.
func checkLabels(c engines.Card, dir string) error {
	if c.Labels == "" {
		return nil
	}
	labels, err := c.ReadLabels(dir)
	if err != nil {
		return err
	}
	if len(c.Outputs) == 0 || len(c.Outputs[0].Shape) < 2 {
		return nil
	}
	s := c.Outputs[0].Shape
	classes := int64(-1)
	switch {
	case c.Task == engines.TaskClassify:
		classes = s[len(s)-1]
	case c.Layout == engines.LayoutYOLO && s[1] > 4:
		classes = s[1] - 4
	case c.Layout == engines.LayoutYOLOTransposed && s[len(s)-1] > 4:
		classes = s[len(s)-1] - 4
	}
	if classes > 0 && classes != int64(len(labels)) {
		return fmt.Errorf("the labels are %d and the classes of the model %d: it needs one label for each class, in their order", len(labels), classes)
	}
	return nil
}

func shapes(ports []engines.Port) string {
	var out []string
	for _, p := range ports {
		out = append(out, fmt.Sprintf("%s %v", p.Name, p.Shape))
	}
	return strings.Join(out, ", ")
}

func formatOf(file string) (string, error) {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".onnx":
		return engines.FormatONNX, nil
	case ".xml":
		return engines.FormatIR, nil
	case ".tflite":
		return engines.FormatTFLite, nil
	}
	return "", fmt.Errorf("%s is no model that the engine reads: .onnx, .tflite, or .xml with its .bin", filepath.Base(file))
}

// copyInto copies a file into the model's folder and lists it in the card.
func copyInto(c *engines.Card, dir, from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }() // only read
	if info, err := src.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(fmt.Errorf("%s is not a regular file", from), err)
	}
	path := filepath.Join(dir, to)
	dst, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // the agent's user reads it, who may be another one
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err = errors.Join(err, dst.Chmod(0o644), dst.Close()); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	sum, size, err := engines.HashFile(path)
	if err != nil {
		return err
	}
	c.Files = append(c.Files, engines.File{Name: to, SHA256: sum, Size: size})
	return nil
}

func writeModel(c engines.Card, dir string) error {
	raw, err := c.Encode()
	if err != nil {
		return fmt.Errorf("the card of the model would be wrong: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, engines.CardFile), raw, 0o644) //nolint:gosec // the agent's user reads it, who may be another one
}

// RemoveModel removes a model, whoever put it there.
func (in *Installer) RemoveModel(ctx context.Context, name string) error {
	if !engines.ValidName(name) {
		return fmt.Errorf("%q is not the name of a model", name)
	}
	unlock, err := in.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	dir := filepath.Join(in.Layout.ModelsDir, name)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		_, _, err := in.Layout.Model(name) // names the nearest
		return err
	}
	return removeDir(dir)
}
