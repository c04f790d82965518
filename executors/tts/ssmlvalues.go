package tts

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// breakStrengths are the silences for the words of the attribute strength.
var breakStrengths = map[string]time.Duration{
	"none": 0, "x-weak": 100 * time.Millisecond, "weak": 250 * time.Millisecond,
	"medium": 500 * time.Millisecond, "strong": 750 * time.Millisecond, "x-strong": time.Second,
}

// Words of the attributes of prosody, as factors.
var (
	rateWords   = map[string]float64{"x-slow": 0.5, "slow": 0.75, "medium": 1, "default": 1, "fast": 1.3, "x-fast": 1.7}
	pitchWords  = map[string]float64{"x-low": 0.5, "low": 0.75, "medium": 1, "default": 1, "high": 1.3, "x-high": 1.6}
	volumeWords = map[string]float64{"silent": 0, "x-soft": 0.35, "soft": 0.65, "medium": 1, "default": 1, "loud": 1.4, "x-loud": 1.8}
)

// parseBreak returns the silence that a break asks for: time, else strength,
// else that of a medium break.
func parseBreak(attrs map[string]string) (time.Duration, error) {
	value, ok := attrs["time"]
	if !ok {
		strength, ok := attrs["strength"]
		if !ok {
			strength = "medium"
		}
		d, ok := breakStrengths[strength]
		if !ok {
			return 0, fmt.Errorf("strength %q is not one of none, x-weak, weak, medium, strong, x-strong", short(strength, 40))
		}
		return d, nil
	}
	number, unit := value, time.Duration(0)
	switch {
	case strings.HasSuffix(value, "ms"):
		number, unit = strings.TrimSuffix(value, "ms"), time.Millisecond
	case strings.HasSuffix(value, "s"):
		number, unit = strings.TrimSuffix(value, "s"), time.Second
	}
	n, err := decimal(number)
	if unit == 0 || err != nil || n < 0 {
		return 0, fmt.Errorf("time %q is not a length such as 500ms or 1.5s", short(value, 40))
	}
	if n > float64(maxBreak/unit) {
		return 0, fmt.Errorf("time %q is longer than %s", short(value, 40), maxBreak)
	}
	return time.Duration(n * float64(unit)), nil
}

// with returns m changed by the attributes of a prosody element. Percentages
// and decibels are relative to what surrounds the element.
func (m manner) with(attrs map[string]string) (manner, error) {
	for name, value := range attrs {
		var factor float64
		var err error
		switch name {
		case "rate":
			factor, err = parseRate(value)
			m.rate *= factor
		case "pitch":
			factor, err = parsePitch(value)
			m.pitch *= factor
		case "volume":
			factor, err = parseVolume(value)
			m.volume *= factor
		default:
			return m, fmt.Errorf("attribute %s is not supported; there are rate, pitch and volume", short(name, 40))
		}
		if err != nil {
			return m, fmt.Errorf("%s %q %w", name, short(value, 40), err)
		}
	}
	return m, nil
}

var (
	errRate   = errors.New("is not a rate such as slow, x-fast or 80%")
	errPitch  = errors.New("is not a pitch such as low, +10% or -2st")
	errVolume = errors.New("is not a volume such as soft, x-loud or +6dB")
)

// parseRate reads a word or a percentage of the rate around it.
func parseRate(value string) (float64, error) {
	if f, ok := rateWords[value]; ok {
		return f, nil
	}
	n, err := decimal(strings.TrimSuffix(value, "%"))
	if err != nil || !strings.HasSuffix(value, "%") {
		return 0, errRate
	}
	if strings.HasPrefix(value, "+") || strings.HasPrefix(value, "-") {
		n += 100 // "+20%" is what many tools write for "120%"
	}
	if n < 10 || n > 1000 {
		return 0, errors.New("is outside of 10%..1000%")
	}
	return n / 100, nil
}

// parsePitch reads a word, a signed percentage or semitones.
func parsePitch(value string) (float64, error) {
	if f, ok := pitchWords[value]; ok {
		return f, nil
	}
	number, semitones := strings.CutSuffix(value, "st")
	if !semitones {
		var percent bool
		if number, percent = strings.CutSuffix(value, "%"); !percent {
			return 0, errPitch
		}
	}
	n, err := decimal(number)
	if err != nil {
		return 0, errPitch
	}
	if semitones {
		if math.Abs(n) > 24 {
			return 0, errors.New("is more than 24 semitones away")
		}
		return math.Pow(2, n/12), nil
	}
	if n < -90 || n > 300 {
		return 0, errors.New("is outside of -90%..+300%")
	}
	return 1 + n/100, nil
}

// parseVolume reads a word or signed decibels.
func parseVolume(value string) (float64, error) {
	if f, ok := volumeWords[value]; ok {
		return f, nil
	}
	number, ok := strings.CutSuffix(value, "dB")
	n, err := decimal(number)
	if !ok || err != nil {
		return 0, errVolume
	}
	if math.Abs(n) > 40 {
		return 0, errors.New("is more than 40 dB away")
	}
	return math.Pow(10, n/20), nil
}

// decimal reads a plain decimal number; exponents, NaN and Inf are none.
func decimal(s string) (float64, error) {
	if s == "" || strings.Trim(s, "+-.0123456789") != "" {
		return 0, errors.New("not a number")
	}
	return strconv.ParseFloat(s, 64)
}
