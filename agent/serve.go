package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// listeners are the places where the local API is served.
type listeners struct {
	unix net.Listener
	tcp  net.Listener // nil when http.listen is off
}

// listen opens the API's Unix socket (only this user may connect) and its TCP
// address. A taken port is an error: on another port nobody would find it.
func listen(cfg Config) (*listeners, error) {
	path := filepath.Join(cfg.StateDir, socketPath)
	// Ours alone while we hold the state folder's lock; a leftover is stale.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("replace the socket of the local API: %w", err)
	}
	unix, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("open the socket of the local API: %w", err)
	}
	// The folder is 0700 already, so nobody got in between.
	if err := os.Chmod(path, 0o600); err != nil {
		_ = unix.Close()
		return nil, fmt.Errorf("protect the socket of the local API: %w", err)
	}
	l := &listeners{unix: unix}
	if cfg.HTTP.Listen == listenOff {
		return l, nil
	}
	l.tcp, err = net.Listen("tcp", cfg.HTTP.Listen)
	if err != nil {
		_ = unix.Close()
		hint := "set http.listen to an address of this machine, or to off"
		if errors.Is(err, syscall.EADDRINUSE) {
			hint = "another program uses the port: stop it, set http.listen to another port, or to off"
		}
		return nil, fmt.Errorf("open the local API on %s: %w (%s)", cfg.HTTP.Listen, err, hint)
	}
	return l, nil
}

// close gives the addresses up without having served them.
func (l *listeners) close() {
	_ = l.unix.Close()
	if l.tcp != nil {
		_ = l.tcp.Close()
	}
}

// address is where the TCP API listens, "" when it is off.
func (l *listeners) address() string {
	if l.tcp == nil {
		return ""
	}
	return l.tcp.Addr().String()
}

// serve answers requests until ctx is done, then lets running ones finish for
// a moment.
func (a *api) serve(ctx context.Context, l *listeners) error {
	g, ctx := errgroup.WithContext(ctx)
	start := func(on net.Listener, overTCP bool) {
		srv := &http.Server{
			Handler:           a.handler(overTCP),
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       30 * time.Second,
			IdleTimeout:       time.Minute,
			MaxHeaderBytes:    16 << 10,
			ErrorLog:          zap.NewStdLog(a.log),
		}
		g.Go(func() error {
			if err := srv.Serve(on); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve the local API on %s: %w", on.Addr(), err)
			}
			return nil
		})
		g.Go(func() error {
			<-ctx.Done()
			grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			if err := srv.Shutdown(grace); err != nil {
				_ = srv.Close() // a slow download does not hold up the end
			}
			return nil
		})
	}
	start(l.unix, false)
	if l.tcp != nil {
		start(l.tcp, true)
	}
	return g.Wait()
}
