package engines

import "regexp"

// CardFile is the name of a model's card in its folder.
const CardFile = "model.json"

// The values of Card.Format.
const (
	FormatONNX   = "onnx"
	FormatIR     = "ir" // OpenVINO: an .xml and a .bin
	FormatTFLite = "tflite"
)

// The values of Card.Task: what a model is for.
const (
	TaskEmbed    = "embed"    // text to vector
	TaskDetect   = "detect"   // picture to labelled boxes
	TaskClassify = "classify" // picture to labels
	TaskOCR      = "ocr"      // picture to text: a detector, a recogniser and its characters
	TaskVAD      = "vad"      // sound to probability of speech
	TaskFileType = "filetype" // bytes to kind of file
	TaskTTS      = "tts"      // phonemes to sound
	TaskInfer    = "infer"    // tensors in, tensors out
)

// The values of Card.Layout: the shape of a detector's output, where n is the
// number of candidates and c the number of classes.
const (
	LayoutSSD            = "ssd-mediapipe"   // box encodings [1,n,4] and class logits [1,n,c], anchors as in MediaPipe
	LayoutYOLO           = "yolo"            // [1,4+c,n]: cx, cy, w, h, then scores
	LayoutYOLOTransposed = "yolo-transposed" // [1,n,4+c]: the same the other way round
	LayoutYOLOEnd2End    = "yolo-end2end"    // [1,n,6]: x1, y1, x2, y2, score, class
)

// The values of Preprocess.Fit: how a picture becomes as large as the input.
const (
	FitStretch   = "stretch"   // sides are scaled apart
	FitLetterbox = "letterbox" // sides are scaled alike, the rest is grey
)

// Card describes one model. It is the file model.json of the model's folder;
// every other file of the folder that the model needs is in Files.
type Card struct {
	Name     string `json:"name"` // [a-z0-9._-]{1,64}
	Format   string `json:"format"`
	Task     string `json:"task"`
	Revision string `json:"revision,omitempty"` // of the model, as its source names it
	Licence  string `json:"licence,omitempty"`  // SPDX expression where there is one
	Source   string `json:"source,omitempty"`   // where the files are from

	Files []File `json:"files"`
	Model string `json:"model"`         // file that the engine loads; of task ocr the detector
	OCR   *OCR   `json:"ocr,omitempty"` // only of task ocr

	Inputs  []Port `json:"inputs,omitempty"`
	Outputs []Port `json:"outputs,omitempty"`

	Tokenizer    *Tokenizer `json:"tokenizer,omitempty"`
	Pooling      string     `json:"pooling,omitempty"`       // embed: mean or cls
	Dim          int        `json:"dim,omitempty"`           // embed: length of a vector
	MaxTokens    int        `json:"max_tokens,omitempty"`    // longest input, special tokens included
	StaticShapes []int      `json:"static_shapes,omitempty"` // lengths that devices without dynamic shapes are compiled for, rising

	Labels     string      `json:"labels,omitempty"` // file with the names of the classes, see ReadLabels
	Layout     string      `json:"layout,omitempty"` // of a detector's output
	Preprocess *Preprocess `json:"preprocess,omitempty"`
	Thresholds *Thresholds `json:"thresholds,omitempty"`
	Voice      string      `json:"voice,omitempty"`     // tts: file with phoneme ids, rate and scales
	Precision  string      `json:"precision,omitempty"` // f32 (the default), f16 or bf16
}

// File is one file of a model.
type File struct {
	Name   string `json:"name"`   // in the model's folder, without a path
	SHA256 string `json:"sha256"` // lower-case hexadecimal
	Size   int64  `json:"size"`   // bytes
}

// OCR names the files of a model that reads text.
type OCR struct {
	Detector    string `json:"detector"`              // finds lines: [1,3,H,W] to a map of probabilities
	Recogniser  string `json:"recogniser"`            // reads a line: [1,3,48,W] to CTC classes
	Orientation string `json:"orientation,omitempty"` // says whether a line is upside down
	Keys        string `json:"keys"`                  // the characters, one a line
}

// Port is an input or output of a model.
type Port struct {
	Name  string  `json:"name"`
	Type  string  `json:"type"`  // f32, i64, …
	Shape []int64 `json:"shape"` // -1 is any length
}

// Tokenizer turns text into ids.
type Tokenizer struct {
	Kind  string `json:"kind"`            // wordpiece
	Vocab string `json:"vocab"`           // file, one token a line
	Cased bool   `json:"cased,omitempty"` // keeps capitals and accents
}

// Preprocess says how a picture becomes the input of a model: fitted to Width
// and Height, then value = (value - Mean) / Scale for each channel, values being
// 0 to 255.
type Preprocess struct {
	Width    int       `json:"width"`
	Height   int       `json:"height"`
	Fit      string    `json:"fit"`             // stretch or letterbox
	Channels string    `json:"channels"`        // rgb, bgr or gray
	Order    string    `json:"order"`           // nchw or nhwc
	Mean     []float64 `json:"mean,omitempty"`  // one number, or one for each channel; default 0
	Scale    []float64 `json:"scale,omitempty"` // the same, never 0; default 1
}

// Thresholds are used where a task does not give its own.
type Thresholds struct {
	Score float64 `json:"score"` // least probability of a result, 0 to 1
	IoU   float64 `json:"iou"`   // boxes of one class that overlap more are one, 0 to 1
}

var modelName = regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)

// ValidName reports whether a model may have this name.
func ValidName(name string) bool {
	return modelName.MatchString(name) && name[0] != '.'
}

// file returns one of the card's files.
func (c Card) file(name string) (File, bool) {
	for _, f := range c.Files {
		if f.Name == name {
			return f, true
		}
	}
	return File{}, false
}

// SHA256 returns the checksum of the file that the engine loads: the model's
// identity in caches and results.
func (c Card) SHA256() string {
	f, _ := c.file(c.Model)
	return f.SHA256
}
