package tts

import "math"

// resampler changes the sampling rate of a stream by the fixed ratio l/m.
//
// It is a polyphase windowed-sinc filter (J. O. Smith, "Digital Audio
// Resampling Home Page", CCRMA): output sample n lies at input time n*m/l,
// between two input samples at one of l fractions; for each fraction the taps
// of a low-pass filter are computed once. The filter is a sinc, cut off a
// little below the lower of the two Nyquist frequencies, under a Kaiser window
// with beta 9, which keeps aliases some 80 dB down.
type resampler struct {
	l, m int         // out rate : in rate, without common factors
	half int         // taps on each side of an output sample
	taps [][]float32 // [fraction][2*half]

	in    []float32 // input not yet passed by, in[0] is sample number first
	first int64
	got   int64 // input samples so far
	made  int64 // output samples so far
	out   []int16
}

const (
	sincZeros  = 24   // zero crossings of the sinc on each side
	sincCutoff = 0.93 // of the lower Nyquist frequency
	kaiserBeta = 9.0
)

// newResampler returns a resampler from one rate to the other, both in Hz.
func newResampler(from, to int) *resampler {
	g := gcd(from, to)
	r := &resampler{l: to / g, m: from / g}
	scale := min(1, float64(r.l)/float64(r.m))
	r.half = int(math.Ceil(sincZeros / scale))
	cutoff := sincCutoff * scale
	r.taps = make([][]float32, r.l)
	for p := range r.taps {
		r.taps[p] = sincTaps(float64(p)/float64(r.l), r.half, cutoff)
	}
	// Silence before the first sample, so that the filter has a past.
	r.in = make([]float32, r.half-1)
	r.first = -int64(r.half - 1)
	return r
}

// sincTaps computes the taps for an output sample that lies frac after input
// sample half-1 of the window, scaled so that a constant stays itself.
func sincTaps(frac float64, half int, cutoff float64) []float32 {
	taps := make([]float64, 2*half)
	sum := 0.0
	for k := range taps {
		d := float64(k-half+1) - frac
		x := d / float64(half)
		if math.Abs(x) >= 1 {
			continue
		}
		taps[k] = cutoff * sinc(cutoff*d) * bessel0(kaiserBeta*math.Sqrt(1-x*x))
		sum += taps[k]
	}
	out := make([]float32, len(taps))
	for k, t := range taps {
		out[k] = float32(t / sum)
	}
	return out
}

// write takes a frame and returns the output that is complete by now. The
// result is valid until the next call.
func (r *resampler) write(frame []int16) []int16 {
	r.got += int64(len(frame))
	for _, s := range frame {
		r.in = append(r.in, float32(s))
	}
	return r.drain(math.MaxInt64)
}

// flush returns what remains: all output samples at times before the end of
// the input.
func (r *resampler) flush() []int16 {
	total := (r.got*int64(r.l) + int64(r.m) - 1) / int64(r.m)
	r.in = append(r.in, make([]float32, r.half+1)...)
	return r.drain(total)
}

// drain makes output while the filter's window is full, up to total samples.
func (r *resampler) drain(total int64) []int16 {
	r.out = r.out[:0]
	for r.made < total {
		at := r.made * int64(r.m)
		start := int(at/int64(r.l) - int64(r.half-1) - r.first)
		if start+2*r.half > len(r.in) {
			break
		}
		window := r.in[start : start+2*r.half]
		sum := float32(0)
		for k, t := range r.taps[at%int64(r.l)] {
			sum += t * window[k]
		}
		r.out = append(r.out, clip(float64(sum)))
		r.made++
	}
	r.forget()
	return r.out
}

// forget drops the input that no output needs any more.
func (r *resampler) forget() {
	next := r.made*int64(r.m)/int64(r.l) - int64(r.half-1)
	if n := min(int(next-r.first), len(r.in)); n > 0 {
		r.in = r.in[:copy(r.in, r.in[n:])]
		r.first += int64(n)
	}
}

// clip rounds to the nearest 16-bit sample.
func clip(v float64) int16 {
	return int16(math.Round(max(math.MinInt16, min(math.MaxInt16, v))))
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	return math.Sin(math.Pi*x) / (math.Pi * x)
}

// bessel0 is the modified Bessel function of the first kind and order zero.
func bessel0(x float64) float64 {
	sum, term := 1.0, 1.0
	for k := 1; term > sum*1e-12; k++ {
		term *= (x / 2 / float64(k)) * (x / 2 / float64(k))
		sum += term
	}
	return sum
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
