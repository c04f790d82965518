package openvino

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"image"
	"strings"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/vision"
	"github.com/autobot-fleet/autobot/internal/rawjson"
)

// pictureFields are how a payload gives a picture, one of them.
type pictureFields struct {
	Image     json.RawMessage `json:"image"`      // base64, or {"artifact": "sha256:…"}
	Artifact  string          `json:"artifact"`   // sha256:…
	ImagePath string          `json:"image_path"` // file on the worker, below an input root
}

// holdPicture waits until one more picture may be in memory. Call done when it
// is not needed any more.
func (e *Executor) holdPicture(ctx context.Context) (done func(), err error) {
	select {
	case e.pictures <- struct{}{}:
		return func() { <-e.pictures }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// picture reads and decodes the picture of a payload.
func (e *Executor) picture(task executors.Task, p pictureFields) (*image.RGBA, error) {
	raw, field, err := e.pictureBytes(task, p)
	if err != nil {
		return nil, err
	}
	img, err := vision.Decode(raw)
	var large *vision.TooLargeError
	switch {
	case errors.As(err, &large):
		e := executors.Errorf(executors.CodeTooLarge, "%s: %v", field, err)
		e.Field = field
		return nil, e
	case err != nil:
		return nil, executors.Invalid(field, "%v", err)
	}
	return img, nil
}

func (e *Executor) pictureBytes(task executors.Task, p pictureFields) (raw []byte, field string, err error) {
	given := 0
	for _, has := range []bool{p.Image != nil && string(p.Image) != "null", p.Artifact != "", p.ImagePath != ""} {
		if has {
			given++
		}
	}
	if given != 1 {
		e := executors.Invalid("image", "give one of image (base64), artifact and image_path")
		e.Hint = "tasks submit has --attach image=FILE for a file of yours; image_path names one on the worker, below input_roots"
		return nil, "", e
	}
	switch {
	case p.Artifact != "":
		raw, err = readInput(task, "artifact", p.Artifact, vision.MaxBytes)
		return raw, "artifact", err
	case p.ImagePath != "":
		f, err := e.settings.InputRoots.Open(Name, "image_path", p.ImagePath)
		if err != nil {
			return nil, "", err
		}
		defer func() { _ = f.Close() }() // only read
		raw, err = readLimited(f, "image_path", vision.MaxBytes)
		return raw, "image_path", err
	}
	text, ok := rawjson.Text(p.Image)
	if !ok {
		var ref executors.ArtifactRef
		if err := json.Unmarshal(p.Image, &ref); err == nil && ref.Artifact != "" {
			raw, err = readInput(task, "image.artifact", ref.Artifact, vision.MaxBytes)
			return raw, "image", err
		}
		return nil, "", executors.Invalid("image", `must be base64, or {"artifact": "sha256:…"}`)
	}
	if at := strings.Index(text, ";base64,"); at >= 0 && strings.HasPrefix(text, "data:") {
		text = text[at+len(";base64,"):]
	}
	if raw, err = base64.StdEncoding.DecodeString(text); err != nil {
		return nil, "", executors.Invalid("image", "is not base64: %v", err)
	}
	return raw, "image", nil
}

// fit is how a model's card wants pictures.
func fit(card engines.Card) (vision.Fit, error) {
	p := card.Preprocess
	if p == nil {
		return vision.Fit{}, executors.Errorf(executors.CodeModelLoadFailed, "the card of model %s has no preprocess, it does not say how the model wants pictures", card.Name)
	}
	return vision.Fit{
		Width: p.Width, Height: p.Height, Letterbox: p.Fit == engines.FitLetterbox, Channels: p.Channels, NHWC: p.Order == "nhwc",
		Mean: p.Mean, Scale: p.Scale,
	}, nil
}
