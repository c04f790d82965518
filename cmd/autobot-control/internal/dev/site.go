package dev

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(template.New("page").Parse(pageSource))

// site is a web page of one address on this machine, so that the browser of the
// demo has something to visit without a network.
type site struct {
	address string // host:port, the only one that the agent's browser may reach here
	server  *http.Server
	done    chan struct{}
	page    atomic.Pointer[[]byte] // nil until the fleet is known
}

// startSite listens; the page is there once show was called.
func startSite() (*site, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve the page of the demo: %w", err)
	}
	s := &site{address: listener.Addr().String(), done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.serve)
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	go func() {
		defer close(s.done)
		_ = s.server.Serve(listener) // ends with stop; a page that is gone fails its task, which says so
	}()
	return s, nil
}

func (s *site) url() string { return "http://" + s.address + "/" }

func (s *site) serve(w http.ResponseWriter, _ *http.Request) {
	page := s.page.Load()
	if page == nil {
		http.Error(w, "the fleet is starting", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_, _ = w.Write(*page) // a reader who has gone does not need it
}

// fact is a line of the page about an executor.
type fact struct {
	Name, Does string
	Ready      bool
}

// does says for people what an executor is for.
var does = map[string]string{
	"exec":       "Your scripts as task types",
	"forward":    "Tasks handed to an HTTP service",
	"general":    "Checks, text statistics, file hashes",
	"openvino":   "Models on NPU, GPU or processor",
	"playwright": "A browser with guarded reach",
	"tts":        "Speech from text",
}

// show fills the page in with what runs.
func (s *site) show(status agentStatus) error {
	host, err := os.Hostname()
	if err != nil {
		host = "this machine"
	}
	data := struct {
		Host, Worker string
		Facts        []fact
	}{Host: host, Worker: status.WorkerID}
	for _, e := range status.Executors {
		data.Facts = append(data.Facts, fact{e.Name, does[e.Name], e.ready()})
	}
	var page bytes.Buffer
	if err := pageTemplate.Execute(&page, data); err != nil {
		return fmt.Errorf("write the page of the demo: %w", err)
	}
	content := page.Bytes()
	s.page.Store(&content)
	return nil
}

// stop ends the server and waits for it.
func (s *site) stop() {
	if err := s.server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return // the listener is what could not be closed; it ends with this process
	}
	<-s.done
}
