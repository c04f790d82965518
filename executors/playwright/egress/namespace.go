package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Mode says how a browser is kept to its guard.
type Mode string

// The modes.
const (
	// ModeNamespace: the browser runs in a network namespace that holds
	// nothing but the guard's listeners. It needs no settings of the browser.
	ModeNamespace Mode = "namespace"

	// ModeFlags: the browser's proxy settings and switches keep it to the
	// guard. A flaw of the browser could get past them.
	ModeFlags Mode = "flags"
)

// ErrNamespaceClosed is returned by the methods of a closed Namespace.
var ErrNamespaceClosed = errors.New("the network namespace is closed")

// A Namespace is a network namespace with nothing but a loopback device. One
// thread of this process lives in it. Processes started by Do inherit it;
// listeners made by Listen are reached from inside, while what the guard dials
// leaves by the namespace of the rest of the process.
type Namespace struct {
	calls chan call
	stop  chan struct{}
	done  chan struct{}
	once  sync.Once
}

type call struct {
	run  func()
	done chan struct{}
}

// NewNamespace makes a namespace. It needs CAP_SYS_ADMIN, as root has it
// outside of most containers. Close ends it.
func NewNamespace() (*Namespace, error) {
	n := &Namespace{calls: make(chan call), stop: make(chan struct{}), done: make(chan struct{})}
	ready := make(chan error)
	go n.live(ready)
	if err := <-ready; err != nil {
		<-n.done
		return nil, err
	}
	return n, nil
}

// Isolate makes a namespace where that is possible. Otherwise the mode is
// ModeFlags, the namespace nil, and the error says why: a fact for a health
// report, not a failure.
func Isolate() (*Namespace, Mode, error) {
	n, err := NewNamespace()
	if err != nil {
		return nil, ModeFlags, err
	}
	return n, ModeNamespace, nil
}

// live is the goroutine whose thread is in the namespace. It never unlocks
// the thread, which therefore ends with it; the runtime starts no other thread
// from a locked one, so nothing else gets into the namespace.
func (n *Namespace) live(ready chan<- error) {
	defer close(n.done)
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		ready <- fmt.Errorf("make a network namespace: %w (it needs CAP_SYS_ADMIN; without it the browser is kept to the guard by its settings)", err)
		return
	}
	if err := loopbackUp(); err != nil {
		ready <- fmt.Errorf("bring up loopback in a network namespace: %w", err)
		return
	}
	ready <- nil
	for {
		select {
		case c := <-n.calls:
			c.serve()
		case <-n.stop:
			return
		}
	}
}

// serve also survives a call that ends its goroutine's work by a panic: the
// panic goes on, but the waiting caller is not left behind.
func (c call) serve() {
	defer close(c.done)
	c.run()
}

// Do runs f on the thread in the namespace and waits for it. Processes that f
// starts are in the namespace; those with a parent-death signal get it when
// the namespace is closed. Goroutines that f starts are not in the namespace.
// Calls run one at a time.
func (n *Namespace) Do(f func() error) error {
	var err error
	c := call{run: func() { err = f() }, done: make(chan struct{})}
	select {
	case n.calls <- c:
		<-c.done
		return err
	case <-n.done:
		return ErrNamespaceClosed
	}
}

// Listen listens inside the namespace. It fits Options.ListenIn.
func (n *Namespace) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	var listener net.Listener
	err := n.Do(func() (err error) {
		var lc net.ListenConfig
		listener, err = lc.Listen(ctx, network, address)
		return err
	})
	return listener, err
}

// Close ends the thread. The kernel removes the namespace when the last
// process and socket in it are gone, so close lanes and browsers first.
func (n *Namespace) Close() error {
	n.once.Do(func() { close(n.stop) })
	<-n.done
	return nil
}

// loopbackUp sets the flag IFF_UP of "lo" in the namespace of this thread.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return fmt.Errorf("read the flags of lo: %w", err)
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return nil
}
