package bench

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/autobot-fleet/autobot/executors/engines"
)

// BenchmarkDetect measures picture in, boxes out, next to the bare model. The
// picture is a JPEG of 600 x 400 pixels in the payload.
func BenchmarkDetect(b *testing.B) {
	photo := base64.StdEncoding.EncodeToString(coffee(b))
	r, p := startRig(b, 4, "", "openvino"), startPeer(b, "detect")
	detect := task("vision", map[string]any{"op": "detect", "image": photo})
	var found struct {
		Count int `json:"count"`
	}
	r.result(detect, &found)
	if found.Count == 0 {
		b.Fatal("nothing was found on a picture of a cup of coffee")
	}
	for range 5 {
		r.one(detect)
	}
	var ours, bare times
	for b.Loop() {
		bare = append(bare, p.ask(map[string]any{"runs": 10}).times()...)
		for range 10 {
			ours = append(ours, r.one(detect))
		}
	}
	more := ours.p(50) - bare.p(50)
	b.ReportMetric(more, "added-ms")
	figure(b, "detection, picture in, boxes out, through the queue: p50 %.1f ms, p99 %.1f ms; bare model p50 %.1f ms: %.1f ms more, %.2f x (goal <= 15 ms more: %s)",
		ours.p(50), ours.p(99), bare.p(50), more, ours.p(50)/bare.p(50), verdict(more <= 15))
}

// coffee returns a photograph of a cup as a JPEG, as cameras make them.
func coffee(b *testing.B) []byte {
	b.Helper()
	path := filepath.Join(engines.Locate().DataDir, "sample-pictures", "coffee.png")
	raw, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(fmt.Errorf("%w (get it with: autobot-agent engines install sample-pictures)", err))
	}
	img, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	if err := jpeg.Encode(&out, img, &jpeg.Options{Quality: 90}); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}
