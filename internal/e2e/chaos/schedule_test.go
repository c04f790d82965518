package chaos

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

func TestASeedDecidesTheSchedule(t *testing.T) {
	t.Parallel()
	one, same, other := Schedule(1, 10*time.Minute, time.Second, false), Schedule(1, 10*time.Minute, time.Second, false), Schedule(2, 10*time.Minute, time.Second, false)
	if !reflect.DeepEqual(one, same) {
		t.Error("the same seed makes two schedules")
	}
	if reflect.DeepEqual(one, other) {
		t.Error("two seeds make the same schedule")
	}
	o := Options{Seed: 7}
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		a, x := plan(o, i)
		b, y := plan(o, i)
		if !reflect.DeepEqual(a, b) || x != y {
			t.Fatalf("task %d is planned in two ways", i)
		}
		if err := a.Validate(); err != nil {
			t.Fatalf("task %d: %v", i, err)
		}
	}
}

func TestAScheduleHasEveryKindAtItsPace(t *testing.T) {
	t.Parallel()
	const length = 10 * time.Minute
	seen := map[Kind]int{}
	busy := map[resource]map[int]time.Duration{}
	faults := Schedule(1, length, time.Second, true)
	for _, f := range faults {
		seen[f.Kind]++
		r := resourceOf(f.Kind)
		if f.At < 0 || f.At+f.For > length || f.Target < 0 || f.Target >= many[r] || f.Pick < 0 || f.Pick >= 1 {
			t.Errorf("out of its bounds: %+v", f)
		}
		if busy[r] == nil {
			busy[r] = map[int]time.Duration{}
		}
		if r != nothing && f.At < busy[r][f.Target] {
			t.Errorf("two faults at a time: %+v", f)
		}
		busy[r][f.Target] = f.At + f.For
	}
	for _, r := range append(rules, killed) {
		if seen[r.kind] == 0 {
			t.Errorf("%q never comes", r.kind)
		}
	}
	if n := len(faults); n < 500 || n > 700 {
		t.Errorf("%d faults in ten minutes, want about 600", n)
	}
	if seen := Schedule(1, length, time.Second, false); len(seen) == 0 {
		t.Error("no faults")
	} else {
		for _, f := range seen {
			if f.Kind == KillRedis {
				t.Error("a server that keeps data for a second is killed")
			}
		}
	}
}

func TestEachBreakFitsTheScripts(t *testing.T) {
	t.Parallel()
	text := ""
	for _, name := range []string{"common", "finish"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "..", "queue", "redislist", "scripts", name+".lua"))
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
	}
	for _, name := range BreakNames() {
		if _, places := broken(name, text); places != len(Breaks[name]) {
			t.Errorf("the break %s changes %d places in common.lua and finish.lua, want %d: put breaks.go right", name, places, len(Breaks[name]))
		}
	}
	if text, places := broken("", "anything"); text != "anything" || places != 0 {
		t.Error("no break changes something")
	}
}
