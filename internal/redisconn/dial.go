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

// dialer returns the function that opens connections for db until closed ends.
// That function returns no error: see undialed.
func (m *Manager) dialer(closed context.Context, db *database) func(ctx context.Context, network, addr string) (net.Conn, error) {
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
		return conn, nil
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
	return secure, nil
}

// onConnect names the connection, which helps whoever looks at CLIENT LIST, and
// then calls then, except on connections to a Sentinel. A server that does not
// allow naming is no less useful.
func (m *Manager) onConnect(name string, then func(context.Context, *redis.Conn) error) func(context.Context, *redis.Conn) error {
	return func(ctx context.Context, conn *redis.Conn) error {
		if err := conn.ClientSetName(ctx, name).Err(); err != nil && classify(err).server {
			return err
		}
		if then == nil {
			return nil
		}
		if m.address.mode == sentinel && isSentinel(ctx, conn) {
			return nil
		}
		return then(ctx, conn)
	}
}

// isSentinel reports whether the other end is a Sentinel: go-redis calls the
// same function for those.
func isSentinel(ctx context.Context, conn *redis.Conn) bool {
	role, err := conn.Do(ctx, "role").Slice()
	return err == nil && len(role) > 0 && role[0] == "sentinel"
}
