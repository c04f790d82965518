package tts

import "context"

// An Engine speaks. The executor owns everything around it: validation,
// normalisation, segmentation, progress, file format and limits.
type Engine interface {
	// Name is what results and status call the engine, for example "espeak-ng".
	Name() string

	// Probe reports the engine's version, or why it cannot work here as an
	// error that says what is missing and how to get it. It is cheap enough to
	// be called whenever the agent asks.
	Probe(ctx context.Context) (version string, err error)

	// Voices lists the voices that are installed now.
	Voices(ctx context.Context) ([]Voice, error)

	// Synthesize speaks s and hands the samples to emit as mono frames of
	// signed 16-bit samples at SampleRate, in order. A frame is valid only
	// during the call. An error of emit ends the synthesis and is returned.
	// When Synthesize returns, nothing of the engine runs any more for it.
	Synthesize(ctx context.Context, s Segment, emit func(frame []int16) error) error

	// Concurrency is how many segments it may speak at once; 1 for an engine
	// that is not re-entrant.
	Concurrency() int
}

// Segment is one piece of text for an engine, with the way to speak it.
type Segment struct {
	Text      string  // valid UTF-8 without control characters, not blank
	Voice     Voice   // one of Engine.Voices
	RateWPM   int     // words per minute, 80..450
	Pitch     int     // 0..99, 50 is the voice's own
	Volume    float64 // 0..2, 1 is the voice's own; an engine that is at full scale stays there
	Continues bool    // the sentence goes on in the next segment: no pause after this one
	Dir       string  // private directory for the engine's temporary files
}

// Voice is an installed voice.
type Voice struct {
	ID        string   // what a payload's field voice says, [a-z0-9_-]{1,64}
	Name      string   // for people
	Language  string   // BCP-47, lower case
	Languages []string // further languages it serves, best first
	Gender    string   // male, female, or empty
	Priority  int      // the engine's preference for Language, lower is better

	SampleRate int  // of its samples, in Hz
	OnePitch   bool // it speaks in its own pitch only

	priorities map[string]int // of Languages
	engineName string         // what the engine itself calls the voice
	booth      *booth         // the engine, filled in by the executor
}

// booth is an engine with as many slots as it may speak segments at once.
type booth struct {
	Engine
	slots chan struct{}
}

func newBooth(e Engine) *booth {
	return &booth{Engine: e, slots: make(chan struct{}, max(1, e.Concurrency()))}
}

// speak waits until the engine is free and speaks one segment.
func (b *booth) speak(ctx context.Context, s Segment, emit func([]int16) error) error {
	select {
	case b.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-b.slots }()
	return b.Synthesize(ctx, s, emit)
}
