package ov

import (
	"fmt"
	"strconv"
	"strings"
)

// minMajor is the oldest release line whose element types are known.
const minMajor = 2024

// safeMajor is the oldest release line that answers damaged model files (seen:
// junk TFLite, single flipped bits in ONNX) with an error. Older ones read
// beyond the file.
const safeMajor = 2026

// Version is a release of the runtime, such as 2026.4.1.
type Version struct {
	Major, Minor, Patch int
	// Build is the whole build string of the library.
	Build string
}

// String is the release without the build.
func (v Version) String() string {
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// ParseVersion reads a build string: "2026.4.1-22982-e213a147257-releases/2026/4",
// or the release alone. The patch number may be missing.
func ParseVersion(build string) (Version, error) {
	release, _, _ := strings.Cut(build, "-")
	parts := strings.Split(release, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return Version{}, fmt.Errorf("version %q is not like 2026.4.1-22982", build)
	}
	var n [3]int
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 31)
		if err != nil {
			return Version{}, fmt.Errorf("version %q is not like 2026.4.1-22982", build)
		}
		n[i] = int(v)
	}
	return Version{Major: n[0], Minor: n[1], Patch: n[2], Build: build}, nil
}
