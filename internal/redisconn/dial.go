package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// dialer returns the function that opens connections for db until closed ends:
// to the address that go-redis asks for, or in a cluster to the node that holds
// our keys. That function returns no error: see undialed.
func (m *Manager) dialer(closed context.Context, db *database) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := m.dialTo(closed, db)
	if m.route == nil {
		return dial
	}
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(closed, cancel)()
		owner, err := m.route.find(ctx, func(ctx context.Context, node string) (map[string]bool, string, error) {
			return m.askNode(ctx, db, node)
		})
		if err != nil {
			return &undialed{err: &unreached{err}, to: dialedAddr{network, m.Address()}}, nil
		}
		conn, err := dial(ctx, network, owner)
		if _, failed := conn.(*undialed); failed {
			m.route.lost(owner)
		}
		return conn, err
	}
}

// dialTo returns the function that opens a connection to an address.
func (m *Manager) dialTo(closed context.Context, db *database) func(ctx context.Context, network, addr string) (net.Conn, error) {
	d := &net.Dialer{
		Timeout: m.cfg.DialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: m.cfg.KeepAlive, Interval: max(m.cfg.KeepAlive/4, time.Second), Count: 4,
		},
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, m.cfg.DialTimeout)
		defer cancel()
		defer context.AfterFunc(closed, cancel)() // go-redis would let it go on
		conn, err := d.DialContext(ctx, network, addr)
		if err == nil && m.tls != nil && network != "unix" {
			conn, err = handshake(ctx, conn, addr, m.tls)
		}
		db.dialed(err)
		if err != nil {
			return &undialed{err: &unreached{err}, to: dialedAddr{network, addr}}, nil
		}
		return m.conns.track(conn, addr), nil
	}
}

func handshake(ctx context.Context, conn net.Conn, addr string, base *tls.Config) (net.Conn, error) {
	cfg := base.Clone()
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		cfg.ServerName = host
	}
	secure := tls.Client(conn, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(tls.RecordHeaderError)) {
			err = fmt.Errorf("no TLS handshake with %s: %w (if Redis does not speak TLS there, the address begins with redis://)", addr, err)
		}
		return nil, err
	}
	return &alertConn{Conn: secure}, nil
}

// onConnect greets a new connection and then calls then, except on connections
// to a Sentinel.
func (m *Manager) onConnect(name string, then func(context.Context, *redis.Conn) error) func(context.Context, *redis.Conn) error {
	return func(ctx context.Context, conn *redis.Conn) error {
		sentinel, err := m.greet(ctx, conn, name)
		if err != nil || sentinel || then == nil {
			return err
		}
		return then(ctx, conn)
	}
}
