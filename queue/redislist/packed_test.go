package redislist_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/queue/redislist"
)

func TestUnpack(t *testing.T) {
	long, longer := strings.Repeat("x", 300), strings.Repeat("y", 70000)
	for _, tt := range []struct {
		name, packed string
		want         []string
	}{
		{"an empty list", "\x90", []string{}},
		{"short strings", "\x92\xa1a\xa0", []string{"a", ""}},
		{"a length of one byte", "\x91\xd9\x28" + long[:40], []string{long[:40]}},
		{"a length of two bytes", "\x91\xda\x01\x2c" + long, []string{long}},
		{"a length of four bytes", "\x91\xdb\x00\x01\x11\x70" + longer, []string{longer}},
		{"a long list", "\xdc\x00\x10" + strings.Repeat("\xa1a", 16), slices.Repeat([]string{"a"}, 16)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := redislist.Unpack(tt.packed)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Fatalf("got %.80q, %v", got, err)
			}
		})
	}
	for name, packed := range map[string]string{
		"nothing": "", "no list": "\xa1a", "a number in it": "\x91\x01", "cut short": "\x92\xa1a", "too much": "\x91\xa1ab",
		"a length that is not there": "\xdd\xff\xff\xff\xff", "half a length": "\x91\xda\x01",
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			if got, err := redislist.Unpack(packed); err == nil {
				t.Fatalf("got %q", got)
			}
		})
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add("\x92\xa1a\xa0")
	f.Add("\xdc\x00\x02\xda\x00\x01b\xa0")
	f.Fuzz(func(t *testing.T, packed string) {
		got, err := redislist.Unpack(packed)
		total := 0
		for _, s := range got {
			total += len(s)
		}
		if err == nil && total > len(packed) || err != nil && got != nil {
			t.Fatalf("%d bytes out of %d, %v", total, len(packed), err)
		}
	})
}
