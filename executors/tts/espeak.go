package tts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

const (
	espeakName = "espeak-ng"
	espeakRate = 22050 // Hz, compiled into it
	espeakHint = "install it: apt-get install espeak-ng"

	// voicesFor is how long a list of voices is believed; Probe renews it.
	voicesFor = time.Minute
)

// Espeak is the engine espeak-ng, run as a program: one child process for each
// segment. It is never linked or loaded.
type Espeak struct {
	path        string
	data        string
	concurrency int

	mu     sync.Mutex
	voices []Voice
	read   time.Time
}

// NewEspeak returns the engine as s configures it. It starts nothing: whether
// the program is there and works is what Probe tells.
func NewEspeak(s Settings) *Espeak {
	return &Espeak{path: s.EspeakPath, data: s.EspeakData, concurrency: s.Concurrency}
}

// Name returns "espeak-ng".
func (e *Espeak) Name() string { return espeakName }

// Concurrency is as configured: each segment has a process of its own.
func (e *Espeak) Concurrency() int { return e.concurrency }

var espeakVersion = regexp.MustCompile(`text-to-speech:\s*(\S+)`)

// Probe finds the program and its data, asks it for its version and renews the
// list of voices.
func (e *Espeak) Probe(ctx context.Context) (string, error) {
	out, err := e.query(ctx, "--version")
	if err != nil {
		return "", err
	}
	m := espeakVersion.FindStringSubmatch(out)
	if m == nil {
		return "", unavailable("%s is not espeak-ng: it does not tell its version", e.path)
	}
	if _, err := e.loadVoices(ctx); err != nil {
		return "", err
	}
	return m[1], nil
}

// Voices lists the installed voices without those of MBROLA, whose data is
// another program's.
func (e *Espeak) Voices(ctx context.Context) ([]Voice, error) {
	e.mu.Lock()
	voices, fresh := e.voices, time.Since(e.read) < voicesFor
	e.mu.Unlock()
	if fresh && len(voices) > 0 {
		return voices, nil
	}
	return e.loadVoices(ctx)
}

func (e *Espeak) loadVoices(ctx context.Context) ([]Voice, error) {
	out, err := e.query(ctx, "--voices")
	if err != nil {
		return nil, err
	}
	voices := parseVoices(out)
	if len(voices) == 0 {
		return nil, unavailable("%s lists no voices: its data is missing (install it: apt-get install espeak-ng-data, or set executors.tts.espeak_data)", e.path)
	}
	e.mu.Lock()
	e.voices, e.read = voices, time.Now()
	e.mu.Unlock()
	return voices, nil
}

// query runs espeak-ng for its output.
func (e *Espeak) query(ctx context.Context, arg string) (string, error) {
	c, err := e.command(arg)
	if err != nil {
		return "", err
	}
	out, _, err := c.run(ctx)
	if err != nil {
		return "", e.fault(ctx, err)
	}
	return out, nil
}

// Synthesize speaks s in a process of its own. The text goes in by stdin, never
// as an argument, and the audio comes as a file in s.Dir that is gone when
// Synthesize returns. espeak-ng exits with 0 after many faults, so success is
// exit 0 and a WAV file with at least one sample.
func (e *Espeak) Synthesize(ctx context.Context, s Segment, emit func([]int16) error) (err error) {
	wav := filepath.Join(s.Dir, "segment.wav")
	args := []string{
		"-b", "1", // UTF-8
		"-v", s.Voice.engineName,
		"-s", strconv.Itoa(s.RateWPM),
		"-p", strconv.Itoa(s.Pitch),
		"-a", strconv.Itoa(int(math.Round(s.Volume * 100))),
		"-w", wav,
	}
	if s.Continues {
		args = append(args, "-z") // no sentence pause at the end
	}
	c, err := e.command(append(args, "--stdin")...)
	if err != nil {
		return err
	}
	c.dir = s.Dir
	c.stdin = literal(s.Text) + "\n"
	defer func() {
		if rmErr := os.Remove(wav); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) && err == nil {
			err = fmt.Errorf("remove the engine's file: %w", rmErr)
		}
	}()
	_, stderr, err := c.run(ctx)
	if err != nil {
		return e.fault(ctx, err)
	}
	return e.collect(wav, stderr, emit)
}

