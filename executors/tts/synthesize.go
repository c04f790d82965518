package tts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/autobot-fleet/autobot/executors"
)

// Stages of a synthesis, as progress reports them.
const (
	stageLoad       = "load"
	stageNormalize  = "normalize"
	stageSynthesize = "synthesize"
	stageEncode     = "encode"
)

const freeHint = "free some disk space on the worker"

// freeReserve is the disk space that is left alone, in bytes.
const freeReserve = 16 << 20

// leastAudio is the shortest audio that a segment with a letter or a digit in
// it can have; espeak-ng answers with 7 ms when it had nothing to say.
const leastAudio = 10 * time.Millisecond

// speech is the output of op synthesize.
type speech struct {
	DurationMS int64           `json:"duration_ms"`
	SampleRate int             `json:"sample_rate"`
	Channels   int             `json:"channels"`
	BitDepth   int             `json:"bit_depth"`
	Voice      string          `json:"voice"`
	Engine     string          `json:"engine"`
	Chars      int             `json:"chars"` // runes of the text as it was sent, trimmed
	Segments   []spokenSegment `json:"segments"`
}

// spokenSegment is where one segment is in the recording.
type spokenSegment struct {
	Index      int   `json:"index"`
	TextChars  int   `json:"text_chars"` // runes as spoken, after normalisation
	StartMS    int64 `json:"start_ms"`
	DurationMS int64 `json:"duration_ms"`
}

// synthesize speaks a text into a file in the task's spool directory.
func (e *Executor) synthesize(ctx context.Context, task executors.Task, req request) (executors.Result, error) {
	began := time.Now()
	task.Progress(executors.Progress{Stage: stageLoad})
	voices, err := e.catalogue(ctx)
	if err != nil {
		return executors.Result{}, err
	}
	j, err := req.check(task.Payload, voices, e.settings.MaxRunes)
	if err != nil {
		return executors.Result{}, err
	}
	load := time.Since(began)

	task.Progress(executors.Progress{Percent: 1, Stage: stageNormalize})
	pieces := j.plan()
	if countSpoken(pieces) == 0 {
		err := executors.Invalid("text", "nothing is left to speak after normalisation")
		err.Hint = "set normalize to false to have the marks spoken"
		return executors.Result{}, err
	}
	if err := e.enoughSpace(task.SpoolDir, j, silence(pieces)); err != nil {
		return executors.Result{}, err
	}
	out, warnings, err := e.record(ctx, task, j, pieces)
	if err != nil {
		return executors.Result{}, diskFull(err)
	}
	res, err := result(opSynthesize, out)
	res.Warnings, res.Load = warnings, load
	return res, err
}

