package control

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// grace is how long requests in progress may take when the control plane
// stops.
const grace = 10 * time.Second

// listeners are the addresses where the API is served.
type listeners struct {
	https net.Listener // nil when http.listen is off
	plain net.Listener // nil without http.plain_listen
}

func openListeners(cfg HTTPConfig) (*listeners, error) {
	l := &listeners{}
	var err error
	if cfg.Listen != ListenOff {
		if l.https, err = listenOn(cfg.Listen, "http.listen"); err != nil {
			return nil, err
		}
	}
	if cfg.PlainListen != "" {
		if l.plain, err = listenOn(cfg.PlainListen, "http.plain_listen"); err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

// listenOn opens one address. A taken port is an error: on another port
// nobody would find the API.
func listenOn(addr, key string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		hint := "set " + key + " to an address of this machine"
		if errors.Is(err, syscall.EADDRINUSE) {
			hint = "another program uses the port: stop it, or set " + key + " to another port"
		}
		return nil, fmt.Errorf("open the API on %s: %w (%s)", addr, err, hint)
	}
	return ln, nil
}

// addresses are where the API listens, as the system tells them.
func (l *listeners) addresses() (out []string) {
	for _, ln := range []net.Listener{l.https, l.plain} {
		if ln != nil {
			out = append(out, ln.Addr().String())
		}
	}
	return out
}

// openable is addr as host and port that can be connected to: listening on all
// addresses is no address to go to, and name stands for it.
func openable(addr net.Addr, name string) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort(name, strconv.Itoa(tcp.Port))
}

func (l *listeners) close() {
	for _, ln := range []net.Listener{l.https, l.plain} {
		if ln != nil {
			_ = ln.Close()
		}
	}
}

// drainer is a handler with streams that outlive a shutdown unless told.
type drainer interface {
	Server() *http.Server
	Drain(ctx context.Context) error
}

// serve answers requests until ctx is done, then ends event streams and lets
// running requests finish.
func (l *listeners) serve(ctx context.Context, api drainer, tlsConfig *tls.Config) error {
	g, ctx := errgroup.WithContext(ctx)
	start := func(ln net.Listener, secure bool) {
		if ln == nil {
			return
		}
		srv := api.Server()
		g.Go(func() error {
			var err error
			if secure {
				srv.TLSConfig = tlsConfig
				err = srv.ServeTLS(ln, "", "")
			} else {
				err = srv.Serve(ln)
			}
			if !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve the API on %s: %w", ln.Addr(), err)
			}
			return nil
		})
		g.Go(func() error {
			<-ctx.Done()
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
			defer cancel()
			_ = api.Drain(end) // what is left is cut below
			if srv.Shutdown(end) != nil {
				_ = srv.Close()
			}
			return nil
		})
	}
	start(l.https, true)
	start(l.plain, false)
	return g.Wait()
}
