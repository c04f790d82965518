package logging

import (
	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
)

// journalEncoder puts the journal's priority, "<N>", before each line. Without
// it the journal takes every line for level info.
type journalEncoder struct{ zapcore.Encoder }

func (e *journalEncoder) Clone() zapcore.Encoder {
	return &journalEncoder{Encoder: e.Encoder.Clone()}
}

func (e *journalEncoder) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	line, err := e.Encoder.EncodeEntry(entry, fields)
	if err != nil {
		return nil, err
	}
	defer line.Free()
	out := buffers.Get()
	out.AppendString(priority(entry.Level))
	_, _ = out.Write(line.Bytes()) // a memory buffer cannot fail
	return out, nil
}

var buffers = buffer.NewPool()

// priority maps a level to the numbers of syslog.
func priority(level zapcore.Level) string {
	switch {
	case level < zapcore.InfoLevel:
		return "<7>"
	case level < zapcore.WarnLevel:
		return "<6>"
	case level < zapcore.ErrorLevel:
		return "<4>"
	case level < zapcore.DPanicLevel:
		return "<3>"
	default:
		return "<2>"
	}
}
