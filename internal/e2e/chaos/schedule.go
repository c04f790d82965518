package chaos

import (
	"math/rand/v2"
	"time"
)

// A Kind is what goes wrong.
type Kind string

// The kinds of faults.
const (
	KillAgent      Kind = "agent killed"
	FreezeAgent    Kind = "agent frozen longer than its lease"
	RestartAgent   Kind = "agent restarted"
	KillControl    Kind = "control plane killed"
	FreezeControl  Kind = "control plane frozen"
	RestartControl Kind = "control plane restarted"
	KillExecutor   Kind = "executor killed"
	FreezeExecutor Kind = "executor frozen"
	Stall          Kind = "connections stalled"
	StallRequests  Kind = "requests stalled"
	StallReplies   Kind = "replies stalled"
	LoseRequests   Kind = "half-open: requests vanish"
	LoseReplies    Kind = "half-open: replies vanish after the commit"
	CutReplies     Kind = "cut between commit and reply"
	CutMidway      Kind = "cut in the middle of a reply"
	Reset          Kind = "connections reset"
	Away           Kind = "connections cut and refused"
	ClientKill     Kind = "CLIENT KILL"
	ClientPause    Kind = "CLIENT PAUSE"
	ScriptFlush    Kind = "SCRIPT FLUSH"
	DebugSleep     Kind = "DEBUG SLEEP"
	RestartRedis   Kind = "Redis restarted (SHUTDOWN)"
	KillRedis      Kind = "Redis killed"
	FullMemory     Kind = "memory of Redis full"
	FullDisk       Kind = "disk under the spool full"
	DrainAgent     Kind = "agent drained and resumed"
	PauseQueue     Kind = "queue paused and resumed"
	CancelTask     Kind = "tasks cancelled"
	RetryTask      Kind = "ended tasks retried"
)

// The size of the fleet.
const (
	agents   = 3
	controls = 2
)

// A Fault is one thing that goes wrong: when, what, where and for how long.
type Fault struct {
	At     time.Duration // since the begin
	Kind   Kind
	Target int           // which agent, control plane, proxy or queue
	For    time.Duration // until it is put right
	Pick   float64       // 0..1: which of what is there at that moment
}

// rule says how often a kind comes, on what it acts and for how long.
type rule struct {
	kind     Kind
	weight   int
	what     resource
	min, max time.Duration
}

// A resource takes one fault at a time: while an agent is down it cannot be
// frozen too. Different resources fail together.
type resource string

const (
	anAgent   resource = "agent"
	aControl  resource = "control"
	aProxy    resource = "proxy"
	theServer resource = "server"
	aQueue    resource = "queue"
	aDrain    resource = "drain"
	nothing   resource = "" // over at once
)

// How many there are of a resource.
var many = map[resource]int{
	anAgent: agents, aControl: controls, aProxy: agents + controls + producers, theServer: 1, aQueue: len(queues), aDrain: agents, nothing: 1,
}

const ms = time.Millisecond

// The lease of an agent is three seconds here, so whoever is away for longer
// loses its tasks.
var rules = []rule{
	{KillAgent, 7, anAgent, 200 * ms, 5000 * ms},
	{FreezeAgent, 4, anAgent, 3500 * ms, 6000 * ms},
	{RestartAgent, 3, anAgent, 0, 1000 * ms},
	{KillControl, 4, aControl, 0, 5000 * ms},
	{FreezeControl, 3, aControl, 1000 * ms, 6000 * ms},
	{RestartControl, 3, aControl, 0, 1000 * ms},
	{KillExecutor, 7, nothing, 0, 0},
	{FreezeExecutor, 2, nothing, 1000 * ms, 5000 * ms},
	{Stall, 4, aProxy, 100 * ms, 5000 * ms},
	{StallRequests, 3, aProxy, 100 * ms, 5000 * ms},
	{StallReplies, 3, aProxy, 100 * ms, 5000 * ms},
	{LoseRequests, 3, aProxy, 100 * ms, 4000 * ms},
	{LoseReplies, 5, aProxy, 100 * ms, 4000 * ms},
	{CutReplies, 7, aProxy, 50 * ms, 500 * ms},
	{CutMidway, 4, aProxy, 50 * ms, 500 * ms},
	{Reset, 4, aProxy, 50 * ms, 500 * ms},
	{Away, 4, aProxy, 100 * ms, 4000 * ms},
	{ClientKill, 5, nothing, 0, 0},
	{ClientPause, 3, theServer, 100 * ms, 2500 * ms},
	{ScriptFlush, 6, nothing, 0, 0},
	{DebugSleep, 3, theServer, 100 * ms, 2000 * ms},
	{RestartRedis, 3, theServer, 0, 1500 * ms},
	{FullMemory, 3, theServer, 200 * ms, 3000 * ms},
	{FullDisk, 4, anAgent, 500 * ms, 4000 * ms},
	{DrainAgent, 4, aDrain, 200 * ms, 4000 * ms},
	{PauseQueue, 4, aQueue, 200 * ms, 4000 * ms},
	{CancelTask, 7, nothing, 0, 0},
	{RetryTask, 4, nothing, 0, 0},
}

// killed stands in for the restarts of a server that keeps everything at once.
var killed = rule{KillRedis, 3, theServer, 0, 1500 * ms}

// Schedule is what goes wrong during a time, on average once every so often:
// the same for the same seed. With always Redis is killed too. No resource has
// two faults at a time.
func Schedule(seed uint64, length, every time.Duration, always bool) []Fault {
	rng := rand.New(rand.NewPCG(seed, 0xfa017))
	all := rules
	if always {
		all = append(append([]rule(nil), rules...), killed)
	}
	var deck []rule // each kind as often as it weighs; about two minutes' worth
	for _, r := range all {
		for range r.weight {
			deck = append(deck, r)
		}
	}
	drawn := len(deck)
	busy := map[resource]map[int]time.Duration{}
	var out []Fault
	at := time.Duration(0)
	for {
		at += time.Duration(float64(every) * (0.5 + rng.Float64()))
		if drawn == len(deck) {
			rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
			drawn = 0
		}
		r := deck[drawn]
		drawn++
		f := Fault{At: at, Kind: r.kind, Target: rng.IntN(many[r.what]), For: between(rng, r.min, r.max), Pick: rng.Float64()}
		if at+f.For > length {
			if at > length {
				return out
			}
			f.For = length - at
		}
		if r.what != nothing {
			if busy[r.what] == nil {
				busy[r.what] = map[int]time.Duration{}
			}
			free := false
			for range many[r.what] { // the next one that has no fault now
				if free = busy[r.what][f.Target] < at; free {
					break
				}
				f.Target = (f.Target + 1) % many[r.what]
			}
			if !free {
				f.Kind, f.Target, f.For = CancelTask, 0, 0 // needs nobody
			} else {
				busy[r.what][f.Target] = at + f.For + recovery
			}
		}
		out = append(out, f)
	}
}

// recovery is how long something has to itself between two faults.
const recovery = 1500 * ms

func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Float64()*float64(high-low)).Round(ms)
}

// resourceOf is what a kind of fault acts on.
func resourceOf(k Kind) resource {
	for _, r := range append(rules, killed) {
		if r.kind == k {
			return r.what
		}
	}
	return nothing
}
