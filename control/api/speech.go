package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/autobot-fleet/autobot/queue"
)

// SpeechRequest is the body of POST /v1/audio/speech, as clients of the OpenAI
// API send it: https://platform.openai.com/docs/api-reference/audio/createSpeech.
type SpeechRequest struct {
	Model          string   `json:"model"` // tts, or a name in speechModels
	Input          string   `json:"input"`
	Voice          string   `json:"voice"`           // an id of op list_voices; "" or default: the workers' default
	ResponseFormat string   `json:"response_format"` // "": mp3
	Speed          *float64 `json:"speed"`           // 1 is the voice's own
	Instructions   string   `json:"instructions"`    // refused unless empty: no voice here takes any
	StreamFormat   string   `json:"stream_format"`   // "" or audio
}

const (
	speechType    = "tts"
	speechFormat  = "mp3"
	wordsAtOne    = 175    // rate_wpm of speed 1
	slowestWords  = 80     // the limits of rate_wpm
	fastestWords  = 450    //
	pcmRate       = 24_000 // Hz of response_format pcm
	speechTTL     = 3600   // seconds that the audio is kept
	speechLeast   = 0.25   // of speed, as the API has it
	speechMost    = 4      //
	speechHeader  = "X-Task-ID"
	cancelTimeout = 10 * time.Second // of the cancel for a caller who has gone
)

// speechModels are accepted as the model. All mean the task type tts: it is the
// voice that decides which engine speaks.
var speechModels = []string{speechType, "tts-1", "tts-1-hd"}

// speechFormats maps response_format to the format of a task.
var speechFormats = map[string]string{"mp3": "mp3", "opus": "opus", "flac": "flac", "wav": "wav", "pcm": "pcm_s16le"}

// speechMedia maps response_format to the media type of the answer.
var speechMedia = map[string]string{"mp3": "audio/mpeg", "opus": "audio/ogg", "flac": "audio/flac", "wav": "audio/wav", "pcm": "audio/pcm"}

// speech serves POST /v1/audio/speech: it submits a task of type tts, waits for
// it and answers with the audio. A caller who goes away cancels the task; one
// for whom it takes too long gets 504 with its id, and the task goes on.
func (a *API) speech(w http.ResponseWriter, r *http.Request) error {
	if a.Artifacts == nil {
		return missing("the artifact store")
	}
	body, err := readBody(w, r, maxBody)
	if err != nil {
		return err
	}
	var req SpeechRequest
	if _, err := decodeObject(body, "", &req); err != nil {
		return err
	}
	s, err := req.submission()
	if err != nil {
		return err
	}
	ctl := http.NewResponseController(w)
	_ = ctl.SetReadDeadline(time.Time{}) // the limit for a request would look like a caller who has gone
	_ = ctl.SetWriteDeadline(time.Now().Add(a.tune.speech + writeTimeout))
	w.Header().Set(speechHeader, s.ID)
	sum, err := a.speak(r.Context(), s)
	if err != nil {
		if r.Context().Err() != nil {
			a.abandon(r.Context(), s.ID)
		}
		return err
	}
	// The store answers a request for a whole file, whatever this one asks for.
	get := r.Clone(r.Context())
	get.Method, get.URL.RawQuery, get.Header = http.MethodGet, "", http.Header{}
	if err := a.Artifacts.Get(&typed{w, speechMedia[req.format()]}, get, sum); err != nil {
		p := translate(err)
		if p.status == http.StatusNotFound {
			return refuse(http.StatusBadGateway, "task %s has spoken, but its worker did not bring the audio here (set control.url on the agents)", s.ID)
		}
		return err
	}
	return nil
}

func (req SpeechRequest) format() string {
	if req.ResponseFormat == "" {
		return speechFormat
	}
	return req.ResponseFormat
}

