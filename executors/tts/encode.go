package tts

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mewkiz/flac"
	"github.com/mewkiz/flac/frame"
	"github.com/mewkiz/flac/meta"

	"github.com/autobot-fleet/autobot/executors"
)

// Formats of the audio file.
const (
	formatWAV  = "wav"
	formatPCM  = "pcm_s16le"
	formatFLAC = "flac"
	formatMP3  = "mp3"
	formatOpus = "opus"
)

// format is one kind of audio file.
type format struct {
	file      string
	mediaType string
	encoder   string                            // program that makes it from a WAV file, "" for our own
	pack      string                            // Debian package of the encoder
	args      func(wav, target string) []string // of the encoder
}

var formats = map[string]format{
	formatWAV:  {file: "speech.wav", mediaType: "audio/wav"},
	formatPCM:  {file: "speech.pcm", mediaType: "application/octet-stream"},
	formatFLAC: {file: "speech.flac", mediaType: "audio/flac"},
	formatMP3: {file: "speech.mp3", mediaType: "audio/mpeg", encoder: "lame", pack: "lame",
		args: func(wav, target string) []string { return []string{"--quiet", "-b", "64", wav, target} }},
	formatOpus: {file: "speech.opus", mediaType: "audio/ogg", encoder: "opusenc", pack: "opus-tools",
		args: func(wav, target string) []string { return []string{"--quiet", "--bitrate", "32", wav, target} }},
}

var formatNames = []string{formatWAV, formatPCM, formatFLAC, formatMP3, formatOpus}

// checkFormatName refuses a format that nobody knows, and one whose encoder is
// not installed, before anything is spoken.
func checkFormatName(name string) error {
	if !slices.Contains(formatNames, name) {
		return executors.Invalid("format", "must be one of %s, got %q", strings.Join(formatNames, ", "), short(name, 80))
	}
	f := formats[name]
	if f.encoder == "" {
		return nil
	}
	if _, err := exec.LookPath(f.encoder); err != nil {
		refusal := executors.Errorf(executors.CodeUnsupported, "format: %s needs the program %s, which is not in PATH", name, f.encoder)
		refusal.Field = "format"
		refusal.Hint = "install it on the worker: apt-get install " + f.pack + "; or use flac, wav or pcm_s16le"
		return refusal
	}
	return nil
}

// file finishes the recording as a file of the format at path. All files but
// path are in the recording's own directory.
func (e *Executor) file(ctx context.Context, rec *recorder, name, path string) error {
	f := formats[name]
	if name == formatWAV || name == formatPCM {
		return rec.finish(path)
	}
	dir := filepath.Dir(rec.path)
	wav, target := filepath.Join(dir, "speech.wav"), filepath.Join(dir, f.file)
	if err := rec.finish(wav); err != nil {
		return err
	}
	var err error
	if f.encoder == "" {
		err = encodeFLAC(ctx, wav, target)
	} else {
		err = runEncoder(ctx, f, wav, target)
	}
	if err != nil {
		return err
	}
	if err := os.Rename(target, path); err != nil {
		return fmt.Errorf("name the audio file: %w", err)
	}
	return nil
}

// runEncoder lets the format's program make target from wav.
func runEncoder(ctx context.Context, f format, wav, target string) error {
	path, err := exec.LookPath(f.encoder)
	if err != nil {
		return fmt.Errorf("find the encoder: %w", err)
	}
	_, stderr, err := program{path: path, args: f.args(wav, target), dir: filepath.Dir(wav)}.run(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return engineError(fmt.Sprintf("%s: %v", f.encoder, err), lastLine(stderr))
	}
	if info, err := os.Stat(target); err != nil || info.Size() == 0 {
		return engineError(f.encoder+" ended well but wrote no file", lastLine(stderr))
	}
	return nil
}

// flacBlock is the number of samples in a FLAC frame, as its reference encoder
// has it.
const flacBlock = 4096

// encodeFLAC makes a FLAC file (RFC 9639) from a mono 16-bit WAV file.
func encodeFLAC(ctx context.Context, wav, target string) error {
	in, err := os.Open(wav)
	if err != nil {
		return fmt.Errorf("open the recording: %w", err)
	}
	defer func() { _ = in.Close() }() // only read
	var header [wavHeaderSize]byte
	if _, err := io.ReadFull(in, header[:]); err != nil {
		return fmt.Errorf("read the recording: %w", err)
	}
	rate := binary.LittleEndian.Uint32(header[24:])
	out, err := os.Create(target)
	if err != nil {
		return fmt.Errorf("create the audio file: %w", err)
	}
	enc, err := flac.NewEncoder(out, &meta.StreamInfo{
		BlockSizeMin: 16, BlockSizeMax: flacBlock, SampleRate: rate, NChannels: 1, BitsPerSample: bitDepth,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("start the FLAC file: %w", err), out.Close())
	}
	if err := copyFLAC(ctx, enc, in, rate); err != nil {
		return errors.Join(err, enc.Close())
	}
	if err := enc.Close(); err != nil {
		return fmt.Errorf("finish the FLAC file: %w", err)
	}
	return nil
}

// copyFLAC encodes all samples of r.
func copyFLAC(ctx context.Context, enc *flac.Encoder, r io.Reader, rate uint32) error {
	block := make([]int32, 0, flacBlock)
	flush := func() error {
		n := len(block)
		if n == 0 {
			return nil
		}
		err := enc.WriteFrame(&frame.Frame{
			Header: frame.Header{HasFixedBlockSize: true, BlockSize: uint16(n), SampleRate: rate, Channels: frame.ChannelsMono, BitsPerSample: bitDepth},
			Subframes: []*frame.Subframe{{
				SubHeader: frame.SubHeader{Pred: frame.PredVerbatim}, Samples: block, NSamples: n,
			}},
		})
		block = block[:0]
		if err != nil {
			return fmt.Errorf("write the FLAC file: %w", err)
		}
		return ctx.Err()
	}
	_, err := readSamples(r, func(samples []int16) error {
		for _, s := range samples {
			if block = append(block, int32(s)); len(block) == flacBlock {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}
