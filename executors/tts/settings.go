package tts

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// Limits and defaults of the settings.
const (
	DefaultVoice    = "en-us"
	DefaultMaxRunes = 5000
	LimitMaxRunes   = 50000
	DefaultMaxBytes = 32 << 20
	LimitMaxBytes   = 2 << 30 // well inside the 32-bit sizes of a WAV header
	LimitConcurrent = 256
)

// Settings is the configuration executors.tts of the agent.
type Settings struct {
	// EspeakPath is the espeak-ng program: a name that is looked up in PATH or
	// an absolute path. Default "espeak-ng".
	EspeakPath string `json:"espeak_path"`

	// EspeakData is the absolute path of the folder espeak-ng-data or of the
	// folder that holds it. Default: the one the program was built with.
	EspeakData string `json:"espeak_data"`

	// DefaultVoice speaks when a task names neither voice nor language.
	// Default "en-us".
	DefaultVoice string `json:"default_voice"`

	// MaxRunes is the longest text in runes, after trimming, 1..50000.
	// Default 5000.
	MaxRunes int `json:"max_runes"`

	// MaxBytes is the largest file of speech in bytes, 64 KiB..2 GiB.
	// Default 32 MiB.
	MaxBytes int64 `json:"max_bytes"`

	// Concurrency is how many tasks run at once, 1..256. Default half the
	// processors, at least 1.
	Concurrency int `json:"concurrency"`
}

// DefaultSettings returns the settings of an executor that nobody configured.
func DefaultSettings() Settings {
	return Settings{
		EspeakPath:   "espeak-ng",
		DefaultVoice: DefaultVoice,
		MaxRunes:     DefaultMaxRunes,
		MaxBytes:     DefaultMaxBytes,
		Concurrency:  max(1, runtime.GOMAXPROCS(0)/2),
	}
}

var voiceGrammar = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

// Validate reports everything that is wrong with s at once.
func (s Settings) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case s.EspeakPath == "":
		bad("executors.tts.espeak_path: must not be empty")
	case strings.ContainsRune(s.EspeakPath, filepath.Separator) && !filepath.IsAbs(s.EspeakPath):
		bad("executors.tts.espeak_path: %q must be a bare name or an absolute path", s.EspeakPath)
	}
	if s.EspeakData != "" && !filepath.IsAbs(s.EspeakData) {
		bad("executors.tts.espeak_data: %q must be an absolute path", s.EspeakData)
	}
	if !voiceGrammar.MatchString(s.DefaultVoice) {
		bad("executors.tts.default_voice: %q must match [a-z0-9_-]{1,64}", s.DefaultVoice)
	}
	if s.MaxRunes < 1 || s.MaxRunes > LimitMaxRunes {
		bad("executors.tts.max_runes: %d must be between 1 and %d", s.MaxRunes, LimitMaxRunes)
	}
	if s.MaxBytes < 64<<10 || s.MaxBytes > LimitMaxBytes {
		bad("executors.tts.max_bytes: %d must be between %d and %d", s.MaxBytes, 64<<10, int64(LimitMaxBytes))
	}
	if s.Concurrency < 1 || s.Concurrency > LimitConcurrent {
		bad("executors.tts.concurrency: %d must be between 1 and %d", s.Concurrency, LimitConcurrent)
	}
	return errors.Join(errs...)
}
