package tts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/internal/buildinfo"
)

// Name is the executor's name, in its manifest and in agent.yaml.
const Name = "tts"

// Time limits of a task of type tts.
const (
	defaultTimeout = 60 * time.Second
	maxTimeout     = 600 * time.Second
)

// Executor runs tasks of type tts. The voice that a task asks for decides which
// engine speaks it.
type Executor struct {
	settings Settings
	main     *booth   // without it no task is taken; the default voice need not be its own
	more     []*booth // each may be missing
}

// New returns an executor on espeak-ng and the installed Piper voices. The settings must be valid.
func New(s Settings) (*Executor, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("settings of executor tts: %w", err)
	}
	espeak := NewEspeak(s)
	return NewWithEngine(s, espeak, NewPiper(engines.Locate(), espeak, modelCache())), nil
}

// modelCache is where compiled voices are kept: in the executor's own home, or
// nowhere.
func modelCache() string {
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return ""
	}
	return filepath.Join(home, ".cache", "openvino")
}

// Close frees what engines hold.
func (e *Executor) Close() error {
	var errs []error
	for _, b := range append([]*booth{e.main}, e.more...) {
		if c, ok := b.Engine.(executors.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// NewWithEngine returns an executor on another engine and further ones.
func NewWithEngine(s Settings, engine Engine, more ...Engine) *Executor {
	e := &Executor{settings: s, main: newBooth(engine)}
	for _, m := range more {
		e.more = append(e.more, newBooth(m))
	}
	return e
}

// Describe asks the engine whether it works now. Without a working engine, or
// without the default voice, the executor is not ready and says why.
func (e *Executor) Describe(ctx context.Context) (executors.Description, error) {
	d := executors.Description{
		Name:        Name,
		Version:     buildinfo.Version,
		Engine:      e.main.Name(),
		Types:       []executors.TypeDescription{taskType()},
		Concurrency: e.settings.Concurrency,
	}
	version, err := e.main.Probe(ctx)
	if err != nil {
		d.Reasons = []string{reason(err)}
		return d, nil
	}
	d.EngineVersion = version
	voices, err := e.catalogue(ctx)
	if err != nil {
		d.Reasons = []string{reason(err)}
		return d, nil
	}
	d.Capabilities = []string{fmt.Sprintf("voices:%d", len(voices.voices))}
	if _, err := voices.find(e.settings.DefaultVoice); err != nil {
		d.Reasons = []string{"executors.tts.default_voice: " + reason(err)}
		return d, nil
	}
	d.Ready = true
	for _, err := range voices.missing {
		d.Reasons = append(d.Reasons, reason(err))
	}
	return d, nil
}

// reason is an error without its code.
func reason(err error) string {
	e := executors.AsError(err)
	if e.Hint != "" {
		return e.Message + " (" + e.Hint + ")"
	}
	return e.Message
}

// Execute runs one task.
func (e *Executor) Execute(ctx context.Context, task executors.Task) (executors.Result, error) {
	op, err := executors.Op(task, taskType())
	if err != nil {
		return executors.Result{}, err
	}
	var req request
	if err := executors.DecodePayload(task, &req); err != nil {
		return executors.Result{}, err
	}
	switch op {
	case opSynthesize:
		return e.synthesize(ctx, task, req)
	case opListVoices:
		return e.listVoices(ctx, req)
	}
	refusal := executors.Errorf(executors.CodeUnsupported,
		"op %s needs an engine that clones voices; %s has only its built-in voices", op, e.main.Name())
	refusal.Field = "op"
	return executors.Result{}, refusal
}

func taskType() executors.TypeDescription {
	return executors.TypeDescription{
		Type:           Name,
		Ops:            []string{opSynthesize, opListVoices, opCreateVoice, opDeleteVoice},
		DefaultTimeout: defaultTimeout,
		MaxTimeout:     maxTimeout,
	}
}

func (e *Executor) catalogue(ctx context.Context) (catalogue, error) {
	c := catalogue{def: e.settings.DefaultVoice}
	for _, b := range append([]*booth{e.main}, e.more...) {
		voices, err := b.Voices(ctx)
		if err != nil {
			if b == e.main {
				return catalogue{}, err
			}
			c.missing = append(c.missing, err)
		}
		for _, v := range voices {
			v.booth = b
			c.voices = append(c.voices, v)
		}
	}
	return c, nil
}

// voiceInfo is one entry of list_voices.
type voiceInfo struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Language  string   `json:"language"`
	Languages []string `json:"languages"`
	Gender    string   `json:"gender,omitempty"`
	Builtin   bool     `json:"builtin"`
	Engine    string   `json:"engine"`
	Rate      int      `json:"sample_rate"`
	Default   bool     `json:"default,omitempty"`
}

// listVoices answers with all voices, or with those that speak a language.
func (e *Executor) listVoices(ctx context.Context, req request) (executors.Result, error) {
	voices, err := e.catalogue(ctx)
	if err != nil {
		return executors.Result{}, err
	}
	if req.Language != "" {
		if _, err := voices.speak(req.Language); err != nil {
			return executors.Result{}, err
		}
	}
	list := []voiceInfo{}
	for _, v := range voices.voices {
		if req.Language != "" && !v.covers(req.Language) {
			continue
		}
		list = append(list, voiceInfo{
			ID: v.ID, Name: v.Name, Language: v.Language, Languages: append([]string{}, v.Languages...),
			Gender: v.Gender, Builtin: true, Engine: v.booth.Name(), Rate: v.SampleRate, Default: v.ID == voices.def,
		})
	}
	return result(opListVoices, map[string]any{
		"voices": list, "count": len(list), "default": voices.def,
	})
}

func result(op string, output any) (executors.Result, error) {
	raw, err := json.Marshal(output)
	if err != nil {
		return executors.Result{}, fmt.Errorf("encode the result: %w", err)
	}
	return executors.Result{Op: op, Output: raw}, nil
}
