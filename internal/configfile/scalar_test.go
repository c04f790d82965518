package configfile

import (
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"15s": 15 * time.Second, "24h": 24 * time.Hour, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour,
		"90": 90 * time.Second, "0": 0, "1.5": 1500 * time.Millisecond, "500ms": 500 * time.Millisecond, " 2m ": 2 * time.Minute, "-1s": -time.Second,
	} {
		got, err := ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
		if again, err := ParseDuration(FormatDuration(got)); err != nil || again != got {
			t.Errorf("%v is written as %q and read as %v, %v", got, FormatDuration(got), again, err)
		}
	}
	for _, text := range []string{"", "s", "d", "soon", "1y", "999999999d", "1e300", "NaN", "Inf", "--1s", "1d-1h", "106751d200h", "-d"} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("%q was read as %v", text, d)
		}
	}
	for d, want := range map[time.Duration]string{48 * time.Hour: "2d", time.Hour: "1h", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", 36 * time.Hour: "36h", 0: "0s", 10 * time.Second: "10s"} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v is written as %q, want %q", d, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Size{
		"0": 0, "12": 12, "12B": 12, "512KiB": 512 << 10, "64M": 64 << 20, "10 GB": 10e9, "1.5GiB": 3 << 29, "2t": 2 << 40, "9007199254740993": 9007199254740993,
	} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%q: got %d, %v; want %d", text, int64(s), err, int64(want))
		}
		var again Size
		if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s {
			t.Errorf("%d is written as %q", int64(s), s)
		}
	}
	for _, text := range []string{"", "B", "-1", "-1MiB", "ten", "1PB", "99999999TiB", "NaN", "1e3k k"} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %d", text, int64(s))
		}
	}
}

func TestMaskURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"redis://h:1/0":              "redis://h:1/0",
		"redis://:pw@h:1/0":          "redis://:***@h:1/0",
		"rediss://u:p%40w@h/0?x=y@z": "***",
		"redis://u@h":                "redis://u@h",
		"redis+sentinel://u:p@a,b/m": "redis+sentinel://u:***@a,b/m",
		"redis://:a@b/c@h":           "***",
		"redis://:p@w@h:1":           "redis://:***@h:1",
		"redis://:p/w@h:1":           "***",
		"a@b":                        "***",
		"":                           "",
		"/run/redis.sock":            "/run/redis.sock",
	} {
		if got := MaskURL(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
