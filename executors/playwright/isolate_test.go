package playwright

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// In mode namespace the browser has no network but its proxies; in both modes
// a page cannot send packets past them.
func TestModesOfTheGuard(t *testing.T) {
	t.Parallel()
	stun, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stun.Close() })
	heard := make(chan string, 10)
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := stun.ReadFrom(buf)
			if err != nil {
				return
			}
			heard <- fmt.Sprintf("%d bytes from %s", n, from)
		}
	}()
	web := site(t, map[string]string{"/": fmt.Sprintf(`<title>RTC</title><p id=out></p><script>
		const p = new RTCPeerConnection({iceServers: [{urls: 'stun:%s'}]}); let n = 0;
		p.onicecandidate = e => { if (e.candidate) n++; else out.textContent = 'candidates ' + n };
		p.createDataChannel('x'); p.createOffer().then(o => p.setLocalDescription(o));
		setTimeout(() => { out.textContent = out.textContent || 'candidates ' + n }, 2000)</script>`, stun.LocalAddr())})
	own, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"auto", "flags"} {
		t.Run(mode, func(t *testing.T) {
			s := testSettings(t, at(web))
			s.Guard = mode
			e := newExecutor(t, s, egress.Options{})
			d := e.do(t, `{"url":"`+web.URL+`/","steps":[{"action":"wait_for","selector":"text=candidates"},{"action":"get_text","selector":"#out","as":"n"}]}`, nil).good(t)
			if d.output.Values["n"] != "candidates 0" {
				t.Errorf("the page found %v", d.output.Values["n"])
			}
			theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", e.browserNow(t).pid))
			if err != nil {
				t.Fatal(err)
			}
			if apart := theirs != own; apart != (e.mode == egress.ModeNamespace) {
				t.Errorf("mode %s, but the browser is in %s and we are in %s", e.mode, theirs, own)
			}
			description, err := e.Describe(soon(t))
			if err != nil || !strings.Contains(strings.Join(description.Capabilities, " "), "guard:"+string(e.mode)) {
				t.Errorf("describe = %+v, %v", description, err)
			}
		})
	}
	select {
	case packet := <-heard:
		t.Errorf("a packet came past the guard: %s", packet)
	default:
	}
}
