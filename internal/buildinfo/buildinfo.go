// Package buildinfo says which build of AutoBot Fleet is running.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version and Commit are set by the linker (-X) in builds made by the
// Makefile. Otherwise Version is "dev" and Commit is what the Go tool recorded
// about the source, or "unknown".
var (
	Version = "dev"
	Commit  = ""
)

func init() {
	if Commit == "" {
		Commit = recordedCommit(debug.ReadBuildInfo())
	}
}

// String returns one line for people: version, commit, Go version and platform.
func String() string {
	return fmt.Sprintf("%s (commit %s, %s, %s/%s)",
		Version, Commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// recordedCommit returns the abbreviated revision that the Go tool wrote into
// the binary, with "+dirty" if the sources had uncommitted changes.
func recordedCommit(info *debug.BuildInfo, ok bool) string {
	if !ok {
		return "unknown"
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if revision == "" {
		return "unknown"
	}
	return revision + dirty
}
