package tts

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

// voice returns the loaded voice called name. Call with mu held.
func (p *Piper) voice(ctx context.Context, name string) (*piperVoice, error) {
	card, dir, err := p.layout.Model(name)
	if err != nil {
		return nil, err
	}
	for i, v := range p.loaded {
		if v.id != name {
			continue
		}
		p.loaded = append(p.loaded[:i], p.loaded[i+1:]...)
		if v.sum == card.SHA256() {
			p.loaded = append(p.loaded, v)
			return v, nil
		}
		v.close()
		break
	}
	if err := p.open(); err != nil {
		return nil, err
	}
	v, err := p.load(ctx, card, dir)
	if err != nil {
		return nil, err
	}
	if len(p.loaded) >= loadedVoices {
		p.loaded[0].close()
		p.loaded = p.loaded[1:]
	}
	p.loaded = append(p.loaded, v)
	return v, nil
}

// open loads the runtime. Call with mu held.
func (p *Piper) open() error {
	if p.runtime != nil {
		return nil
	}
	dir, _, err := p.layout.OpenVINO()
	if err != nil {
		return unavailable("%v", err)
	}
	var opts []ov.Option
	if p.cache != "" {
		opts = append(opts, ov.WithCacheDir(p.cache))
	}
	if p.runtime, err = ov.Open(dir, opts...); err != nil {
		return unavailable("%v", err)
	}
	return nil
}

// load compiles a voice for the processor.
func (p *Piper) load(ctx context.Context, card engines.Card, dir string) (*piperVoice, error) {
	config, err := readPiperConfig(card, dir)
	if err != nil {
		return nil, executors.Errorf(executors.CodeModelLoadFailed, "%v", err)
	}
	compiled, err := p.runtime.Compile(ctx, filepath.Join(dir, card.Model), "CPU", ov.CompileOptions{})
	if ctx.Err() != nil {
		if compiled != nil {
			compiled.Close()
		}
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, executors.Errorf(executors.CodeModelLoadFailed, "voice %s: %v", card.Name, err)
	}
	if err := piperPorts(compiled); err != nil {
		compiled.Close()
		return nil, executors.Errorf(executors.CodeModelLoadFailed, "voice %s: %v", card.Name, err)
	}
	request, err := compiled.NewRequest()
	if err != nil {
		compiled.Close()
		return nil, executors.Errorf(executors.CodeModelLoadFailed, "voice %s: %v", card.Name, err)
	}
	return &piperVoice{id: card.Name, sum: card.SHA256(), config: config, compiled: compiled, request: request}, nil
}

// piperPorts checks that a model has the inputs of a Piper voice.
func piperPorts(c *ov.Compiled) error {
	want := map[string]ov.ElementType{"input": ov.I64, "input_lengths": ov.I64, "scales": ov.F32}
	inputs := c.Inputs()
	for _, port := range inputs {
		if typ, ok := want[port.Name]; !ok || typ != port.Type {
			return fmt.Errorf("input %s is not one of a Piper voice with a single speaker", port)
		}
	}
	if len(inputs) != len(want) || len(c.Outputs()) != 1 {
		return errors.New("a Piper voice has the inputs input, input_lengths and scales, and one output")
	}
	return nil
}

func (v *piperVoice) close() {
	v.request.Close()
	v.compiled.Close()
}

// Close frees the loaded voices and the runtime. Nothing may be spoken after
// it.
func (p *Piper) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range p.loaded {
		v.close()
	}
	p.loaded = nil
	if p.runtime != nil {
		p.runtime.Close()
		p.runtime = nil
	}
	return nil
}
