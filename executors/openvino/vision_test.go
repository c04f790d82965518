package openvino

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"github.com/autobot-fleet/autobot/executors"
)

type detected struct {
	Detections []detection `json:"detections"`
	Image      imageSize   `json:"image"`
	Model      modelInfo   `json:"model"`
	Device     string      `json:"device"`
}

func TestKnownObjectsAreFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file, label string
		least       float64
	}{
		{"astronaut.png", "Person", 0.55}, {"chelsea.png", "Cat", 0.75}, {"coffee.png", "Coffee cup", 0.5},
	} {
		var out detected
		must(t, "vision", obj{"image_path": picture(t, tt.file)}, &out)
		if len(out.Detections) == 0 || !strings.EqualFold(out.Detections[0].Label, tt.label) || out.Detections[0].Confidence < tt.least {
			t.Errorf("%s: %+v, want %s with at least %.2f", tt.file, out.Detections, tt.label, tt.least)
			continue
		}
		b := out.Detections[0].Box
		if b.X < 0 || b.Y < 0 || b.W < 20 || b.H < 20 || b.X+b.W > float64(out.Image.W) || b.Y+b.H > float64(out.Image.H) {
			t.Errorf("%s: box %+v in a picture of %+v", tt.file, b, out.Image)
		}
		if out.Device != "CPU" || out.Model.Name != "ssd-mobilenet-v2" || len(out.Model.SHA256) != 64 {
			t.Errorf("%+v", out)
		}
	}
}

func TestNothingIsFoundWhereNothingIs(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"brick.png", "grass.png", "gravel.png", "moon.png", "page.png", "text.png", "coins.png"} {
		var out detected
		must(t, "vision", obj{"op": "detect", "image_path": picture(t, file), "confidence": 0.5}, &out)
		if len(out.Detections) > 0 {
			t.Errorf("%s: %+v", file, out.Detections)
		}
	}
}

func TestAPictureMayComeInThreeWays(t *testing.T) {
	t.Parallel()
	path := picture(t, "chelsea.png")
	raw := readFile(t, path)
	digest := sha256.Sum256(raw)
	sum := hex.EncodeToString(digest[:])
	for _, payload := range []obj{
		{"image": base64.StdEncoding.EncodeToString(raw)},
		{"image": "data:image/png;base64," + base64.StdEncoding.EncodeToString(raw)},
		{"image": obj{"artifact": "sha256:" + sum}},
		{"artifact": "sha256:" + sum},
		{"image_path": path, "annotate": true, "classes": []string{"cat"}},
	} {
		r := run(t.Context(), t, real(t), "vision", payload, map[string]string{sum: path})
		if r.err != nil || !strings.Contains(string(r.result.Output), `"Cat"`) {
			t.Errorf("%.60v: %v", payload, r.err)
		}
		if payload["annotate"] == nil {
			continue
		}
		if len(r.artifacts) != 1 || r.artifacts[0].Name != "objects.png" {
			t.Fatalf("artifacts %+v", r.artifacts)
		}
		drawn, err := png.Decode(bytes.NewReader(readFile(t, filepath.Join(r.spool, "objects.png"))))
		if err != nil || drawn.Bounds().Dx() != 451 {
			t.Errorf("objects.png: %v", err)
		}
	}
}

func TestBadPicturesAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		payload obj
		code    executors.Code
		field   string
	}{
		{obj{}, executors.CodeInvalidInput, "image"},
		{obj{"image": "aGVsbG8=", "image_path": "/x"}, executors.CodeInvalidInput, "image"},
		{obj{"image": "not base64!"}, executors.CodeInvalidInput, "image"},
		{obj{"image": "aGVsbG8="}, executors.CodeInvalidInput, "image"},
		{obj{"image": 5}, executors.CodeInvalidInput, "image"},
		{obj{"image_path": "/etc/passwd"}, executors.CodePermissionDenied, "image_path"},
		{obj{"image_path": "data/x.png"}, executors.CodeInvalidInput, "image_path"},
		{obj{"image_path": filepath.Dir(picture(t, "x")) + "/none.png"}, executors.CodeNotFound, ""},
		{obj{"image_path": picture(t, "chelsea.png"), "confidence": 1.5}, executors.CodeInvalidInput, "confidence"},
		{obj{"image_path": picture(t, "chelsea.png"), "classes": []string{"Catt"}}, executors.CodeInvalidInput, "classes[0]"},
		{obj{"image_path": picture(t, "chelsea.png"), "model": "all-minilm-l6-v2"}, executors.CodeInvalidInput, "model"},
		{obj{"image_path": picture(t, "chelsea.png"), "device": "TPU"}, executors.CodeInvalidInput, "device"},
		{obj{"image_path": picture(t, "chelsea.png"), "nosuch": 1}, executors.CodeInvalidInput, "nosuch"},
	} {
		if err := refused(t, "vision", tt.payload, tt.code); tt.field != "" && err.Field != tt.field {
			t.Errorf("%v: field %q, want %q", tt.payload, err.Field, tt.field)
		}
	}
}

