package redismodes

import (
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
)

// TLS, with a certificate for each program that the server asks for.
func TestTLSWithClientCertificates(t *testing.T) {
	t.Parallel()
	ca := redistest.NewCA(t)
	for _, name := range []string{"agent", "control", "test"} {
		ca.IssueClient(name)
	}
	srv := redistest.Start(t, redistest.WithTLS(t, ca), redistest.WithPassword("geheim"))
	as := func(name string) access {
		c := access{URL: "rediss://" + srv.TLSAddr(), Password: "geheim"}
		c.TLS.CAFile, c.TLS.CertFile, c.TLS.KeyFile = ca.File("ca.crt"), ca.File(name+".crt"), ca.File(name+".key")
		return c
	}
	f := startFleet(t, as("agent"), as("control"), as("test"))
	f.works()
	// The certificates are looked at anew for each connection.
	command(t, srv, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	f.works()
	f.stop()
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithUnixSocket(), redistest.WithPassword("geheim"))
	c := access{URL: "unix://" + srv.Socket(), Password: "geheim"}
	f := startFleet(t, c, c, c)
	f.works()
	command(t, srv, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	f.works()
	if list := srv.Client(t).ClientList(t.Context()).Val(); !strings.Contains(list, "addr="+srv.Socket()+":0") || strings.Count(list, "name=autobot:") < 3 {
		t.Errorf("who is connected:\n%s", list)
	}
	f.stop()
}

// works hands in tasks and waits for their end, and for the word of the doctors.
func (f *fleet) works() {
	f.t.Helper()
	f.round++
	tasks := work(strings.Repeat("r", f.round), 60)
	f.submit(tasks)
	f.awaitCompleted(tasks)
	f.check(tasks)
	f.nobodyBlamed()
	f.healthy(f.doctors())
}

// healthy checks that the doctors find no fault with Redis.
func (f *fleet) healthy(results map[string]e2e.Result) {
	f.t.Helper()
	for who, r := range results {
		if r.Code != 0 {
			f.t.Errorf("the doctor of the %s ends with %d:\n%s%s", who, r.Code, r.Stdout, r.Stderr)
		}
	}
}
