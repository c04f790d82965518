package tts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// wavHeaderSize is the size of the only header we write: RIFF, a 16-byte fmt
// chunk and the head of the data chunk.
const wavHeaderSize = 44

const (
	bitDepth       = 16
	bytesPerSample = 2
)

// wavHeader returns the header of a mono 16-bit PCM file with dataBytes bytes
// of samples. The layout is that of the WAVE format, all numbers little-endian:
// "RIFF", size of all that follows, "WAVE", "fmt ", 16, format 1 (PCM),
// channels, rate, bytes/s, bytes/frame, bits/sample, "data", dataBytes.
func wavHeader(rate int, dataBytes uint32) []byte {
	h := make([]byte, 0, wavHeaderSize)
	h = append(h, "RIFF"...)
	h = binary.LittleEndian.AppendUint32(h, wavHeaderSize-8+dataBytes)
	h = append(h, "WAVEfmt "...)
	h = binary.LittleEndian.AppendUint32(h, 16)
	h = binary.LittleEndian.AppendUint16(h, 1)
	h = binary.LittleEndian.AppendUint16(h, 1)
	h = binary.LittleEndian.AppendUint32(h, uint32(rate))
	h = binary.LittleEndian.AppendUint32(h, uint32(rate*bytesPerSample))
	h = binary.LittleEndian.AppendUint16(h, bytesPerSample)
	h = binary.LittleEndian.AppendUint16(h, bitDepth)
	h = append(h, "data"...)
	return binary.LittleEndian.AppendUint32(h, dataBytes)
}

// readWAV reads the WAV file of an engine and hands its samples to emit. It
// insists on mono 16-bit PCM at rate, because anything else means that the
// engine is not the one we know. It returns the number of samples.
// A file that ends before its data chunk does was cut short, by a full disk for
// example, and is an error.
func readWAV(r io.Reader, rate int, emit func([]int16) error) (int64, error) {
	var riff [12]byte
	if _, err := io.ReadFull(r, riff[:]); err != nil {
		return 0, fmt.Errorf("read WAV header: %w", err)
	}
	if string(riff[:4]) != "RIFF" || string(riff[8:]) != "WAVE" {
		return 0, errors.New("the engine's output is not a WAV file")
	}
	known := false
	for {
		var head [8]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return 0, fmt.Errorf("read WAV chunk: %w", err)
		}
		size := int64(binary.LittleEndian.Uint32(head[4:]))
		switch string(head[:4]) {
		case "fmt ":
			if err := checkFormat(r, size, rate); err != nil {
				return 0, err
			}
			known = true
		case "data":
			if !known {
				return 0, errors.New("the engine's WAV file has data before its format")
			}
			n, err := readSamples(io.LimitReader(r, size), emit)
			if err == nil && n*bytesPerSample < size-size%bytesPerSample {
				err = fmt.Errorf("the engine's WAV file is cut short, %d of %d bytes of audio are there (is the disk full?)", n*bytesPerSample, size)
			}
			return n, err
		default:
			if _, err := io.CopyN(io.Discard, r, size+size%2); err != nil {
				return 0, fmt.Errorf("skip WAV chunk %q: %w", head[:4], err)
			}
		}
	}
}

func checkFormat(r io.Reader, size int64, rate int) error {
	if size < 16 || size > 1024 {
		return fmt.Errorf("the engine's WAV file has a format chunk of %d bytes", size)
	}
	f := make([]byte, size+size%2)
	if _, err := io.ReadFull(r, f); err != nil {
		return fmt.Errorf("read WAV format: %w", err)
	}
	format, channels := binary.LittleEndian.Uint16(f), binary.LittleEndian.Uint16(f[2:])
	hz, bits := binary.LittleEndian.Uint32(f[4:]), binary.LittleEndian.Uint16(f[14:])
	if format != 1 || channels != 1 || bits != bitDepth || int64(hz) != int64(rate) {
		return fmt.Errorf("the engine wrote format %d with %d channels of %d bits at %d Hz, expected PCM, mono, 16 bits at %d Hz",
			format, channels, bits, hz, rate)
	}
	return nil
}

// readSamples turns little-endian bytes into frames of a few thousand samples.
func readSamples(r io.Reader, emit func([]int16) error) (int64, error) {
	buf := make([]byte, 16<<10)
	frame := make([]int16, len(buf)/bytesPerSample)
	var total int64
	for {
		n, err := io.ReadFull(r, buf)
		samples := n / bytesPerSample
		for i := range samples {
			frame[i] = int16(binary.LittleEndian.Uint16(buf[i*bytesPerSample:]))
		}
		if samples > 0 {
			total += int64(samples)
			if err := emit(frame[:samples]); err != nil {
				return total, err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return total, nil
		case err != nil:
			return total, fmt.Errorf("read WAV samples: %w", err)
		}
	}
}
