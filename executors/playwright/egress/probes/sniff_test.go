package probes

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// A packet is one that a process sent: the begin of a TCP connection or a UDP
// datagram.
type packet struct {
	proto    string // tcp or udp
	src, dst netip.AddrPort
	name     string // that a DNS query asks for
}

func (p packet) String() string {
	s := fmt.Sprintf("%s %s -> %s", p.proto, p.src, p.dst)
	if p.name != "" {
		s += " asks for " + p.name
	}
	return s
}

// A bell tells everyone who listens that something has changed.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

func (b *bell) rung() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}

// await waits until ok holds; it is asked again whenever the bell rings.
func (b *bell) await(ctx context.Context, ok func() bool) bool {
	for {
		rung := b.rung()
		if ok() {
			return true
		}
		select {
		case <-rung:
		case <-ctx.Done():
			return false
		}
	}
}

// A sniffer notes what leaves any process of this network namespace.
type sniffer struct {
	file   *os.File
	bell   bell
	marker net.Conn
	done   chan struct{}

	mu      sync.Mutex
	packets []packet
	marks   int
	marked  int
}

const markerPort = 9 // discard

func newSniffer(t *testing.T) *sniffer {
	t.Helper()
	every := int(uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, every)
	if err != nil {
		t.Fatalf("open a packet socket: %v", err)
	}
	s := &sniffer{file: os.NewFile(uintptr(fd), "packets"), done: make(chan struct{})}
	dialer := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(guardAddr)}}
	if s.marker, err = dialer.Dial("udp", net.JoinHostPort(siteAddr, fmt.Sprint(markerPort))); err != nil {
		t.Fatal(err)
	}
	go s.run()
	t.Cleanup(func() {
		if raw, err := s.file.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) {
				if stats, err := unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); err != nil || stats.Drops > 0 {
					t.Errorf("the sniffer has missed packets: %+v, %v", stats, err)
				}
			})
		}
		s.marker.Close()
		s.file.Close()
		<-s.done
	})
	return s
}

func (s *sniffer) run() {
	defer close(s.done)
	raw, err := s.file.SyscallConn()
	if err != nil {
		return
	}
	buffer := make([]byte, 64<<10)
	for {
		var n int
		var from unix.Sockaddr
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			n, from, failed = unix.Recvfrom(int(fd), buffer, 0)
			return failed != unix.EAGAIN
		})
		if err != nil {
			return // closed
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		if failed != nil || !ok || link.Pkttype != unix.PACKET_OUTGOING {
			continue // on loopback each packet comes by twice
		}
		if p, ok := parse(buffer[:n]); ok {
			s.note(p)
		}
	}
}

func (s *sniffer) note(p packet) {
	s.mu.Lock()
	if p.src.Addr().String() == guardAddr && p.dst.Port() == markerPort {
		s.marked++
	} else {
		s.packets = append(s.packets, p)
	}
	s.mu.Unlock()
	s.bell.ring()
}

// parse reads an IP packet without extension headers, as processes send them.
func parse(b []byte) (packet, bool) {
	var p packet
	var src, dst netip.Addr
	var proto byte
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		size := int(b[0]&15) * 4
		src, dst, proto = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20])), b[9]
		b = b[min(size, len(b)):]
	case len(b) >= 40 && b[0]>>4 == 6:
		src, dst, proto = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40])), b[6]
		b = b[40:]
	default:
		return p, false
	}
	if len(b) < 8 {
		return p, false
	}
	p.src = netip.AddrPortFrom(src, binary.BigEndian.Uint16(b))
	p.dst = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(b[2:]))
	switch {
	case proto == unix.IPPROTO_TCP && len(b) >= 20 && b[13]&0x12 == 0x02: // SYN without ACK
		p.proto = "tcp"
	case proto == unix.IPPROTO_UDP && p.src.Port() != 53: // answers of the name server
		p.proto = "udp"
		if p.dst.Port() == 53 {
			p.name = question(b[8:])
		}
	default:
		return p, false
	}
	return p, true
}

func question(message []byte) string {
	var parser dnsmessage.Parser
	if _, err := parser.Start(message); err != nil {
		return "?"
	}
	q, err := parser.Question()
	if err != nil {
		return "?"
	}
	return q.Name.String()
}

// barrier returns when everything that was sent before has been noted.
func (s *sniffer) barrier(ctx context.Context) error {
	s.mu.Lock()
	s.marks++
	want := s.marks
	s.mu.Unlock()
	if _, err := s.marker.Write([]byte{0}); err != nil && s.retry(err) != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if !s.bell.await(ctx, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.marked >= want }) {
		return fmt.Errorf("the sniffer does not see its own marker")
	}
	return nil
}

// retry sends the marker again: the first write after an ICMP answer reports
// that answer in place of sending.
func (s *sniffer) retry(error) error {
	_, err := s.marker.Write([]byte{0})
	return err
}

// since returns what was noted after the first n packets.
func (s *sniffer) since(n int) []packet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]packet(nil), s.packets[n:]...)
}

func (s *sniffer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.packets)
}