// collect reads the engine's file.
func (e *Espeak) collect(wav, stderr string, emit func([]int16) error) error {
	f, err := os.Open(wav)
	if err != nil {
		return engineError("espeak-ng ended well but wrote no audio", lastLine(stderr))
	}
	defer func() { _ = f.Close() }() // only read
	var failed error
	n, err := readWAV(f, espeakRate, func(frame []int16) error {
		failed = emit(frame)
		return failed
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return engineError(fmt.Sprintf("espeak-ng: %v", err), lastLine(stderr))
	case n == 0:
		return engineError("espeak-ng wrote a WAV file without a single sample", lastLine(stderr))
	}
	return nil
}

// literal keeps espeak-ng from taking "[[...]]" for phoneme names, which it
// does even without being asked.
func literal(text string) string {
	for strings.Contains(text, "[[") {
		text = strings.ReplaceAll(text, "[[", "[ [")
	}
	return text
}

// command prepares a run of espeak-ng. An error says what is missing.
func (e *Espeak) command(args ...string) (program, error) {
	path, err := exec.LookPath(e.path)
	if err != nil {
		return program{}, e.notFound(err)
	}
	if e.data != "" {
		dir, err := e.dataParent()
		if err != nil {
			return program{}, err
		}
		args = append([]string{"--path=" + dir}, args...)
	}
	return program{path: path, args: args, dir: "/"}, nil
}

func (e *Espeak) notFound(err error) error {
	if !filepath.IsAbs(e.path) {
		return unavailable("%s not found in PATH (%s)", e.path, espeakHint)
	}
	if errors.Is(err, fs.ErrPermission) {
		return unavailable("%s may not be executed by this user (executors.tts.espeak_path)", e.path)
	}
	return unavailable("%s does not exist (%s, or correct executors.tts.espeak_path)", e.path, espeakHint)
}

// dataParent returns the folder that holds espeak-ng-data. It is checked here,
// because espeak-ng silently goes on with its own data when it is wrong.
func (e *Espeak) dataParent() (string, error) {
	for _, parent := range []string{e.data, filepath.Dir(filepath.Clean(e.data))} {
		if _, err := os.Stat(filepath.Join(parent, "espeak-ng-data", "phontab")); err == nil {
			return parent, nil
		}
	}
	return "", unavailable("no espeak-ng-data with a file phontab at %s (correct executors.tts.espeak_data, or leave it out)", e.data)
}

// fault turns the end of a child into the error that users see.
func (e *Espeak) fault(ctx context.Context, err error) error {
	var ended *exitError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &ended):
		return engineError("espeak-ng ended with "+ended.Error(), ended.stderr)
	}
	return unavailable("%s does not start: %v", e.path, err)
}

func unavailable(format string, args ...any) error {
	return executors.Errorf(executors.CodeEngineUnavailable, format, args...)
}

func engineError(message, detail string) error {
	err := executors.Errorf(executors.CodeEngineError, "%s", message)
	err.Detail = detail
	return err
}

// A line of "espeak-ng --voices": priority, language, age/gender, name, file,
// and further languages as "(en-gb 3)".
var (
	voiceLine     = regexp.MustCompile(`^\s*(\d+)\s+(\S+)\s+(\S+)\s+(\S.*?)\s+(\S+)\s*((?:\([^)]*\)\s*)*)$`)
	voiceLanguage = regexp.MustCompile(`\((\S+)\s+(\d+)\)`)
)

// parseVoices reads the list of voices. A voice is called by its language; when
// two share one, the second is called by its file.
func parseVoices(list string) []Voice {
	var out []Voice
	taken := map[string]bool{}
	for line := range strings.Lines(list) {
		m := voiceLine.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil || strings.HasPrefix(m[5], "mb/") {
			continue
		}
		v := Voice{
			Name:       strings.TrimSpace(strings.ReplaceAll(m[4], "_", " ")),
			Language:   strings.ToLower(m[2]),
			SampleRate: espeakRate,
			engineName: m[5],
			priorities: map[string]int{},
		}
		v.Priority, _ = strconv.Atoi(m[1]) // digits by the expression; a huge one counts as 0
		switch {
		case strings.HasSuffix(m[3], "/M"):
			v.Gender = "male"
		case strings.HasSuffix(m[3], "/F"):
			v.Gender = "female"
		}
		for _, l := range voiceLanguage.FindAllStringSubmatch(m[6], -1) {
			tag := strings.ToLower(l[1])
			v.Languages = append(v.Languages, tag)
			v.priorities[tag], _ = strconv.Atoi(l[2])
		}
		v.ID = v.Language
		if taken[v.ID] {
			v.ID = strings.ToLower(filepath.Base(m[5]))
		}
		if taken[v.ID] || !voiceGrammar.MatchString(v.ID) {
			continue // could not be asked for
		}
		taken[v.ID] = true
		out = append(out, v)
	}
	return out
}
