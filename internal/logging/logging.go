// Package logging builds the zap logger of our programs.
//
// On a terminal it writes lines for people, elsewhere one JSON object per line.
// Under systemd each line starts with the journal's priority, so that
// `journalctl -p warning` works. Field names are the same everywhere: task,
// queue, worker, attempt, took; the component comes from log.Named.
package logging

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"
)

// Config chooses what is logged and how.
type Config struct {
	// Level is debug, info, warn or error. Default (empty): info.
	Level string `yaml:"level"`

	// Format is auto, console or json. Default (empty): auto, which is console
	// on a terminal and json elsewhere.
	Format string `yaml:"format"`
}

var (
	levels  = []string{"debug", "info", "warn", "error"}
	formats = []string{"auto", "console", "json"}
)

// New returns a logger that writes to w, and its level, which may be changed
// while it runs. Nothing is sampled: each line that is asked for is written.
// Writes of several goroutines do not mix.
func New(cfg Config, w io.Writer) (*zap.Logger, zap.AtomicLevel, error) {
	level, err := ParseLevel(cfg.Level)
	if err != nil {
		return nil, zap.AtomicLevel{}, err
	}
	encoder, err := newEncoder(cfg.Format, w)
	if err != nil {
		return nil, zap.AtomicLevel{}, err
	}
	if onJournal(w) {
		encoder = &journalEncoder{Encoder: encoder}
	}
	atomic := zap.NewAtomicLevelAt(level)
	core := zapcore.NewCore(encoder, zapcore.Lock(writeOnly{w}), atomic)
	// The error output is for failures to write the log itself.
	return zap.New(core, zap.ErrorOutput(zapcore.Lock(writeOnly{w}))), atomic, nil
}

// ParseLevel returns the level named text; empty means info.
func ParseLevel(text string) (zapcore.Level, error) {
	if text == "" {
		return zapcore.InfoLevel, nil
	}
	if !slices.Contains(levels, text) {
		return 0, fmt.Errorf("unknown log level %q (use one of %s)", text, strings.Join(levels, ", "))
	}
	return zapcore.ParseLevel(text)
}

// CheckFormat returns an error if text is no log format; empty means auto.
func CheckFormat(text string) error {
	if text == "" || slices.Contains(formats, text) {
		return nil
	}
	return fmt.Errorf("unknown log format %q (use one of %s)", text, strings.Join(formats, ", "))
}

func newEncoder(format string, w io.Writer) (zapcore.Encoder, error) {
	if err := CheckFormat(format); err != nil {
		return nil, err
	}
	if format == "" || format == "auto" {
		format = "json"
		if isTerminal(w) {
			format = "console"
		}
	}
	if format == "json" {
		return zapcore.NewJSONEncoder(jsonConfig()), nil
	}
	return zapcore.NewConsoleEncoder(consoleConfig(isTerminal(w) && os.Getenv("NO_COLOR") == "")), nil
}

func jsonConfig() zapcore.EncoderConfig {
	return zapcore.EncoderConfig{
		TimeKey: "time", LevelKey: "level", NameKey: "component", MessageKey: "msg",
		EncodeTime:     zapcore.RFC3339NanoTimeEncoder,
		EncodeLevel:    zapcore.LowercaseLevelEncoder,
		EncodeDuration: zapcore.StringDurationEncoder,
	}
}

func consoleConfig(color bool) zapcore.EncoderConfig {
	cfg := jsonConfig()
	cfg.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
	cfg.EncodeLevel = zapcore.CapitalLevelEncoder
	if color {
		cfg.EncodeLevel = zapcore.CapitalColorLevelEncoder
	}
	cfg.ConsoleSeparator = "  "
	return cfg
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// writeOnly is a writer without Sync: syncing a terminal or a pipe always
// fails, and a log file of ours does not exist.
type writeOnly struct{ io.Writer }

func (writeOnly) Sync() error { return nil }