// write draws a line of text, turned by degrees, on white.
func write(t *testing.T, text string, w, h int, degrees float64) []byte {
	t.Helper()
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		t.Fatal(err)
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: 36, DPI: 72})
	if err != nil {
		t.Fatal(err)
	}
	flat := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.Draw(flat, flat.Bounds(), image.White, image.Point{}, draw.Src)
	pen := font.Drawer{Dst: flat, Src: image.Black, Face: face}
	pen.Dot = fixed.P((w-pen.MeasureString(text).Ceil())/2, h/2+12)
	pen.DrawString(text)
	out := image.NewRGBA(flat.Bounds())
	sin, cos := math.Sincos(-degrees * math.Pi / 180)
	for y := range h {
		for x := range w {
			dx, dy := float64(x-w/2), float64(y-h/2)
			sx, sy := int(math.Round(dx*cos-dy*sin))+w/2, int(math.Round(dx*sin+dy*cos))+h/2
			c := color.RGBA{255, 255, 255, 255}
			if (image.Point{X: sx, Y: sy}).In(flat.Bounds()) {
				c = flat.RGBAAt(sx, sy)
			}
			out.SetRGBA(x, y, c)
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, out); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDrawnTextIsReadBack(t *testing.T) {
	t.Parallel()
	for _, degrees := range []float64{0, 12, -30, 180} {
		var out struct {
			Text  string     `json:"text"`
			Lines []textLine `json:"lines"`
		}
		raw := write(t, "Hello World 2026", 500, 400, degrees)
		must(t, "vision", obj{"op": "ocr", "image": base64.StdEncoding.EncodeToString(raw)}, &out)
		if strings.ReplaceAll(out.Text, " ", "") != "HelloWorld2026" || len(out.Lines) != 1 || out.Lines[0].Confidence < 0.8 {
			t.Errorf("turned by %v: %+v", degrees, out)
		}
	}
}

func TestAScannedPageIsReadInOrder(t *testing.T) {
	t.Parallel()
	var out struct {
		Text string `json:"text"`
	}
	must(t, "npu_inference", obj{"model": "pp-ocr-v4", "image_path": picture(t, "page.png")}, &out)
	first, second := strings.Index(out.Text, "Region-based"), strings.Index(out.Text, "markers")
	if first < 0 || second < first {
		t.Errorf("read: %q", out.Text)
	}
	must(t, "vision", obj{"op": "ocr", "image_path": picture(t, "moon.png")}, &out)
	if len(out.Text) > 3 {
		t.Errorf("text on the moon: %q", out.Text)
	}
}

func TestALargePictureWithMarksIsNoLargeFile(t *testing.T) {
	t.Parallel()
	img := image.NewRGBA(image.Rect(0, 0, 4000, 2500))
	for i := range img.Pix { // noise does not compress
		img.Pix[i] = uint8(i * i >> 7)
	}
	r := ran{spool: t.TempDir()}
	task := executors.NewTask(executors.Task{SpoolDir: r.spool}, func(ev executors.Event) { r.artifacts = append(r.artifacts, *ev.Artifact) })
	if err := annotate(task, img, nil); err != nil {
		t.Fatal(err)
	}
	if a := r.artifacts; len(a) != 1 || a[0].Name != "objects.jpg" || a[0].MediaType != "image/jpeg" {
		t.Fatalf("%+v", a)
	}
	drawn, kind, err := image.Decode(bytes.NewReader(readFile(t, filepath.Join(r.spool, "objects.jpg"))))
	if err != nil || kind != "jpeg" || drawn.Bounds() != img.Bounds() {
		t.Errorf("%s, %v", kind, err)
	}
}
