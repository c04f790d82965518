package redislist

import (
	"context"
	"embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/*.lua
var sources embed.FS

var scripts = struct {
	adopt, cancel, claim, conclude, del, deregister, expire, fail, finish, inboxes, lead, migrate, progress, promote,
	reap, recover, register, release, renew, reprioritise, resign, retry, submit, unexclude, unnamed *redis.Script
}{
	adopt: load("adopt"), cancel: load("cancel"), claim: load("claim"), conclude: load("conclude"), del: load("delete"),
	deregister: load("deregister"), expire: load("expire"), fail: load("fail"), finish: load("finish"), inboxes: load("inboxes"), lead: load("lead"),
	migrate: load("migrate"), progress: load("progress"), promote: load("promote"), reap: load("reap"),
	recover: load("recover"), register: load("register"), release: load("release"), renew: load("renew"),
	reprioritise: load("reprioritise"), resign: load("resign"), retry: load("retry"), submit: load("submit"),
	unexclude: load("unexclude"), unnamed: load("unnamed"),
}

// load builds the script NAME: common.lua, sweep.lua if its header asks for it
// ("uses: sweep"), and its own file.
func load(name string) *redis.Script {
	body := source(name)
	text := source("common")
	if strings.Contains(body, "-- uses: sweep\n") {
		text += source("sweep")
	}
	return redis.NewScript(text + body)
}

func source(name string) string {
	b, err := sources.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic(err) // the file is compiled in
	}
	return string(b)
}

// run calls a script by its hash, or with its text where the server does not
// know it (any more), with the key prefix as first argument.
func (b *Backend) run(ctx context.Context, s *redis.Script, keys []string, args ...any) *redis.Cmd {
	cmd := s.Run(ctx, b.rdb, keys, append([]any{string(b.key)}, args...)...)
	if err := cmd.Err(); err != nil {
		cmd.SetErr(tidy(err))
	}
	return cmd
}

// scriptPlace is what Redis adds to an error that a command in a script met.
var scriptPlace = regexp.MustCompile(`,? ?script: [0-9a-f]{40}, on @?user_script:\d+\.?`)

// serverError is an error of a command in a script, without the place in the
// script: it says nothing to whoever reads the log.
type serverError struct {
	error
	text string
}

func (e *serverError) Error() string { return e.text }
func (e *serverError) Unwrap() error { return e.error }

// tidy shortens what the server says about a fault of its own. Faults of the
// script itself keep their place.
func tidy(err error) error {
	if strings.HasPrefix(err.Error(), "ERR ") || !scriptPlace.MatchString(err.Error()) {
		return err
	}
	return &serverError{error: err, text: scriptPlace.ReplaceAllString(err.Error(), "")}
}

// rows reads an array reply whose elements are arrays of strings.
func rows(v any) ([][]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("script answered %T where a list was expected", v)
	}
	out := make([][]string, len(list))
	for i, e := range list {
		row, err := words(e)
		if err != nil {
			return nil, err
		}
		out[i] = row
	}
	return out, nil
}

// words reads an array of strings (or integers).
func words(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("script answered %T where a list was expected", v)
	}
	out := make([]string, len(list))
	for i, e := range list {
		switch e := e.(type) {
		case string:
			out[i] = e
		case int64:
			out[i] = fmt.Sprint(e)
		default:
			return nil, fmt.Errorf("script answered %T where text was expected", e)
		}
	}
	return out, nil
}
