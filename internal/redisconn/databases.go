package redisconn

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Main is the database of the queue and the fleet.
const Main = "main"

// numbers are the named databases and their default numbers.
var numbers = map[string]int{
	Main: 0, "knowledge": 1, "prompts": 2, "agents": 3, "metrics": 4, "cache": 5, "sessions": 6,
	"workflows": 7, "vectors": 8, "analytics": 9, "websockets": 10, "config": 11, "audit": 12,
}

// aliases are other names of the same databases.
var aliases = map[string]string{
	"conversations": "agents", "locks": "sessions", "monitoring": "workflows", "rate_limiting": "vectors",
	"models": "analytics", "memory": Main, "facts": "config",
}

// Databases returns the names of all databases, without aliases, sorted.
func Databases() []string { return slices.Sorted(maps.Keys(numbers)) }

// canonical returns the name that an alias stands for, and known names as they
// are.
func canonical(name string) (string, error) {
	if target, ok := aliases[name]; ok {
		return target, nil
	}
	if _, ok := numbers[name]; ok {
		return name, nil
	}
	return "", fmt.Errorf("unknown Redis database %q (known are %s)", name, strings.Join(Databases(), ", "))
}
