package egress

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// resolveFleet bounds the look-up of the fleet's own names at the start of an
// executor.
const resolveFleet = 2 * time.Second

// FleetAddrs returns the addresses of the fleet's own servers, Redis and the
// control plane, as the agent names them to its executors (executors.EnvFleet).
// They belong into Policy.DeniedAddrs. A name that cannot be resolved now is
// left out; what it stands for is refused all the same if it is not public.
func FleetAddrs() []netip.AddrPort {
	ctx, cancel := context.WithTimeout(context.Background(), resolveFleet)
	defer cancel()
	var out []netip.AddrPort
	for entry := range strings.SplitSeq(os.Getenv(executors.EnvFleet), ",") {
		host, text, err := net.SplitHostPort(entry)
		if err != nil {
			continue
		}
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			continue
		}
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			continue
		}
		for _, a := range addrs {
			out = append(out, netip.AddrPortFrom(plain(a), uint16(port)))
		}
	}
	return out
}
