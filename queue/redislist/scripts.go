package redislist

import (
	"context"
	"embed"
	"fmt"
	"regexp"
	"slices"
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

// load builds the script NAME: its own file behind those helpers of common.lua,
// and of sweep.lua if its header asks for it ("uses: sweep"), that it needs.
func load(name string) *redis.Script {
	body := source(name)
	helpers := source("common")
	if strings.Contains(body, "-- uses: sweep\n") {
		helpers += source("sweep")
	}
	return redis.NewScript(needed(helpers, body) + body)
}

var (
	helperStart = regexp.MustCompile(`(?m)^local `)
	helperNames = regexp.MustCompile(`^local (?:function )?(\w+(?:, *\w+)*)`)
	luaComment  = regexp.MustCompile(`(?m)^ *--.*$`)
	luaWord     = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// needed picks the helpers that body uses, and those that they use: a script
// makes each of its functions anew at every call, which costs the server more
// than many a move does. A helper is what stands from one "local" at the start
// of a line to the next, and uses only what stands before it.
func needed(helpers, body string) string {
	used := map[string]bool{}
	use := func(text string) {
		for _, word := range luaWord.FindAllString(luaComment.ReplaceAllString(text, ""), -1) {
			used[word] = true
		}
	}
	use(body)
	starts := helperStart.FindAllStringIndex(helpers, -1)
	var picked []string
	end := len(helpers)
	for _, at := range slices.Backward(starts) {
		text := helpers[at[0]:end]
		end = at[0]
		names := strings.Split(helperNames.FindStringSubmatch(text)[1], ",")
		if slices.ContainsFunc(names, func(name string) bool { return used[strings.TrimSpace(name)] }) {
			use(text)
			picked = append(picked, text)
		}
	}
	slices.Reverse(picked)
	return strings.Join(picked, "")
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
