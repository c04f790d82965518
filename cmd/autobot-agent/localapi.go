package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/internal/configfile"
	"github.com/autobot-fleet/autobot/internal/devfleet"
)

const maxAnswer = 8 << 20 // bytes of an answer that is read

// localAPI speaks to the agent that runs on this machine: over the socket in
// its state folder, else over the TCP address of its configuration.
type localAPI struct {
	cfg *agent.Config
}

// local returns the way to the agent of this machine that the configuration
// names.
func (a *app) local() (localAPI, error) {
	cfg, _, err := a.loadLocal()
	return localAPI{cfg}, err
}

// loadLocal reads the configuration of the agent on this machine: the one that
// the user or the administrator chose, else that of an agent which runs without
// one, else that of a running dev.
func (a *app) loadLocal() (*agent.Config, *configfile.Loaded, error) {
	cfg, loaded, err := a.load()
	if err != nil {
		return nil, nil, err
	}
	standard := agent.Defaults()
	chosen := a.ConfigPath != "" || len(loaded.Files()) > 0 || cfg.StateDir != standard.StateDir || cfg.HTTP.Listen != standard.HTTP.Listen
	if _, err := os.Stat(agent.SocketPath(cfg.StateDir)); chosen || !errors.Is(err, fs.ErrNotExist) {
		return cfg, loaded, nil
	}
	dev := devfleet.Find()
	if dev == nil {
		return cfg, loaded, nil
	}
	overrides, err := a.Overrides()
	if err != nil {
		return nil, nil, err
	}
	return agent.LoadConfig(dev.AgentConfig(), overrides) // its warnings, of variables, have been told
}

// status asks for the agent's status.
func (l localAPI) status(ctx context.Context) (agent.Status, error) {
	var s agent.Status
	err := l.get(ctx, "/status", &s)
	return s, err
}

// get asks for path and decodes the answer into v.
func (l localAPI) get(ctx context.Context, path string, v any) error {
	return l.call(ctx, http.MethodGet, path, v)
}

// post sends an empty body to path and decodes the answer into v.
func (l localAPI) post(ctx context.Context, path string, v any) error {
	return l.call(ctx, http.MethodPost, path, v)
}

func (l localAPI) call(ctx context.Context, method, path string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	socket := agent.SocketPath(l.cfg.StateDir)
	overSocket := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	err := exchange(ctx, &http.Transport{DialContext: overSocket}, method, "http://localhost"+path, v)
	if err == nil || !notThere(err) {
		return err
	}
	socketErr := err
	if l.cfg.HTTP.Listen != "off" {
		err = exchange(ctx, &http.Transport{}, method, "http://"+l.cfg.HTTP.Listen+path, v)
		if err == nil || !notThere(err) {
			return err
		}
	}
	if errors.Is(socketErr, fs.ErrPermission) {
		return cli.Unreachablef("the state folder %s belongs to another user, and nothing answers on %s: run this command as that user or as root", l.cfg.StateDir, l.cfg.HTTP.Listen)
	}
	return cli.Unreachablef("no agent runs on this machine with the state folder %s (start it: systemctl start autobot-agent, or autobot-agent run; if it has another folder, give --state-dir or --config)", l.cfg.StateDir)
}

// notThere reports whether nothing listens at an address.
func notThere(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
}

// exchange makes one request.
func exchange(ctx context.Context, transport *http.Transport, method, url string, v any) error {
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("ask the agent: %w", err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return cli.Exitf(cli.ExitUnreachable, "ask the agent: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return cli.Exitf(cli.ExitUnreachable, "read the agent's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var problem struct {
			Detail string `json:"detail"`
		}
		if json.Unmarshal(body, &problem) != nil || problem.Detail == "" {
			return cli.Unreachablef("%s answers %s, which an agent would not: does another program listen there?", url, resp.Status)
		}
		code := cli.ExitFailure
		if resp.StatusCode == http.StatusServiceUnavailable {
			code = cli.ExitTryLater
		}
		return cli.Exit(code, errors.New(problem.Detail))
	}
	if err := json.Unmarshal(body, v); err != nil {
		return cli.Unreachablef("%s does not answer as an agent would: does another program listen there?", url)
	}
	return nil
}
