package probes

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	pw "github.com/mxschmitt/playwright-go"

	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// patience is for one probe on a loaded machine.
const patience = 45 * time.Second

// runProbes runs the whole table in all settings, in the namespaces.
func runProbes(t *testing.T) {
	setUpNetwork(t)
	n := &names{}
	sniff := newSniffer(t)
	serveNames(t, n)
	serveWeb(t)
	for _, mode := range []egress.Mode{"", egress.ModeFlags, egress.ModeNamespace} {
		title := "without a guard"
		if mode != "" {
			title = "mode " + string(mode)
		}
		t.Run(title, func(t *testing.T) {
			n.forget()
			s := start(t, mode, n)
			r := &runner{setting: s, sniff: sniff, lanes: make(map[uint16]bool)}
			r.all(t)
		})
	}
}

// A runner runs the table in one setting.
type runner struct {
	*setting
	sniff  *sniffer
	lanes  map[uint16]bool // ports
	failed []string        // names of probes
	done   int
}

func (r *runner) all(t *testing.T) {
	all := slices.Clone(table)
	for _, a := range addresses {
		all = append(all, probe{name: "goto " + a, open: a, host: "any"})
	}
	if r.mode != "" {
		all = append(all, inert...)
	}
	begin := r.sniff.count()
	for i, p := range all {
		from := r.sniff.count()
		if err := r.run(p.number(i + 1)); err != nil {
			t.Errorf("%s: %v", p.name, err)
			r.failed = append(r.failed, p.name)
		}
		r.done++
		if r.mode != "" {
			for _, leak := range r.leaks(from) {
				t.Errorf("%s: %s went past the guard", p.name, leak)
			}
		}
	}
	if r.mode == "" {
		t.Logf("%d of %d probes reach their target", r.done-len(r.failed), r.done)
		return
	}
	r.permitted(t)
	if err := r.browser.Close(); err != nil {
		t.Error(err)
	}
	if err := r.sniff.barrier(context.Background()); err != nil {
		t.Fatal(err)
	}
	leaks := r.leaks(begin)
	if len(leaks) > 0 {
		t.Errorf("%d packets went past the guard in the whole run", len(leaks))
	}
	t.Logf("%d of %d probes end as they should, %d packets past the guard", r.done-len(r.failed), r.done, len(leaks))
}

// number fills in the target of a probe.
func (p probe) number(i int) probe {
	switch p.host {
	case "":
		p.host = fmt.Sprintf("127.1.0.%d", i)
	default:
		p.host = strings.ReplaceAll(p.host, "{N}", fmt.Sprint(i))
	}
	fill := strings.NewReplacer("{H}", p.host, "{T}", "http://"+p.host, "{S}", "https://"+p.host, "{W}", "ws://"+p.host, "{X}", "wss://"+p.host)
	p.open, p.js = fill.Replace(p.open), fill.Replace(p.js)
	return p
}

// run runs one probe and says what is wrong with how it ended.
func (r *runner) run(p probe) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	v, err := r.visit(ctx, egress.Limits{})
	if err != nil {
		return err
	}
	defer v.close()
	if v.lane != nil {
		addr, err := netip.ParseAddrPort(strings.TrimPrefix(v.lane.URL(), "http://"))
		if err != nil {
			return err
		}
		r.lanes[addr.Port()] = true
	}
	if p.lone && r.mode == egress.ModeNamespace {
		p.end = silent
	}
	from := r.sniff.count()
	finished := make(chan any, 1)
	go func() { finished <- r.drive(v, p) }()
	defer func() { v.close(); <-finished }() // the end of the context ends the driving
	if r.mode == "" {
		err := r.reached(ctx, p, from)
		select {
		case value := <-finished:
			if finished <- value; err != nil {
				return fmt.Errorf("%w; the script returned %v", err, value)
			}
		default:
		}
		return err
	}
	switch p.end {
	case denied:
		if !r.denials.await(ctx, func() bool { return v.lane.DenialCount() > 0 }) {
			return fmt.Errorf("the guard denied nothing; it was asked for %d requests", v.lane.Requests())
		}
	case silent:
		select {
		case value := <-finished:
			finished <- value
			if fmt.Sprint(value) != "0" {
				return fmt.Errorf("the script returned %v, want 0", value)
			}
		case <-ctx.Done():
			return fmt.Errorf("the script does not end")
		}
	}
	if err := r.sniff.barrier(ctx); err != nil {
		return err
	}
	if p.js != "" && p.end == silent {
		return nil // the page may be closed
	}
	return holdsNoSecret(v)
}

// drive opens the address and runs the script. Navigations that fail and
// scripts whose page goes away are part of it.
func (r *runner) drive(v *visit, p probe) any {
	page := v.page
	address := p.open
	if address == "" {
		address = "http://site.test/"
	}
	if _, err := page.Goto(address, pw.PageGotoOptions{WaitUntil: pw.WaitUntilStateDomcontentloaded}); err != nil && p.js != "" {
		return err
	}
	if p.again {
		return r.again(v, address)
	}
	if p.js == "" {
		return 0
	}
	value, err := page.Evaluate("async () => {" + p.js + "}")
	if err != nil {
		return err
	}
	return value
}

// again opens an address in a second context behind the same lane.
func (r *runner) again(v *visit, address string) any {
	second, err := r.browser.NewContext(v.options)
	if err != nil {
		return err
	}
	defer second.Close()
	page, err := second.NewPage()
	if err != nil {
		return err
	}
	_, _ = page.Goto(address)
	if text, err := page.Content(); r.mode != "" && err == nil && strings.Contains(text, secret) {
		return "the second page shows the secret"
	}
	return 0
}

// reached waits until a packet goes to the target of the probe.
func (r *runner) reached(ctx context.Context, p probe, from int) error {
	var want netip.Addr
	if strings.Contains(p.host, ".test") {
		id := strings.TrimPrefix(p.host[:strings.Index(p.host, ".")], "p")
		want = netip.MustParseAddr("127.1.0." + id)
	} else if p.host != "any" {
		want = netip.MustParseAddr(p.host)
	}
	hit := func(q packet) bool {
		dst := q.dst.Addr().String()
		return q.dst.Addr() == want || !want.IsValid() && q.proto == "tcp" && dst != siteAddr
	}
	if !r.sniff.bell.await(ctx, func() bool { return slices.ContainsFunc(r.sniff.since(from), hit) }) {
		return fmt.Errorf("does not reach its target without a guard either, so it proves nothing (%d packets to others)", len(r.sniff.since(from)))
	}
	return nil
}

// leaks are the packets that are neither from the guard nor to it.
func (r *runner) leaks(from int) []packet {
	return slices.DeleteFunc(r.sniff.since(from), func(p packet) bool {
		toLane := p.proto == "tcp" && p.dst.Addr().String() == "127.0.0.1" && r.lanes[p.dst.Port()]
		return p.src.Addr().String() == guardAddr || toLane
	})
}

// holdsNoSecret looks at every page of the visit.
func holdsNoSecret(v *visit) error {
	for _, page := range v.context.Pages() {
		if text, err := page.Content(); err == nil && strings.Contains(text, secret) {
			return fmt.Errorf("a page shows the secret")
		}
	}
	return nil
}