// submission is the task for a request, or says what is wrong with it. What the
// workers know better (voices, encoders, length) they check.
func (req SpeechRequest) submission() (queue.Submission, error) {
	format := req.format()
	switch {
	case req.Model != "" && !slices.Contains(speechModels, req.Model):
		p := refuse(http.StatusNotFound, "model: there is no %q%s: the voice decides which engine speaks", show(req.Model), suggest(req.Model, speechModels))
		p.param, p.code = "model", "model_not_found"
		return queue.Submission{}, p
	case strings.TrimSpace(req.Input) == "":
		return queue.Submission{}, invalid("input", "is required: the text to speak")
	case speechFormats[format] == "":
		known := make([]string, 0, len(speechFormats))
		for name := range speechFormats {
			known = append(known, name)
		}
		slices.Sort(known)
		return queue.Submission{}, invalid("response_format", "%q is not supported; there are %s", show(format), strings.Join(known, ", "))
	case req.Instructions != "":
		return queue.Submission{}, invalid("instructions", "no voice here takes instructions: leave them out")
	case req.StreamFormat != "" && req.StreamFormat != "audio":
		return queue.Submission{}, invalid("stream_format", "%q is not supported; there is audio", show(req.StreamFormat))
	}
	payload := map[string]any{
		"op": "synthesize", "text": req.Input, "format": speechFormats[format], "artifacts": map[string]any{"ttl_s": speechTTL},
	}
	if format == "pcm" {
		payload["sample_rate"] = pcmRate
	}
	if req.Voice != "" && req.Voice != "default" {
		payload["voice"] = req.Voice
	}
	if req.Speed != nil {
		words, err := wordsFor(*req.Speed)
		if err != nil {
			return queue.Submission{}, err
		}
		payload["rate_wpm"] = words
	}
	raw, err := json.Marshal(payload)
	if err != nil {
		return queue.Submission{}, fmt.Errorf("write the payload: %w", err)
	}
	s := queue.Submission{ID: uuid.NewString(), Type: speechType, Payload: raw, Labels: map[string]string{"via": "audio/speech"}}
	return s, s.Validate()
}

// wordsFor turns a speed into words per minute.
func wordsFor(speed float64) (int, error) {
	if !(speed >= speechLeast && speed <= speechMost) {
		return 0, invalid("speed", "must be %v to %v, got %v", speechLeast, speechMost, speed)
	}
	words := int(math.Round(speed * wordsAtOne))
	if words < slowestWords || words > fastestWords {
		return 0, invalid("speed", "the voices here speak at %.2f to %.2f times their speed, got %v", slowestWords/float64(wordsAtOne), fastestWords/float64(wordsAtOne), speed)
	}
	return words, nil
}

// speak runs the task and returns the sha256 of its audio.
func (a *API) speak(ctx context.Context, s queue.Submission) (string, error) {
	receipt, err := a.Queue.Submit(ctx, s)
	if err != nil {
		return "", submitError(err, s)
	}
	if err := a.await(ctx, receipt); err != nil {
		return "", err
	}
	doc, err := a.Queue.Result(ctx, s.ID)
	var failed *queue.FailedError
	if errors.As(err, &failed) {
		return "", speechFailure(s.ID, failed)
	}
	if err != nil {
		return "", err
	}
	var result struct {
		Artifacts []struct {
			Kind   string `json:"kind"`
			SHA256 string `json:"sha256"`
		} `json:"artifacts"`
	}
	_ = json.Unmarshal(safeJSON(doc), &result) // a foreign worker may have written anything
	for _, f := range result.Artifacts {
		if f.Kind == "audio" {
			return f.SHA256, nil
		}
	}
	return "", refuse(http.StatusBadGateway, "task %s left no audio: its worker speaks another protocol", s.ID)
}

// abandon cancels the task of a caller who has gone.
func (a *API) abandon(gone context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(gone), cancelTimeout)
	defer cancel()
	// A task that has ended, or was never accepted, needs no cancel.
	_, _ = a.Queue.Cancel(ctx, id, caller(gone))
}

// typed is an answer whose media type is what was asked for: for samples the
// store knows only that they are bytes.
type typed struct {
	http.ResponseWriter
	mediaType string
}

func (t *typed) Unwrap() http.ResponseWriter { return t.ResponseWriter }

func (t *typed) WriteHeader(status int) {
	t.Header().Set("Content-Type", t.mediaType)
	t.ResponseWriter.WriteHeader(status)
}
