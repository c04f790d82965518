package redislist

import (
	"io/fs"
	"path"
	"strings"
)

// ScriptNames maps the hash of each script to its name.
func ScriptNames() (map[string]string, error) {
	files, err := fs.Glob(sources, "scripts/*.lua")
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, f := range files {
		if name := strings.TrimSuffix(path.Base(f), ".lua"); name != "common" && name != "sweep" {
			names[load(name).Hash()] = name
		}
	}
	return names, nil
}

const ClockBeats = clockBeats

// Unpack reads a packed task.
func Unpack(s string) ([]string, error) { return unpack(s) }

// Needed picks the helpers of a script.
func Needed(helpers, body string) string { return needed(helpers, body) }
