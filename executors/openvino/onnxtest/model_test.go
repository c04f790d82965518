package onnxtest

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// That the models are right is shown by the runtime, in package ov.
func TestModelsAreWellFormedMessages(t *testing.T) {
	for name, m := range map[string]*Model{"add": AddOne(1, 4), "mean": Mean(), "product": Product(), "log": Log(3), "slow": Slow(8, 3)} {
		fields := map[protowire.Number]int{}
		for b := m.Bytes(); len(b) > 0; {
			field, _, n := protowire.ConsumeField(b)
			if n < 0 {
				t.Fatalf("%s: %v", name, protowire.ParseError(n))
			}
			fields[field]++
			b = b[n:]
		}
		if fields[modelIRVersion] != 1 || fields[modelOpset] != 1 || fields[modelGraph] != 1 {
			t.Errorf("%s has fields %v", name, fields)
		}
	}
}