// record speaks the pieces one after the other and announces the file. Nothing
// is left in the spool directory when it fails.
func (e *Executor) record(ctx context.Context, task executors.Task, j job, pieces []piece) (_ *speech, _ []executors.Warning, err error) {
	dir, err := os.MkdirTemp(task.SpoolDir, ".segments-")
	if err != nil {
		return nil, nil, fmt.Errorf("create a directory for segments: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	rec, err := newRecorder(dir, j.format, j.voice.SampleRate, j.sampleRate, e.settings.MaxBytes)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, rec.discard()) }()

	out := &speech{
		SampleRate: j.sampleRate, Channels: 1, BitDepth: bitDepth,
		Voice: j.voice.ID, Engine: j.voice.booth.Name(), Chars: utf8.RuneCountInString(j.text),
	}
	warnings, err := e.speakAll(ctx, task, j, pieces, dir, rec, out)
	if err != nil {
		return nil, nil, err
	}
	task.Progress(executors.Progress{Percent: 95, Stage: stageEncode})
	more, err := e.encode(ctx, task, j, rec, out)
	return out, append(warnings, more...), err
}

// speakAll lets the engine speak every piece into rec.
func (e *Executor) speakAll(ctx context.Context, task executors.Task, j job, pieces []piece, dir string, rec *recorder, out *speech) ([]executors.Warning, error) {
	var silent []int
	total, spoken := countSpoken(pieces), ""
	for _, p := range pieces {
		if p.text == "" {
			if err := rec.silence(p.silence); err != nil {
				return nil, err
			}
			continue
		}
		i := len(out.Segments)
		task.Progress(executors.Progress{
			Percent: 2 + 92*i/total, Stage: stageSynthesize, Done: int64(i), Total: int64(total), Unit: "segment", Message: spoken,
		})
		start, before := rec.position(), rec.in
		if err := j.voice.booth.speak(ctx, j.segment(p, dir), rec.write); err != nil {
			return nil, inSegment(i, total, err)
		}
		end := rec.position()
		if rec.in == before {
			return nil, inSegment(i, total, engineError(j.voice.booth.Name()+" returned no audio", ""))
		}
		spoken = fmt.Sprintf("segment %d is spoken: %d ms from %d ms", i, (end - start).Milliseconds(), start.Milliseconds())
		if hasWord(p.text) && end-start < leastAudio {
			silent = append(silent, i)
		}
		out.Segments = append(out.Segments, spokenSegment{
			Index: i, TextChars: utf8.RuneCountInString(p.text),
			StartMS: start.Milliseconds(), DurationMS: end.Milliseconds() - start.Milliseconds(),
		})
	}
	task.Progress(executors.Progress{
		Percent: 94, Stage: stageSynthesize, Done: int64(total), Total: int64(total), Unit: "segment", Message: spoken,
	})
	if len(silent) == 0 {
		return nil, nil
	}
	return []executors.Warning{{
		Code: "SEGMENT_SILENT",
		Message: fmt.Sprintf("%d of %d segments, the first is %d, have text but no sound: voice %s may not know its script",
			len(silent), total, silent[0], j.voice.ID),
	}}, nil
}

// inSegment says in which segment an error happened.
func inSegment(i, n int, err error) error {
	var known *executors.Error
	if errors.As(err, &known) {
		at := *known
		at.Message = fmt.Sprintf("segment %d of %d: %s", i+1, n, known.Message)
		return &at
	}
	return fmt.Errorf("segment %d of %d: %w", i+1, n, err)
}

// encode finishes the file and hands it over.
func (e *Executor) encode(ctx context.Context, task executors.Task, j job, rec *recorder, out *speech) ([]executors.Warning, error) {
	if err := rec.drain(); err != nil {
		return nil, err
	}
	var warnings []executors.Warning
	switch {
	case rec.peak == 0 && j.volume > 0:
		return nil, executors.Invalid("text", "voice %s has nothing to say for it, only silence came out", j.voice.ID)
	case j.peakNormalize > 0 && rec.quiet():
		warnings = append(warnings, executors.Warning{
			Code: "PEAK_NORMALIZE_SKIPPED", Message: "the speech is quieter than -60 dBFS and was not made louder",
		})
	case j.peakNormalize > 0:
		if err := rec.scale(j.peakNormalize, ctx.Err); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a := artifact(j.format, j.sampleRate, rec.duration())
	if err := e.file(ctx, rec, j.format, filepath.Join(task.SpoolDir, a.Name)); err != nil {
		return nil, err
	}
	out.DurationMS = rec.duration().Milliseconds()
	task.Artifact(a)
	task.Progress(executors.Progress{Percent: 100, Stage: stageEncode})
	return warnings, nil
}

func artifact(format string, rate int, length time.Duration) executors.Artifact {
	f := formats[format]
	a := executors.Artifact{
		Name: f.file, Kind: "audio", MediaType: f.mediaType,
		Meta: map[string]string{
			"sample_rate": strconv.Itoa(rate), "channels": "1", "bit_depth": strconv.Itoa(bitDepth),
			"duration_ms": strconv.FormatInt(length.Milliseconds(), 10),
		},
	}
	if format != formatWAV {
		a.Meta["encoding"] = format
	}
	return a
}

// enoughSpace looks before the work whether the disk will take the recording.
// A rune takes some 62 ms at 175 words a minute.
func (e *Executor) enoughSpace(dir string, j job, pauses time.Duration) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("look at the free space of the spool: %w", err)
	}
	perRune := 0.062 * 175 / float64(j.rateWPM) * float64(j.sampleRate*bytesPerSample)
	paused := pauses.Seconds() * float64(j.sampleRate*bytesPerSample)
	need := int64(float64(utf8.RuneCountInString(j.text))*perRune+paused) + freeReserve
	if free := int64(fs.Bavail) * fs.Bsize; free < need {
		err := executors.Errorf(executors.CodeResourceExhausted, "the spool has %d bytes free, about %d are needed", free, need)
		err.Hint = freeHint
		return err
	}
	return nil
}

// diskFull gives a full disk its code.
func diskFull(err error) error {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	full := executors.Errorf(executors.CodeResourceExhausted, "the spool is full: %v", err)
	full.Hint = freeHint
	return full
}

// hasWord reports whether there is a letter or a digit in s.
func hasWord(s string) bool {
	for _, r := range s {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return true
		}
	}
	return false
}
