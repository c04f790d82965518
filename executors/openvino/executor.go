package openvino

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/ocr"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
	"github.com/autobot-fleet/autobot/executors/openvino/wordpiece"
	"github.com/autobot-fleet/autobot/internal/buildinfo"
)

// Name is the executor's name, in its manifest and in agent.yaml.
const Name = "openvino"

const (
	engineName     = "openvino"
	defaultTimeout = 2 * time.Minute
	maxTimeout     = time.Hour

	// maxPictures is how many pictures are in memory at once, each up to 160 MB.
	maxPictures = 8
)

// Executor runs models. The runtime is opened at the first Describe.
type Executor struct {
	settings Settings
	layout   engines.Layout
	cacheDir string
	vectors  *vectors
	pictures chan struct{} // an entry for each task that holds a picture

	mu         sync.Mutex
	rt         *ov.Runtime
	models     *models
	notes      []string // what a person should know of the runtime
	opening    atomic.Bool
	said       sync.Map
	closed     bool
	tokenizers map[string]*wordpiece.Tokenizer // by file and content
	keys       map[string]ocr.Keys             // the same
}

// New returns the executor with the engines and models of this machine. It
// opens nothing yet.
func New(s Settings) (*Executor, error) {
	return NewAt(s, engines.Locate(), cacheFolder())
}

// NewAt is New with other folders; cacheDir keeps compiled models, "" keeps
// none.
func NewAt(s Settings, layout engines.Layout, cacheDir string) (*Executor, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return &Executor{
		settings: s, layout: layout, cacheDir: cacheDir, vectors: newVectors(s.EmbedCache, s.EmbedCacheTTL),
		pictures: make(chan struct{}, maxPictures), tokenizers: map[string]*wordpiece.Tokenizer{}, keys: map[string]ocr.Keys{},
	}, nil
}

// cacheFolder is in the executor's own home, which outlives its process.
func cacheFolder() string {
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return ""
	}
	return filepath.Join(home, ".cache", "openvino")
}

// types lists what is served; the first operation of each is its default.
func types() []executors.TypeDescription {
	list := []executors.TypeDescription{
		{Type: "npu_inference", Ops: []string{opInfer, opEmbed, opSearch, opDetect, opClassify, opEmbedImage, opOCR, opLoad, opUnload, opDeviceInfo, opBenchmark}},
		{Type: "openvino", Ops: []string{opInfer, opLoad, opUnload, opDeviceInfo, opBenchmark, opEmbed, opSearch, opDetect, opClassify, opEmbedImage, opOCR}},
		{Type: "vision", Ops: []string{opDetect, opClassify, opEmbedImage, opOCR}},
		{Type: "embedding", Ops: []string{opEmbed, opSearch}},
	}
	for i := range list {
		list[i].DefaultTimeout, list[i].MaxTimeout, list[i].Inputs = defaultTimeout, maxTimeout, true
		list[i].MakesSpoolDir = true
	}
	return list
}

// Describe opens the runtime if that was not done. Without it, or without any
// model, no task is taken.
func (e *Executor) Describe(ctx context.Context) (executors.Description, error) {
	d := executors.Description{
		Name: Name, Version: buildinfo.Version, Engine: engineName, Types: types(), Concurrency: e.settings.Concurrency,
	}
	rt, err := e.open()
	if err != nil {
		d.Reasons = []string{executors.AsError(err).Message}
		return d, nil
	}
	d.EngineVersion = rt.Version().String()
	names, err := e.layout.Models()
	switch {
	case err != nil:
		d.Reasons = []string{err.Error()}
		return d, nil
	case len(names) == 0:
		d.Reasons = []string{fmt.Sprintf("there are no models in %s (get them with: autobot-agent engines install all)", e.layout.ModelsDir)}
		return d, nil
	}
	d.Ready = true
	d.Reasons = append(d.Reasons, e.notes...)
	devices, err := rt.Devices()
	if err == nil {
		for _, name := range devices {
			d.Capabilities = append(d.Capabilities, "device:"+name)
		}
	}
	var cards []engines.Card
	for _, name := range names {
		card, _, err := e.layout.Model(name)
		if err != nil {
			d.Reasons = append(d.Reasons, err.Error())
			continue
		}
		cards = append(cards, card)
		d.Capabilities = append(d.Capabilities, "model:"+name)
	}
	d.Types = slices.DeleteFunc(d.Types, func(t executors.TypeDescription) bool { return !served(t.Type, cards) })
	return d, ctx.Err()
}

