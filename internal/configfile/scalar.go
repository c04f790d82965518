package configfile

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// setScalar sets v, a string, bool, number or duration, from text.
func setScalar(v reflect.Value, text string) error {
	if v.Type() == durationType {
		d, err := ParseDuration(text)
		if err != nil {
			return err
		}
		v.SetInt(int64(d))
		return nil
	}
	number := strings.ReplaceAll(strings.TrimSpace(text), "_", "")
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := parseBool(text)
		if err != nil {
			return err
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		i, err := strconv.ParseInt(number, 10, v.Type().Bits())
		if err != nil {
			return numberError(text, "a whole number", err)
		}
		v.SetInt(i)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		u, err := strconv.ParseUint(number, 10, v.Type().Bits())
		if err != nil {
			return numberError(text, "a whole number from zero up", err)
		}
		v.SetUint(u)
	case reflect.Float32, reflect.Float64:
		f, err := strconv.ParseFloat(number, v.Type().Bits())
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return numberError(text, "a number", err)
		}
		v.SetFloat(f)
	default:
		return fmt.Errorf("fields of type %v cannot be read", v.Type())
	}
	return nil
}

func numberError(text, want string, err error) error {
	if err != nil && strings.HasSuffix(err.Error(), strconv.ErrRange.Error()) {
		return fmt.Errorf("must be %s of a sensible size, not %s", want, clip(text))
	}
	return fmt.Errorf("must be %s, not %q", want, clip(text))
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	default:
		return false, fmt.Errorf("must be true or false, not %q", clip(text))
	}
}

// ParseDuration reads "15s", "1h30m", "24h", "7d", "1d12h" or a plain number
// of seconds.
func ParseDuration(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	bad := fmt.Errorf("must be a duration such as 500ms, 15s, 24h or 7d, not %q", clip(text))
	rest := strings.TrimSpace(text)
	negative := strings.HasPrefix(rest, "-")
	rest = strings.TrimPrefix(rest, "-")
	if seconds, err := strconv.ParseFloat(rest, 64); err == nil {
		rest = strconv.FormatFloat(seconds, 'f', -1, 64) + "s"
	}
	var total time.Duration
	if days, after, ok := strings.Cut(rest, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || !(n >= 0 && n <= float64(math.MaxInt64/day-1)) {
			return 0, bad
		}
		total, rest = time.Duration(n*float64(day)), after
		if rest == "" {
			rest = "0s"
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || total+d < 0 {
		return 0, bad
	}
	total += d
	if negative {
		total = -total
	}
	return total, nil
}

// FormatDuration returns d in the shortest form that ParseDuration reads:
// "90s" is "1m30s", 48 hours are "2d".
func FormatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d == 0 {
		return "0s"
	}
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// clip keeps a quoted value short.
func clip(text string) string {
	const limit = 60
	if r := []rune(text); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return text
}
