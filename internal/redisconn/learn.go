package redisconn

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// learn looks at the outcome of an operation for signs that the server is not,
// or not now, the one to talk to. Then the connections are dropped, so that the
// next attempts ask anew where it is: a replica was promoted elsewhere, a name
// points to another machine, a slot has moved.
func (m *Manager) learn(err error) {
	if err == nil {
		return
	}
	if m.route != nil {
		if to, ok := movedTo(err, m.address.hosts[0]); ok {
			m.route.moved(to)
			m.conns.leave(to)
			return
		}
	}
	if elsewhere(err) {
		if m.route != nil {
			m.route.lost("")
		}
		m.conns.drop()
	}
}

// elsewhere reports whether the master may be elsewhere by now.
func elsewhere(err error) bool {
	switch Reason(err) {
	case ReasonReadonly, ReasonLoading, ReasonMasterdown, ReasonClusterdown:
		return true
	}
	// A block that ends so because the master became a replica. One that was
	// ended by us reads "UNBLOCKED client unblocked via CLIENT UNBLOCK".
	var reply redis.Error
	return errors.As(err, &reply) && strings.HasPrefix(reply.Error(), "UNBLOCKED force unblock")
}
