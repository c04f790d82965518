package redisconn

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// library takes what go-redis would print to stderr. go-redis has one logger
// per process, so ours passes it on to the newest Manager that is open.
var library = &libraryLogger{}

type libraryLogger struct {
	once   sync.Once
	mu     sync.RWMutex
	owners []*Manager
}

func (l *libraryLogger) add(m *Manager) {
	l.once.Do(func() { redis.SetLogger(l) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owners = append(l.owners, m)
}

// remove forgets m. When it returns, nothing is written to its log any more.
func (l *libraryLogger) remove(m *Manager) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, o := range l.owners {
		if o == m {
			l.owners = append(l.owners[:i:i], l.owners[i+1:]...)
			return
		}
	}
}

// Printf implements the logger of go-redis. Its lines repeat what the commands
// return, so they matter only to someone who looks closely.
func (l *libraryLogger) Printf(_ context.Context, format string, args ...any) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if len(l.owners) == 0 {
		return
	}
	log := l.owners[len(l.owners)-1].log
	if entry := log.Check(zap.DebugLevel, "go-redis"); entry != nil {
		entry.Write(zap.String("text", fmt.Sprintf(format, args...)))
	}
}
