package vision

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/autobot-fleet/autobot/executors/engines"
)

// cat is a photo of 451 x 300 pixels, as a file.
func cat(b *testing.B) []byte {
	b.Helper()
	dir, err := engines.Locate().DataSet("sample-pictures")
	if err != nil {
		b.Fatalf("%v (scripts/setup installs what the tests need)", err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "chelsea.png"))
	if err != nil {
		b.Fatal(err)
	}
	return raw
}

func BenchmarkDecode(b *testing.B) {
	raw := cat(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFit makes the inputs of a detector and of a reader of text.
func BenchmarkFit(b *testing.B) {
	img, err := Decode(cat(b))
	if err != nil {
		b.Fatal(err)
	}
	for name, f := range map[string]Fit{
		"stretch":   {Width: 300, Height: 300, Channels: "rgb", NHWC: true, Mean: []float64{127.5}, Scale: []float64{127.5}},
		"letterbox": {Width: 640, Height: 640, Channels: "rgb", Letterbox: true, Scale: []float64{255}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Apply(img); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
