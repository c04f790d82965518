package configfile

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes that is written as "512KiB", "10MB", "1.5GiB" or a
// plain number. K, M, G and T alone, and with iB, are powers of 1024; with B
// they are powers of 1000. Case does not matter.
type Size int64

var sizeUnits = []struct {
	suffix string
	factor float64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40},
	{"b", 1}, {"", 1},
}

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	number := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(string(text))), "_", "")
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(number, u.suffix)
		if !ok {
			continue
		}
		digits = strings.TrimSpace(digits)
		if whole, err := strconv.ParseInt(digits, 10, 64); err == nil && u.factor == 1 && whole >= 0 {
			*s = Size(whole)
			return nil
		}
		n, err := strconv.ParseFloat(digits, 64)
		if bytes := n * u.factor; err == nil && bytes >= 0 && bytes < math.MaxInt64 {
			*s = Size(math.Round(bytes))
			return nil
		}
		break
	}
	return fmt.Errorf("must be a size such as 512KiB, 64MiB or 10GB, not %q", clip(string(text)))
}

// MarshalText returns the same as String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String returns the size with the largest unit that divides it.
func (s Size) String() string {
	for _, u := range []struct {
		suffix string
		factor int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if s != 0 && int64(s)%u.factor == 0 {
			return strconv.FormatInt(int64(s)/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
