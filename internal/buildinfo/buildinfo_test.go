package buildinfo

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestStringNamesVersionAndCommit(t *testing.T) {
	t.Parallel()
	got := String()
	for _, want := range []string{Version, "commit " + Commit, "go1."} {
		if !strings.Contains(got, want) {
			t.Errorf("String() = %q, without %q", got, want)
		}
	}
}

func TestRecordedCommit(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"},
		{Key: "vcs.modified", Value: "true"},
	}}
	for _, tt := range []struct {
		name string
		info *debug.BuildInfo
		ok   bool
		want string
	}{
		{"a revision is shortened and marked when modified", info, true, "0123456789ab+dirty"},
		{"a build without version control is unknown", &debug.BuildInfo{}, true, "unknown"},
		{"a binary without build information is unknown", nil, false, "unknown"},
	} {
		if got := recordedCommit(tt.info, tt.ok); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
