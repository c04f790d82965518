package redisconn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// route finds the cluster node that holds our keys. The hash tag of the prefix
// puts all of them into one slot, so a cluster is one server to us, which
// happens to move: commands without a key (TIME, INFO, SCAN, CLIENT UNBLOCK)
// have to go to that node as well, and so do all connections.
type route struct {
	slot  int
	seeds []string

	mu    sync.Mutex
	owner string   // "" until it is asked for, and after a failure
	nodes []string // all that were heard of
}

// askLimit bounds asking one node; the next may know.
const askLimit = 2 * time.Second

// asker asks a node who the owner is. See Manager.askNode.
type asker = func(ctx context.Context, node string) (nodes map[string]bool, owner string, err error)

// find returns the address of the node, which it asks for if need be.
func (r *route) find(ctx context.Context, ask asker) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owner != "" {
		return r.owner, nil
	}
	nodes := slices.Clone(r.seeds)
	for _, n := range r.nodes {
		if !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	// One that was cut off tells what was: let another be the first next time.
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	var errs error
	for _, node := range nodes {
		callCtx, cancel := context.WithTimeout(ctx, askLimit)
		known, owner, err := ask(callCtx, node)
		cancel()
		if err == nil {
			r.owner = owner
			r.nodes = r.nodes[:0]
			for n := range known {
				r.nodes = append(r.nodes, n)
			}
			return owner, nil
		}
		if ctx.Err() != nil {
			return "", err
		}
		errs = moreTelling(errs, err)
	}
	return "", errs
}

// moreTelling chooses what to report when no node could help: that one refuses
// our password says more than that another is down.
func moreTelling(a, b error) error {
	if a == nil || IsWait(a) && !IsWait(b) {
		return b
	}
	return a
}

// moved notes that a node named another one as the owner.
func (r *route) moved(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owner = to
}

// lost notes that the owner cannot be used: it is asked for again. An empty
// address stands for whoever is the owner.
func (r *route) lost(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if owner == "" || r.owner == owner {
		r.owner = ""
	}
}

// askNode asks a node of a cluster who owns our slot, and for the addresses of
// all nodes that serve slots.
func (m *Manager) askNode(ctx context.Context, db *database, node string) (nodes map[string]bool, owner string, err error) {
	rdb := redis.NewClient(&redis.Options{
		Addr: node, Dialer: m.dialTo(m.life, db), CredentialsProviderContext: m.credentials(), MaxRetries: -1,
		DialTimeout: m.cfg.DialTimeout, DialerRetries: 1, ReadTimeout: m.cfg.Timeout, WriteTimeout: m.cfg.Timeout,
		ContextTimeoutEnabled: true, PoolSize: 1, PipelinePoolSize: -1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer func() { _ = rdb.Close() }()
	slots, err := rdb.ClusterSlots(ctx).Result() //nolint:staticcheck // Redis 6.2 has no CLUSTER SHARDS
	if Reason(err) == ReasonPermission {
		return askByKey(ctx, rdb, node, m.cfg.Prefix)
	}
	if err != nil {
		if strings.Contains(err.Error(), "cluster support disabled") {
			err = notCluster(node)
		}
		return nil, "", err
	}
	nodes = map[string]bool{}
	for _, s := range slots {
		for i, n := range s.Nodes {
			addr := reachable(n.Addr, node)
			nodes[addr] = true
			if i == 0 && s.Start <= m.route.slot && m.route.slot <= s.End {
				owner = addr
			}
		}
	}
	if owner == "" {
		return nil, "", &unfit{reason: ReasonClusterdown, wait: true, text: fmt.Sprintf("no node of the cluster serves slot %d, that of redis.prefix", m.route.slot)}
	}
	return nodes, owner, nil
}

// askByKey finds the owner without CLUSTER SLOTS: a node that does not own a
// key says who does.
func askByKey(ctx context.Context, rdb *redis.Client, node, prefix string) (nodes map[string]bool, owner string, err error) {
	err = rdb.Exists(ctx, prefix+"autobot:nothing").Err()
	owner = node
	if to, ok := movedTo(err, node); ok {
		owner, err = to, nil
	}
	return map[string]bool{owner: true}, owner, err
}

// movedTo returns the address in the reply MOVED of a node.
func movedTo(err error, node string) (addr string, ok bool) {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return "", false
	}
	words := strings.Fields(reply.Error())
	if len(words) != 3 || words[0] != "MOVED" {
		return "", false
	}
	return reachable(words[2], node), true
}

// reachable completes the address of a node as another node, which we have
// reached, knows it: an empty host or port is that of the other node, and so is
// a loopback address if that one is elsewhere.
func reachable(addr, via string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	viaHost, viaPort, err := net.SplitHostPort(via)
	if err != nil {
		return addr
	}
	loopback := func(h string) bool { return h == "localhost" || net.ParseIP(h).IsLoopback() }
	if host == "" || host == "?" || loopback(host) && !loopback(viaHost) {
		host = viaHost
	}
	if port == "0" {
		port = viaPort
	}
	return net.JoinHostPort(host, port)
}

// slotOf is the slot of a name with one hash tag: CRC16 (XMODEM: polynomial
// 0x1021, start 0) of what is between the braces, modulo 16384. Source: the
// specification of Redis Cluster, "Key distribution model".
func slotOf(name string) int {
	if _, rest, ok := strings.Cut(name, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			name = tag
		}
	}
	crc := uint16(0)
	for i := range len(name) {
		crc ^= uint16(name[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc % 16384)
}
