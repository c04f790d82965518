package chaos

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// How Redis keeps what it is told.
const (
	EverySecond = "everysec" // it is restarted in order
	Always      = "always"   // it is killed as well
)

// Options shape a run.
type Options struct {
	Minutes float64       // how long faults happen; default 2, with Tasks what these take
	Seed    uint64        // of the schedule and of the tasks
	Tasks   int           // how many; default Rate for all the time
	Rate    float64       // tasks a second; default 40
	Every   time.Duration // mean time between two faults; default 1s
	Redis   string        // EverySecond (default) or Always
	Break   string        // a move that is broken on purpose, see Breaks; empty: none
	Dir     string        // for logs and ledger; must be there
	Slots   int           // tasks at once on each agent; default 16

	// Schedule replaces the one that Seed makes.
	Schedule []Fault

	command string // what repeats the run
}

// complete fills in the defaults and reports what makes no sense.
func (o *Options) complete() error {
	o.command = o.repeat()
	if o.Rate == 0 {
		o.Rate = 40
	}
	if o.Tasks > 0 {
		o.Minutes = float64(o.Tasks) / o.Rate / 60
	}
	if o.Minutes == 0 {
		o.Minutes = 2
	}
	if o.Tasks == 0 {
		o.Tasks = int(math.Ceil(o.Rate * 60 * o.Minutes))
	}
	if o.Every == 0 {
		o.Every = time.Second
	}
	if o.Redis == "" {
		o.Redis = EverySecond
	}
	if o.Slots == 0 {
		o.Slots = 16
	}
	switch {
	case o.Rate < 0 || o.Minutes < 0 || o.Tasks < 1 || o.Every < 0:
		return fmt.Errorf("minutes, tasks, rate and the time between faults are above zero")
	case o.Redis != EverySecond && o.Redis != Always:
		return fmt.Errorf("redis is %s or %s, got %q", EverySecond, Always, o.Redis)
	case o.Break != "" && Breaks[o.Break] == nil:
		return fmt.Errorf("break is one of %s, got %q", strings.Join(BreakNames(), ", "), o.Break)
	}
	return nil
}

// length is how long faults happen.
func (o *Options) length() time.Duration {
	return time.Duration(o.Minutes * float64(time.Minute))
}

// repeat is the command for a run with the same options.
func (o *Options) repeat() string {
	s := "make chaos"
	if o.Tasks > 0 {
		s += fmt.Sprintf(" TASKS=%d", o.Tasks)
	} else if o.Minutes > 0 {
		s += fmt.Sprintf(" MINUTES=%g", o.Minutes)
	}
	if o.Rate > 0 {
		s += fmt.Sprintf(" RATE=%g", o.Rate)
	}
	s += fmt.Sprintf(" SEED=%d", o.Seed)
	if o.Redis != "" {
		s += " REDIS=" + o.Redis
	}
	if o.Break != "" {
		s += " BREAK=" + o.Break
	}
	return s
}
