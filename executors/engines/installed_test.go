package engines

import (
	"testing"
)

// What scripts/setup installs is there and whole: executors build on it.
func TestTheEnginesOfThisMachineAreFound(t *testing.T) {
	t.Parallel()
	l := Locate()
	if _, version, err := l.OpenVINO(); err != nil {
		t.Errorf("%v; scripts/setup does it all", err)
	} else if CompareVersions(version, "2026.4.1") < 0 {
		t.Errorf("the highest OpenVINO is %s, scripts/setup installs a newer one", version)
	}
	p, err := l.Playwright(t.Context(), PlaywrightSettings{})
	if err != nil {
		t.Errorf("%v; scripts/setup does it all", err)
	} else if p.Version != "1.64.1" {
		t.Errorf("the driver is %s", p.Version)
	}
	if _, err := l.DataSet("sample-pictures"); err != nil {
		t.Errorf("%v; scripts/setup does it all", err)
	}
	for _, name := range []string{"all-minilm-l6-v2", "ssd-mobilenet-v2", "pp-ocr-v4", "silero-vad", "magika"} {
		c, dir, err := l.Model(name)
		if err != nil {
			t.Errorf("%v; scripts/setup does it all", err)
			continue
		}
		if err := c.Verify(dir); err != nil {
			t.Error(err)
		}
		if c.Labels == "" {
			continue
		}
		labels, err := c.ReadLabels(dir)
		if err != nil {
			t.Error(err)
		}
		last := c.Outputs[len(c.Outputs)-1].Shape
		if classes := int(last[len(last)-1]); len(labels) != classes {
			t.Errorf("%s has %d labels for %d classes", name, len(labels), classes)
		}
	}
}
