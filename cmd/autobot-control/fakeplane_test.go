package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/autobot-fleet/autobot/client"
)

// fakePlane answers as a control plane would. The flags lead the command line
// to it.
func fakePlane(t *testing.T, answers map[string]http.HandlerFunc) (srv *httptest.Server, options client.Options, flags []string) {
	t.Helper()
	mux := http.NewServeMux()
	for pattern, answer := range answers {
		mux.HandleFunc(pattern, answer)
	}
	srv = httptest.NewTLSServer(mux)
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	options = client.Options{
		URL:     srv.URL,
		CAFile:  write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))),
		KeyFile: write("internal.key", "0123456789abcdef0123456789abcdef"),
	}
	return srv, options, []string{"--control-url", options.URL, "--ca-file", options.CAFile, "--key-file", options.KeyFile}
}

// says is an answer in JSON.
func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}
