package openvino

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

// CheckFlag makes the executor's program check one model and end.
const CheckFlag = "--check-model"

// checked is what Check prints.
type checked struct {
	Engine  string         `json:"engine"`
	Inputs  []engines.Port `json:"inputs"`
	Outputs []engines.Port `json:"outputs"`
	Layout  string         `json:"layout,omitempty"`
}

// Check loads the model in dir, which holds a card, on the CPU and runs it once
// with made-up input. It prints what it found as JSON on out and returns 0, or
// one sentence on bad and 1.
func Check(dir string, out, bad io.Writer) int {
	found, err := check(dir)
	if err == nil {
		err = json.NewEncoder(out).Encode(found)
	}
	if err != nil {
		_, _ = fmt.Fprintln(bad, err) // nobody is left to tell
		return 1
	}
	return 0
}

func check(dir string) (checked, error) {
	raw, err := os.ReadFile(filepath.Join(dir, engines.CardFile))
	if err != nil {
		return checked{}, fmt.Errorf("read the card: %w", err)
	}
	card, err := engines.ParseCard(raw)
	if err != nil {
		return checked{}, fmt.Errorf("card %s: %w", filepath.Join(dir, engines.CardFile), err)
	}
	lib, _, err := engines.Locate().OpenVINO()
	if err != nil {
		return checked{}, err
	}
	rt, err := ov.Open(lib)
	if err != nil {
		return checked{}, err
	}
	defer rt.Close()
	compiled, err := rt.Compile(context.Background(), filepath.Join(dir, card.Model), deviceCPU, ov.CompileOptions{NoCache: true})
	if err != nil {
		return checked{}, err
	}
	defer compiled.Close()
	found := checked{
		Engine: engineName + " " + rt.Version().String(), Inputs: cardPorts(compiled.Inputs()), Outputs: cardPorts(compiled.Outputs()),
		Layout: guessLayout(compiled.Outputs()),
	}
	inputs, err := madeUp(compiled.Inputs())
	if err != nil {
		return checked{}, err
	}
	if _, err := runOnce(context.Background(), compiled, inputs); err != nil {
		// Open dimensions may depend on each other in ways that made-up input
		// does not meet; a model whose input is fixed has to run.
		for _, p := range compiled.Inputs() {
			if !p.Static() {
				return found, nil
			}
		}
		return checked{}, fmt.Errorf("the model loads and does not run: %w", err)
	}
	return found, nil
}

// cardPorts are ports as a card names them.
func cardPorts(list []ov.Port) []engines.Port {
	out := make([]engines.Port, len(list))
	for i, p := range list {
		out[i] = engines.Port{Name: p.Name, Type: p.Type.String(), Shape: []int64{}}
		for _, d := range p.Shape {
			size := d.Max
			if !d.Fixed() {
				size = -1
			}
			out[i].Shape = append(out[i].Shape, size)
		}
	}
	return out
}

// guessLayout is the layout that the outputs of a detector look like, or "".
func guessLayout(outputs []ov.Port) string {
	dims := func(p ov.Port) []int64 {
		var out []int64
		for _, d := range p.Shape {
			if !d.Fixed() {
				return nil
			}
			out = append(out, d.Max)
		}
		return out
	}
	switch len(outputs) {
	case 1:
		s := dims(outputs[0])
		switch {
		case len(s) != 3 || s[0] != 1:
		case s[2] == 6:
			return engines.LayoutYOLOEnd2End
		case s[1] >= 5 && s[1] < s[2]:
			return engines.LayoutYOLO
		case s[2] >= 5 && s[2] < s[1]:
			return engines.LayoutYOLOTransposed
		}
	case 2:
		a, b := dims(outputs[0]), dims(outputs[1])
		if len(a) == 3 && len(b) == 3 && a[1] == b[1] && (a[2] == 4 || b[2] == 4) {
			return engines.LayoutSSD
		}
	}
	return ""
}

var _ executors.Closer = (*Executor)(nil)
var _ executors.Healther = (*Executor)(nil)