// served reports whether there is a model for a type. Types whose tasks always
// name their model are served anyway: a wrong name is an answer too.
func served(typ string, cards []engines.Card) bool {
	switch typ {
	case "embedding":
		return slices.ContainsFunc(cards, func(c engines.Card) bool { return c.Task == engines.TaskEmbed && c.Tokenizer != nil })
	case "vision":
		return slices.ContainsFunc(cards, func(c engines.Card) bool { return c.Preprocess != nil || c.Task == engines.TaskOCR })
	}
	return true
}

// Health lists the devices.
func (e *Executor) Health(context.Context) executors.Health {
	rt, err := e.open()
	if err != nil {
		return executors.Health{Message: err.Error()}
	}
	h := executors.Health{Ready: true, Message: about(rt, e.notes)}
	if h.Devices, err = rt.Devices(); err != nil {
		h.Ready, h.Message = false, err.Error()
	}
	return h
}

// about says which library and driver are in use.
func about(rt *ov.Runtime, notes []string) string {
	text := rt.Library()
	if npu := rt.NPU(); npu.Available {
		text += fmt.Sprintf(", NPU driver %s %v", npu.Driver, npu.DriverFiles)
	}
	return strings.Join(append([]string{text}, notes...), "; ")
}

// open loads the runtime once. A runtime that was installed later is found at
// the next call.
func (e *Executor) open() (*ov.Runtime, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, executors.Errorf(executors.CodeEngineUnavailable, "the executor is closing")
	}
	if e.rt != nil {
		return e.rt, nil
	}
	dir, _, err := e.layout.OpenVINO()
	if err == nil {
		e.notes = nil
		options := []ov.Option{ov.WithWarnings(e.note)}
		if e.cacheDir != "" {
			options = append(options, ov.WithCacheDir(e.cacheDir))
		}
		e.opening.Store(true)
		e.rt, err = ov.Open(dir, options...)
		e.opening.Store(false)
	}
	if err != nil {
		return nil, executors.Errorf(executors.CodeEngineUnavailable, "%v", err)
	}
	e.models = newModels(e.rt, e.settings, e.cacheDir)
	return e.rt, nil
}

// note prints what the runtime says, once, into the agent's log, and keeps what
// it says while it is opened.
func (e *Executor) note(text string) {
	if _, before := e.said.LoadOrStore(text, true); !before {
		fmt.Fprintln(os.Stderr, text) //nolint:forbidigo // the log of an executor
	}
	if e.opening.Load() {
		e.notes = append(e.notes, text)
	}
}

// Close frees all models and the runtime. No task may run.
func (e *Executor) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.rt != nil {
		e.models.close()
		e.rt.Close()
		e.rt = nil
	}
	return nil
}

