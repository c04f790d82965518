package redislist_test

import (
	"testing"

	"github.com/autobot-fleet/autobot/queue/redislist"
)

func TestAScriptCarriesTheHelpersThatItNeeds(t *testing.T) {
	t.Parallel()
	const (
		head   = "-- about the file\n"
		prefix = "local P = ARGV[1]\n-- of first and other\n"
		first  = "local function first() return P end\n"
		pair   = "local left, right = 1, 2\n"
		unused = "local function unused() return right end\n"
		other  = "local function other()\n  local left = first()\n  return left\nend\n"
	)
	const helpers = head + prefix + first + pair + unused + other
	for _, tt := range []struct{ name, body, want string }{
		{"none", "return ARGV[2]", ""},
		{"one", "return P", prefix},
		{"what a helper uses too", "return first()", prefix + first},
		{"one name of several", "return right", pair},
		{"all that is behind the last", "return other()", prefix + first + pair + other},
		{"a name in a comment counts nothing", "  -- unused\nreturn P", prefix},
		{"part of a name counts nothing", "return unused_since, Left", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := redislist.Needed(helpers, tt.body); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
