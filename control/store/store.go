package store

import "github.com/redis/go-redis/v9"

// Store speaks to one Redis database. It holds no state of its own.
type Store struct {
	rdb    redis.UniversalClient
	prefix string
}

// New returns a Store on rdb, which stays the caller's to close. Prefix starts
// the names of all keys.
func New(rdb redis.UniversalClient, prefix string) *Store { return &Store{rdb: rdb, prefix: prefix} }
