package auth

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Ten failures in 300 s are answered as such, the eleventh is too many.
const (
	failureBurst  = 10
	failureWindow = 300 * time.Second
	maxAddresses  = 4096
)

// failures limits wrong credentials per address.
type failures struct {
	mu sync.Mutex
	by map[string]*offender
}

type offender struct {
	limit   *rate.Limiter
	last    time.Time
	limited bool
}

func newFailures() *failures { return &failures{by: map[string]*offender{}} }

// add counts a failure of ip. It returns 0 while the sender is within the
// limit, else how long to wait; first is set on the first one over the limit.
func (f *failures) add(ip string, now time.Time) (wait time.Duration, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.by[ip]
	if o == nil {
		f.makeRoom(now)
		o = &offender{limit: rate.NewLimiter(rate.Every(failureWindow/failureBurst), failureBurst)}
		f.by[ip] = o
	}
	o.last = now
	if o.limit.AllowN(now, 1) {
		o.limited = false
		return 0, false
	}
	first, o.limited = !o.limited, true
	return failureWindow / failureBurst, first
}

// makeRoom forgets addresses that have been quiet for a window, and the
// quietest one when that is not enough: memory stays bounded under a scan.
func (f *failures) makeRoom(now time.Time) {
	if len(f.by) < maxAddresses {
		return
	}
	oldest, oldestAt := "", now
	for ip, o := range f.by {
		if now.Sub(o.last) > failureWindow {
			delete(f.by, ip)
		} else if !o.last.After(oldestAt) {
			oldest, oldestAt = ip, o.last
		}
	}
	if len(f.by) >= maxAddresses {
		delete(f.by, oldest)
	}
}

// remoteIP is the address of the connection. Forwarding headers are not
// believed: anybody can write them. An IPv6 host counts by its /64.
func remoteIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() && !addr.IsLoopback() {
		if p, err := addr.Prefix(64); err == nil {
			return p.String()
		}
	}
	return addr.String()
}
