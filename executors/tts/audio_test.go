package tts

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

// sine returns n samples of a tone.
func sine(hz float64, rate, n int) []int16 {
	out := make([]int16, n)
	for i := range out {
		out[i] = int16(math.Round(20000 * math.Sin(2*math.Pi*hz*float64(i)/float64(rate))))
	}
	return out
}

// resample runs in through a resampler in frames of some length.
func resample(from, to int, in []int16, frame int) []int16 {
	r := newResampler(from, to)
	var out []int16
	for len(in) > 0 {
		n := min(frame, len(in))
		out = append(out, r.write(in[:n])...)
		in = in[n:]
	}
	return append(out, r.flush()...)
}

func rms(samples []float64) float64 {
	sum := 0.0
	for _, s := range samples {
		sum += s * s
	}
	return math.Sqrt(sum / float64(len(samples)))
}

func TestResamplingKeepsAToneAndItsTime(t *testing.T) {
	t.Parallel()
	for _, to := range []int{8000, 16000, 24000, 44100, 48000} {
		for _, hz := range []float64{100, 1000, 3000} {
			out := resample(22050, to, sine(hz, 22050, 22050), 1000)
			if len(out) != to {
				t.Errorf("%d Hz: %d samples in a second", to, len(out))
			}
			want := sine(hz, to, len(out))
			var wrong, signal []float64
			for i := to / 10; i < len(out)-to/10; i++ { // the ends see silence outside
				wrong = append(wrong, float64(out[i])-float64(want[i]))
				signal = append(signal, float64(want[i]))
			}
			if snr := 20 * math.Log10(rms(signal)/rms(wrong)); snr < 75 {
				t.Errorf("%.0f Hz at %d: the error is only %.1f dB down", hz, to, snr)
			}
		}
	}
}

func TestResamplingSuppressesAliases(t *testing.T) {
	t.Parallel()
	for to, hz := range map[int]float64{8000: 5000, 16000: 9500} {
		out := resample(22050, to, sine(hz, 22050, 22050), 4096)
		var rest []float64
		for _, s := range out[to/10 : len(out)-to/10] {
			rest = append(rest, float64(s))
		}
		if down := 20 * math.Log10(20000/math.Sqrt2/max(rms(rest), 0.1)); down < 70 {
			t.Errorf("%.0f Hz at %d: only %.1f dB down", hz, to, down)
		}
	}
}

func TestResamplingDoesNotDependOnFrames(t *testing.T) {
	t.Parallel()
	in := sine(440, 22050, 5000)
	for _, to := range []int{8000, 48000} {
		want := resample(22050, to, in, len(in))
		for _, frame := range []int{1, 7, 512} {
			got := resample(22050, to, in, frame)
			if len(got) != len(want) {
				t.Fatalf("frames of %d: %d samples, want %d", frame, len(got), len(want))
			}
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("frames of %d: sample %d is %d, want %d", frame, i, got[i], want[i])
				}
			}
		}
	}
}

func TestResamplingKeepsAConstant(t *testing.T) {
	t.Parallel()
	in := make([]int16, 4000)
	for i := range in {
		in[i] = 12345
	}
	for _, to := range []int{8000, 44100} {
		out := resample(22050, to, in, 100)
		for i := len(out) / 4; i < len(out)*3/4; i++ {
			if d := int(out[i]) - 12345; d < -1 || d > 1 {
				t.Fatalf("%d Hz: sample %d is %d", to, i, out[i])
			}
		}
	}
	if out := resample(22050, 8000, nil, 1); len(out) != 0 {
		t.Errorf("nothing became %d samples", len(out))
	}
}

func TestReadWAV(t *testing.T) {
	t.Parallel()
	good := append(wavHeader(22050, 6), 1, 0, 2, 0, 0xff, 0xff)
	extra := append(append(bytes.Clone(good[:36]), "LIST\x03\x00\x00\x00abc\x00"...), good[36:]...)
	for name, file := range map[string][]byte{"plain": good, "further chunk": extra} {
		var got []int16
		n, err := readWAV(bytes.NewReader(file), 22050, func(f []int16) error { got = append(got, f...); return nil })
		if err != nil || n != 3 || len(got) != 3 || got[0] != 1 || got[1] != 2 || got[2] != -1 {
			t.Errorf("%s: %v, %d, %v", name, got, n, err)
		}
	}
	stereo := bytes.Clone(good)
	stereo[22] = 2
	streamed := bytes.Clone(good) // the sizes of a program that could not seek back
	binary.LittleEndian.PutUint32(streamed[4:], 0x7ffff024)
	binary.LittleEndian.PutUint32(streamed[40:], 0x7ffff000)
	for name, file := range map[string][]byte{
		"nothing": {}, "half a header": good[:20], "no data": good[:36], "cut short": good[:48], "streaming header": streamed, "stereo": stereo, "other rate": append(wavHeader(16000, 2), 0, 0),
		"data first": append(bytes.Clone(good[:12]), good[36:]...), "huge format": append(bytes.Clone(good[:16]), 0xff, 0xff, 0xff, 0xff),
	} {
		if n, err := readWAV(bytes.NewReader(file), 22050, func([]int16) error { return nil }); err == nil {
			t.Errorf("%s: %d samples and no error", name, n)
		}
	}
}
