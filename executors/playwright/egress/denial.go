package egress

import (
	"fmt"
	"net"
	"strconv"
	"time"
)

// Rule names what a denial rests on. It is stable and fit for statistics.
type Rule string

// The rules.
const (
	RuleAddress  Rule = "address"  // the address is not public
	RulePort     Rule = "port"     // the port is not one of the policy's
	RuleMetadata Rule = "metadata" // a service that hands out credentials
	RuleOwn      Rule = "own"      // an address of the fleet itself, never lifted
	RuleHost     Rule = "host"     // the spelling of the host
	RuleUnlisted Rule = "unlisted" // the policy permits listed hosts only
	RuleNarrowed Rule = "narrowed" // outside the hosts that the task named
	RuleProtocol Rule = "protocol" // not what a forward proxy serves
	RuleRequests Rule = "requests" // too many requests
	RuleBytes    Rule = "bytes"    // the byte budget is spent
)

// A Denial is one refused request. It is an error.
type Denial struct {
	Time   time.Time `json:"time"`
	Method string    `json:"method,omitempty"` // CONNECT for https, wss and ws
	URL    string    `json:"url"`              // without user, query and fragment; host:port of CONNECT
	Host   string    `json:"host"`
	Port   uint16    `json:"port,omitempty"`
	Rule   Rule      `json:"rule"`
	Reason string    `json:"reason"`          // a sentence
	Allow  string    `json:"allow,omitempty"` // entry by which an administrator can permit it, or ""
}

// Error says what was refused and why.
func (d *Denial) Error() string { return d.Reason }

// Target is host:port, or the host alone when the port is not known.
func (d *Denial) Target() string {
	if d.Port == 0 {
		return d.Host
	}
	return net.JoinHostPort(d.Host, itoa(d.Port))
}

func deny(host string, port uint16, rule Rule, format string, args ...any) *Denial {
	d := &Denial{Time: time.Now(), Host: clip(host), Port: port, Rule: rule, Reason: fmt.Sprintf(format, args...)}
	d.URL = d.Target()
	return d
}

func itoa(port uint16) string { return strconv.Itoa(int(port)) }
