package tts

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// silencePeak is -60 dBFS as a sample value: a recording that stays below it is
// not made louder, because that would only amplify noise.
const silencePeak = 32767.0 / 1000

// recorder writes one recording: samples go in at the engine's rate, a finished
// file comes out. It holds a few buffers in memory, never the recording.
type recorder struct {
	file   *os.File
	buf    *bufio.Writer
	path   string // of the unfinished file
	header int64  // bytes before the samples, 0 for raw PCM
	limit  int64  // bytes of the whole file

	from, to int
	filter   *resampler // nil when from == to

	in    int64 // samples taken
	out   int64 // samples written
	peak  int
	bytes []byte // of the frame being written
}

// newRecorder starts a recording in dir. format formatPCM writes bare samples,
// any other a WAV file; limit is the largest file in bytes.
func newRecorder(dir, format string, from, to int, limit int64) (*recorder, error) {
	f, err := os.CreateTemp(dir, ".recording-*")
	if err != nil {
		return nil, fmt.Errorf("create the audio file: %w", err)
	}
	r := &recorder{file: f, buf: bufio.NewWriterSize(f, 64<<10), path: f.Name(), limit: limit, from: from, to: to}
	if from != to {
		r.filter = newResampler(from, to)
	}
	if format != formatPCM {
		r.header = wavHeaderSize
		if _, err := r.buf.Write(make([]byte, wavHeaderSize)); err != nil {
			return nil, errors.Join(err, r.discard())
		}
	}
	return r, nil
}

// write adds a frame of samples at the engine's rate.
func (r *recorder) write(frame []int16) error {
	r.in += int64(len(frame))
	if r.filter != nil {
		frame = r.filter.write(frame)
	}
	return r.append(frame)
}

// silence adds exactly d of silence, to the sample of the engine's rate.
func (r *recorder) silence(d time.Duration) error {
	var zeros [4096]int16
	for left := int64(math.Round(d.Seconds() * float64(r.from))); left > 0; {
		n := min(left, int64(len(zeros)))
		if err := r.write(zeros[:n]); err != nil {
			return err
		}
		left -= n
	}
	return nil
}

func (r *recorder) append(frame []int16) error {
	r.out += int64(len(frame))
	if r.size() > r.limit {
		err := executors.Errorf(executors.CodeTooLarge, "the speech is larger than %d bytes (executors.tts.max_bytes)", r.limit)
		err.Hint = "send less text, or ask for a lower sample_rate or a higher rate_wpm"
		return err
	}
	r.bytes = r.bytes[:0]
	for _, s := range frame {
		r.peak = max(r.peak, int(s), -int(s))
		r.bytes = binary.LittleEndian.AppendUint16(r.bytes, uint16(s))
	}
	if _, err := r.buf.Write(r.bytes); err != nil {
		return fmt.Errorf("write the audio file: %w", err)
	}
	return nil
}

func (r *recorder) size() int64 { return r.header + r.out*bytesPerSample }

// position is how much has been recorded so far, to the sample of the engine.
func (r *recorder) position() time.Duration {
	return samplesToTime(r.in, r.from)
}

// duration is the length of the finished recording.
func (r *recorder) duration() time.Duration {
	return samplesToTime(r.out, r.to)
}

func samplesToTime(n int64, rate int) time.Duration {
	return time.Duration(float64(n) / float64(rate) * float64(time.Second))
}

// drain writes what the resampler still holds. No write may follow.
func (r *recorder) drain() error {
	if r.filter != nil {
		if err := r.append(r.filter.flush()); err != nil {
			return err
		}
	}
	if err := r.buf.Flush(); err != nil {
		return fmt.Errorf("write the audio file: %w", err)
	}
	return nil
}

// quiet reports whether the recording stays below -60 dBFS.
func (r *recorder) quiet() bool { return float64(r.peak) < silencePeak }

// scale makes the loudest sample level times full scale, 0 < level <= 1. It
// goes over the file on disk a second time. stop is asked now and then.
func (r *recorder) scale(level float64, stop func() error) error {
	gain := level * math.MaxInt16 / float64(r.peak)
	chunk := make([]byte, 64<<10)
	for at, end := r.header, r.size(); at < end; at += int64(len(chunk)) {
		if err := stop(); err != nil {
			return err
		}
		part := chunk[:min(int64(len(chunk)), end-at)]
		if _, err := r.file.ReadAt(part, at); err != nil {
			return fmt.Errorf("read the audio file again: %w", err)
		}
		for i := 0; i < len(part); i += bytesPerSample {
			s := int16(binary.LittleEndian.Uint16(part[i:]))
			binary.LittleEndian.PutUint16(part[i:], uint16(clip(float64(s)*gain)))
		}
		if _, err := r.file.WriteAt(part, at); err != nil {
			return fmt.Errorf("write the audio file: %w", err)
		}
	}
	return nil
}

// finish writes the header and moves the file to path, on the same disk. The
// agent makes artifacts durable when it takes them; once is enough.
func (r *recorder) finish(path string) error {
	if r.header > 0 {
		if _, err := r.file.WriteAt(wavHeader(r.to, uint32(r.out*bytesPerSample)), 0); err != nil {
			return fmt.Errorf("write the WAV header: %w", err)
		}
	}
	if err := r.file.Close(); err != nil {
		return fmt.Errorf("close the audio file: %w", err)
	}
	if err := os.Rename(r.path, path); err != nil {
		return fmt.Errorf("name the audio file: %w", err)
	}
	return nil
}

// discard removes an unfinished recording. After finish it does nothing.
func (r *recorder) discard() error {
	err := r.file.Close()
	if errors.Is(err, fs.ErrClosed) {
		err = nil
	}
	if rmErr := os.Remove(r.path); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
		err = errors.Join(err, rmErr)
	}
	return err
}
