//go:build unix

package redistest

// An Option changes how a server is started.
type Option func(*Server)

// WithAOF makes the server write an append-only file, so that data survives
// Stop, Kill and Restart. Without it a restarted server is empty.
func WithAOF() Option { return WithConfig("appendonly", "yes") }

// WithPassword makes the server require password (of the default user).
func WithPassword(password string) Option {
	return func(s *Server) {
		s.password = password
		s.config = append(s.config, setting{"requirepass", password})
	}
}

// WithConfig sets one line of redis.conf, for example ("maxmemory", "10mb").
// The value may hold several words, as in the file. Later lines win.
func WithConfig(key, value string) Option {
	return func(s *Server) { s.config = append(s.config, setting{key, value}) }
}

// WithUnixSocket makes the server listen on a Unix socket as well. Its path is
// Server.Socket.
func WithUnixSocket() Option {
	return func(s *Server) { s.wantSocket = true }
}

// setting is one line of redis.conf.
type setting struct{ key, value string }
