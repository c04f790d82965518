package redisconn

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Alone returns a function that opens a client of a database with a single
// connection of its own, for one goroutine that blocks in a command. onConnect
// runs on each new connection, for example to learn its CLIENT ID. Queue layouts
// take it as their way to open waiters.
func (m *Manager) Alone(name string) func(onConnect func(context.Context, *redis.Conn) error) (redis.UniversalClient, error) {
	return func(onConnect func(context.Context, *redis.Conn) error) (redis.UniversalClient, error) {
		return m.Dedicated(name, DedicatedOptions{Name: "waiter", OnConnect: onConnect})
	}
}
