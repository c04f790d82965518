package ov

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestVersionsAreRead(t *testing.T) {
	for build, want := range map[string]string{
		"2026.4.1-22982-e213a147257-releases/2026/4": "2026.4.1",
		"2024.6.0-17404-4c0f47d2335-releases/2024/6": "2024.6.0",
		"2025.4": "2025.4.0",
	} {
		v, err := ParseVersion(build)
		if err != nil || v.String() != want || v.Build != build {
			t.Errorf("%q: %v %v", build, v, err)
		}
	}
	for _, bad := range []string{"", "2026", "x.y.z", "2026.-1", "2026.4.1.2", "99999999999.1", "2026..1", "custom_master"} {
		if v, err := ParseVersion(bad); err == nil {
			t.Errorf("%q was read as %v", bad, v)
		}
	}
}

func FuzzParseVersion(f *testing.F) {
	f.Add("2026.4.1-22982-e213a147257-releases/2026/4")
	f.Add("2024.6")
	f.Fuzz(func(t *testing.T, build string) {
		v, err := ParseVersion(build)
		if err != nil {
			return
		}
		again, err := ParseVersion(v.String())
		if err != nil || again.String() != v.String() || v.Major < 0 || v.Minor < 0 || v.Patch < 0 {
			t.Errorf("%q is %v, then %v %v", build, v, again, err)
		}
	})
}

func TestErrorTextsLoseTheirOrigin(t *testing.T) {
	raw := "Exception from src/inference/src/cpp/core.cpp:126:\nCheck 'a == b' failed at src/frontend.cpp:58:\nFrontEnd API failed with x:\n\n[CPU] MatMul node Check 'k == k' failed at src/m.cpp:45:\nshapes are incompatible\n"
	want := "FrontEnd API failed with x:; [CPU] MatMul node; shapes are incompatible"
	if got := cleanText(raw); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := cleanText(strings.Repeat("ä", 1000)); len(got) > maxText+3 || !utf8.ValidString(got) {
		t.Errorf("%d bytes", len(got))
	}
}

func FuzzCleanText(f *testing.F) {
	f.Add("Exception from src/a.cpp:1:\nCheck 'x' failed at src/b.cpp:2:\ntext")
	f.Fuzz(func(t *testing.T, raw string) {
		if got := cleanText(raw); len(got) > maxText+3 || strings.Contains(got, "\n") || !utf8.ValidString(got) {
			t.Errorf("%q became %q", raw, got)
		}
	})
}

func TestErrorsAreToldByStatus(t *testing.T) {
	err := error(&Error{Op: "run inference", Status: -8})
	if !errors.Is(err, ErrBusy) || errors.Is(err, ErrCancelled) || err.Error() != "run inference: request busy (openvino status -8)" {
		t.Error(err)
	}
	if err := (&Error{Op: "x", Status: -13}); !errors.Is(err, ErrCancelled) {
		t.Error(err)
	}
	if err := (&Error{Op: "x", Status: -99}); !strings.Contains(err.Error(), "unknown status (openvino status -99)") {
		t.Error(err)
	}
}
