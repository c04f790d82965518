package agent

import (
	"slices"
	"testing"
)

func TestExecutorsLearnWhichServersAreTheFleets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		redis, control string
		want           []string
	}{
		{"redis://10.1.2.3", "https://control.lan", []string{"10.1.2.3:6379", "control.lan:443"}},
		{"rediss://:secret@db.lan:7000/0", "https://[2001:db8::1]:8443/prefix", []string{"db.lan:7000", "[2001:db8::1]:8443"}},
		{"redis+sentinel://a:26379,b:26380/mymaster", "", []string{"a:26379", "b:26380"}},
		{"unix:///run/redis.sock", "", nil},
	} {
		cfg := Defaults()
		cfg.Redis.URL, cfg.Control.URL = tt.redis, tt.control
		if got := fleetHosts(cfg); !slices.Equal(got, tt.want) {
			t.Errorf("%s, %s: %v, want %v", tt.redis, tt.control, got, tt.want)
		}
	}
}