// Execute runs one task.
func (e *Executor) Execute(ctx context.Context, task executors.Task) (executors.Result, error) {
	typ, ok := typeOf(task.Type)
	if !ok {
		return executors.Result{}, executors.Errorf(executors.CodeUnsupported, "type %q is not served", cut(task.Type))
	}
	op, old, err := operation(task, typ)
	if err != nil {
		return executors.Result{}, err
	}
	if _, err := e.open(); err != nil {
		return executors.Result{}, err
	}
	if op == "" {
		if op, err = e.byCard(task, typ); err != nil {
			return executors.Result{}, err
		}
	}
	switch op {
	case opDetect, opClassify, opEmbedImage, opOCR:
		done, err := e.holdPicture(ctx)
		if err != nil {
			return executors.Result{}, err
		}
		defer done()
	}
	switch op {
	case opInfer:
		return e.infer(ctx, task)
	case opEmbed:
		return e.embed(ctx, task, old)
	case opSearch:
		return e.search(ctx, task, old)
	case opDetect:
		return e.detect(ctx, task)
	case opClassify:
		return e.classify(ctx, task)
	case opEmbedImage:
		return e.embedImage(ctx, task)
	case opOCR:
		return e.read(ctx, task)
	case opLoad:
		return e.loadModel(ctx, task)
	case opUnload:
		return e.unloadModel(task)
	case opDeviceInfo:
		return e.deviceInfo(task)
	case opBenchmark:
		return e.benchmark(ctx, task)
	}
	return executors.Result{}, executors.Errorf(executors.CodeUnsupported, "op %q is not supported", cut(op))
}

func typeOf(name string) (executors.TypeDescription, bool) {
	for _, t := range types() {
		if t.Type == name {
			return t, true
		}
	}
	return executors.TypeDescription{}, false
}

// find returns the model that a task asks for. With a task of the model's card
// given, another kind of model is refused.
func (e *Executor) find(t target, def, cardTask string) (want, error) {
	w, err := e.findAny(t, def, cmp.Or(cardTask, engines.TaskInfer))
	if err == nil && cardTask != "" && w.card.Task != cardTask {
		return want{}, executors.Invalid("model", "%s is a model for %s, this operation needs one for %s", w.card.Name, w.card.Task, cardTask)
	}
	return w, err
}

// findAny is find for a model of any kind. How one that is not there is added
// is told for the task addAs.
func (e *Executor) findAny(t target, def, addAs string) (want, error) {
	asked, err := t.name(def)
	if err != nil {
		return want{}, err
	}
	name := asked
	if real, ok := e.settings.ModelAliases[name]; ok {
		name = real
	}
	switch t.Precision {
	case "", ov.PrecisionF32, ov.PrecisionF16, ov.PrecisionBF16:
	default:
		return want{}, executors.Invalid("precision", "must be f32, f16 or bf16, got %q", cut(t.Precision))
	}
	card, dir, err := e.layout.ModelFor(name, addAs)
	if err != nil {
		var known *executors.Error
		if errors.As(err, &known) {
			known.Field = "model"
			return want{}, known
		}
		return want{}, executors.Errorf(executors.CodeModelLoadFailed, "%v", err)
	}
	digest, err := digestOf(card)
	if err != nil {
		return want{}, err
	}
	return want{card: card, digest: digest, dir: dir, device: t.Device, precision: cmp.Or(t.Precision, card.Precision)}, nil
}

// info names the model in a result; file is the one that ran.
func info(card engines.Card, file string) modelInfo {
	return modelInfo{Name: card.Name, Revision: card.Revision, SHA256: fileSum(card, file)}
}

// byCard chooses the operation for a payload of older producers that has only a
// model and a picture.
func (e *Executor) byCard(task executors.Task, typ executors.TypeDescription) (string, error) {
	var p struct {
		target
	}
	if err := decodeLoose(task, &p); err != nil {
		return "", err
	}
	w, err := e.findAny(p.target, e.settings.DetectModel, engines.TaskDetect)
	if err != nil {
		return "", err
	}
	switch w.card.Task {
	case engines.TaskDetect:
		return opDetect, nil
	case engines.TaskClassify:
		return opClassify, nil
	case engines.TaskOCR:
		return opOCR, nil
	case engines.TaskEmbed:
		if w.card.Preprocess != nil {
			return opEmbedImage, nil
		}
	}
	return typ.Ops[0], nil
}
