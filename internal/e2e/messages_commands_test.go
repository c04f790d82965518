package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
)

// A badCommand is a command line with which something is wrong.
type badCommand struct {
	line string // words separated by spaces; 'quoted ones' may hold some
	code int
	want string // part of the message
}

// words splits a command line.
func (c badCommand) words() []string {
	var out []string
	for i, part := range strings.Split(c.line, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

// check runs the command and looks at what it says.
func (c badCommand) check(t *testing.T, program string, env []string, more ...string) {
	t.Helper()
	r := e2e.Command(t, env, program, append(c.words(), more...)...)
	what := filepath.Base(program) + " " + c.line
	if r.Code != c.code || !strings.Contains(r.Stderr, c.want) {
		t.Errorf("%s: code %d, want %d with %q\n%s%s", what, r.Code, c.code, c.want, r.Stdout, r.Stderr)
	}
	if r.Stdout != "" && c.code == 2 {
		t.Errorf("%s: it prints %q", what, r.Stdout)
	}
	if !strings.HasPrefix(r.Stderr, filepath.Base(program)+": ") {
		t.Errorf("%s: the message does not say whose it is: %q", what, r.Stderr)
	}
	clearSentence(t, what, r.Stderr)
}

var badAgentCommands = []badCommand{
	{"runn", 2, `unknown command "runn" for autobot-agent (did you mean run?)`},
	{"frobnicate", 2, `unknown command "frobnicate" for autobot-agent (see autobot-agent --help)`},
	{"run extra", 2, `run takes no arguments, got "extra"`},
	{"status extra", 2, `takes no arguments, got "extra"`},
	{"config chek", 2, `(did you mean check?)`},
	{"config check --nosuch", 2, "unknown flag: --nosuch (see autobot-agent config check --help)"},
	{"config check --config", 2, "flag needs an argument: --config"},
	{"executors lst", 2, "(did you mean list?)"},
	{"executors list x", 2, "takes no arguments"},
	{"drain now", 2, "takes no arguments"},
	{"drain --timeout never", 2, `--timeout must be a duration such as 500ms, 90s or 24h, got "never"`},
	{"status --output xml", 2, `--output must be table, json, yaml, got "xml"`},
	{"completion", 2, "completion takes one shell: bash, zsh or fish"},
	{"completion tcsh", 2, `not "tcsh"`},
	{"version x", 2, "takes no arguments"},
	{"help nosuch", 2, `there is no command "nosuch" (see autobot-agent --help)`},
	{"run --set foo", 2, `--set takes key=value, for example --set limits.memory_percent=90, got "foo"`},
	{"config check --set worker.foo=1", 78, "flag: worker.foo: unknown key"},
	{"config check --set worker.queue=x", 78, "the nearest known key is worker.queues"},
	{"run --max-concurrent lots", 78, `flag: worker.max_concurrent: must be a whole number, not "lots"`},
	{"run --max-concurrent 0", 78, "flag: worker.max_concurrent: must be 1..10000, got 0"},
	{"run --profile quick", 78, `flag: worker.profile: must be seed or fast, got "quick"`},
	{"run --worker-id 'a b'", 78, "flag: worker.id: "},
	{"run --http-listen nonsense", 78, "flag: http.listen: "},
	{"run --http-listen 0.0.0.0:8080", 78, "http.listen: "},
	{"run --control-url http://x:1 --set control.key_file=/key", 78, "control.url: "},
	{"status", 69, "no agent runs on this machine with the state folder"},
	{"drain", 69, "(start it: systemctl start autobot-agent, or autobot-agent run"},
	{"resume", 69, "no agent runs on this machine"},
	{"executors list", 69, "tries the executors without it"},
}

var badControlCommands = []badCommand{
	{"srve", 2, "(did you mean serve?)"},
	{"serve x", 2, "takes no arguments"},
	{"serve --redis-url redis://127.0.0.1:1 --profile quick", 78, `flag: profile: must be seed or fast, is "quick"`},
	{"serve --redis-url redis://127.0.0.1:1 --http-listen 99999", 78, "flag: http.listen: must be host:port"},
	{"serve --redis-url redis://127.0.0.1:1 --set failover.check_interval=1x", 78, "flag: failover.check_interval: must be a duration"},
	{"serve --redis-url redis://127.0.0.1:1 --set failover.check_intervall=1s", 78, "the nearest known key is failover.check_interval"},
	{"serve --redis-url redis://127.0.0.1:1 --set failover.max_retries=-1", 78, "flag: failover.max_retries: must be between 0 and 1000, is -1"},
	{"dev x", 2, "takes no arguments"},
	{"tasks lst", 2, "(did you mean list?)"},
	{"tasks submit", 2, "tasks submit needs the type of the task, or - for JSON lines"},
	{"tasks submit general --type x", 2, "unknown flag: --type"},
	{"tasks submit 'Bad Type!'", 2, `type: must be 1-64 of [a-z0-9_.-], got "Bad Type!"`},
	{"tasks submit general --priority urgent", 2, `priority: must be critical, high, normal, low or 4..1, got "urgent"`},
	{"tasks submit general --delay=-3", 2, `--delay must be a duration such as 500ms, 90s or 24h, got "-3"`},
	{"tasks submit general --id a:result", 2, `id: must be 1-200 of [A-Za-z0-9._-], got "a:result"`},
	{"tasks submit general --max-retries=-1", 2, "max_retries: must be 0..1000, got -1"},
	{"tasks submit general --max-retries many", 2, `--max-retries must be a whole number, got "many"`},
	{"tasks submit general --run-at yesterday", 2, "--run-at: must be a time with a zone as in 2026-12-24T18:00:00Z"},
	{"tasks submit general --label x", 2, `--label takes name=value, got "x"`},
	{"tasks submit general @nosuch", 2, "nosuch: no such file or directory"},
	{"tasks submit general {op:1}", 2, "payload: is not valid JSON: "},
	{"tasks submit general [1]", 2, "payload: must be a JSON object, got a list"},
	{"tasks show", 2, "takes the id of one task, got 0 arguments"},
	{"tasks show a b", 2, "takes the id of one task, got 2 arguments"},
	{"tasks result", 2, "takes the id of one task"},
	{"tasks cancel", 2, "needs the id of a task, or several"},
	{"tasks retry", 2, "tasks retry needs ids, or at least one of --status"},
	{"tasks watch", 2, "needs the id of a task"},
	{"tasks list --limit many", 2, `--limit must be a whole number, got "many"`},
	{"workers show", 2, "takes the id of one worker"},
	{"workers drain", 2, "needs the id of a worker"},
	{"queues pause", 2, "needs the name of a queue"},
	{"auth token --ttl forever", 2, `--ttl must be a duration such as 500ms, 90s or 24h, got "forever"`},
	{"redis info --database nosuch --redis-url redis://127.0.0.1:1", 2, `unknown Redis database "nosuch"`},
	{"completion", 2, "bash, zsh or fish"},
	{"help me", 2, `there is no command "me"`},
	{"redis info", 78, "redis.url: is required: the address of Redis, for example redis://main.lan:6379"},
	{"doctor", 78, "redis.url: is required"},
	{"config check", 78, "redis.url: is required"},
	{"tasks list", 69, "no control plane is set up on this machine and none runs (start one for a try: autobot-control dev"},
	{"tasks submit general", 69, "no control plane is set up on this machine"},
	{"workers list", 69, "no control plane is set up on this machine"},
	{"queues list", 69, "no control plane is set up on this machine"},
	{"failover log", 69, "no control plane is set up on this machine"},
	{"tasks list --control-url http://127.0.0.1:1 --key-file key", 2, "must look like https://main.lan:8443"},
	{"tasks list --control-url https://127.0.0.1:1", 2, "--control-url needs --key-file or --token-file"},
	{"tasks list --control-url https://127.0.0.1:1 --key-file key", 69, "the control plane at https://127.0.0.1:1 is unreachable: connection refused"},
	{"tasks list --control-url https://127.0.0.1:1 --key-file nosuch", 1, "nosuch: no such file or directory"},
	{"tasks list --control-url https://127.0.0.1:1 --key-file key --ca-file key", 2, "key holds no PEM certificate"},
	{"redis info --redis-url redis://127.0.0.1:1", 69, "connection refused"},
	{"redis health --redis-url unix:///no/such.sock", 69, "/no/such.sock"},
}

func TestBadCommandsAreTold(t *testing.T) {
	t.Parallel()
	dir := e2e.ShortDir(t)
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte(strings.Repeat("k", 43)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + dir, "AUTOBOT_STATE_DIR=" + filepath.Join(dir, "state")}
	agentProgram, controlProgram := e2e.AgentProgram(t), e2e.ControlProgram(t)
	inDir := func(c badCommand) badCommand {
		for _, file := range []string{"--key-file ", "--ca-file "} {
			c.line = strings.ReplaceAll(c.line, file, file+dir+"/")
		}
		return c
	}
	for _, c := range badAgentCommands {
		c.check(t, agentProgram, env)
	}
	for _, c := range badControlCommands {
		inDir(c).check(t, controlProgram, env)
	}
}

func TestRefusalsOfAControlPlaneAreTold(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithPassword("right"))
	c := e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	program := e2e.ControlProgram(t)
	wrong := filepath.Join(e2e.ShortDir(t), "wrong")
	if err := os.WriteFile(wrong, []byte(strings.Repeat("k", 43)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := []string{"--control-url", c.URL, "--ca-file", c.CAPath, "--key-file", c.KeyPath}
	for _, bad := range []badCommand{
		{"tasks show nosuch", 1, `read task "nosuch": no such task`},
		{"tasks result nosuch", 1, "no such task"},
		{"tasks cancel nosuch", 1, "no such task"},
		{"tasks retry nosuch", 1, "no such task"},
		{"tasks watch nosuch", 1, "no such task"},
		{"tasks list --status wat", 2, "must be one of queued, running, completed, failed"},
		{"tasks submit general --worker nosuch", 2, `no worker "nosuch" is registered`},
		{"workers show nosuch", 1, "no such worker"},
		{"workers drain nosuch", 1, "no such worker"},
		{"queues pause 'a b'", 2, `must be 1-64 of [a-z0-9_.-], got "a b"`},
	} {
		bad.check(t, program, nil, at...)
	}
	badCommand{"tasks list", 1, "refuses this caller"}.check(t, program, nil, "--control-url", c.URL, "--ca-file", c.CAPath, "--key-file", wrong)
	badCommand{"tasks list", 69, "name the ca.crt of the control plane as the CA file"}.check(t, program, nil, "--control-url", c.URL, "--key-file", c.KeyPath)
	for _, url := range []string{"redis://:wrong@" + srv.Addr(), "redis://" + srv.Addr()} {
		badCommand{"redis info --redis-url " + url, 69, "(autobot-control doctor has the repair)"}.check(t, program, nil)
		for _, name := range []string{"control", "agent"} {
			p := map[string]string{"control": program, "agent": e2e.AgentProgram(t)}[name]
			r := e2e.Command(t, []string{"AUTOBOT_EXECUTORS_DIRS=" + e2e.Executors(t, "general")}, p, "doctor", "--redis-url", url, "--state-dir", filepath.Join(e2e.ShortDir(t), "s"))
			if r.Code == 0 || !strings.Contains(r.Stdout, "fault    redis") || !strings.Contains(r.Stdout, "redis.password_file") || strings.Contains(r.Stdout+r.Stderr, "wrong@") {
				t.Errorf("%s doctor: code %d\n%s%s", name, r.Code, r.Stdout, r.Stderr)
			}
			noInsides(t, name+" doctor", r.Stdout+r.Stderr)
		}
	}

	// Redis goes away: the API asks to try later.
	srv.Stop()
	e2e.Await(t, "the control plane says so", func() bool { code, _ := c.Call("GET", "/readyz", ""); return code == 503 })
	badCommand{"tasks list", 75, "Redis cannot serve now"}.check(t, program, nil, at...)
	badCommand{"tasks submit general", 75, "Redis cannot serve now"}.check(t, program, nil, at...)
	c.Kill()
	badCommand{"tasks list", 69, "is unreachable: connection refused"}.check(t, program, nil, at...)
}

// What a start runs into that has to do with this machine.
func TestStartsThatCannotBeAreTold(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c := e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	a := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), ID: "ours", Executors: []string{"general"}})
	a.AwaitClaiming()
	dir := e2e.ShortDir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := " --state-dir " + filepath.Join(dir, "own") + " --redis-url " + srv.URL()
	taken := strings.TrimPrefix(c.URL, "https://")
	for _, bad := range []badCommand{
		{"run --state-dir " + a.StateDir, 1, "another agent (pid "},
		{"run --http-listen " + taken + own, 75, "another program uses the port"},
		{"run --http-listen off --state-dir " + file + "/x", 1, "set state_dir to a folder that this user may write"},
	} {
		bad.check(t, e2e.AgentProgram(t), nil)
	}
	for _, bad := range []badCommand{
		{"serve --redis-url " + srv.URL() + " --state-dir " + c.StateDir, 1, "another control plane (pid "},
		{"serve --redis-url " + srv.URL() + " --state-dir " + file + "/x", 1, "set state_dir to a folder that this user may write"},
		{"serve --set auth.internal_key_file=" + file + own, 78, "has 1 bytes, at least 32 are needed; repair: "},
		{"serve --set tls.cert_file=" + file + " --set tls.key_file=" + file + own, 78, "tls.cert_file: "},
	} {
		bad.check(t, e2e.ControlProgram(t), nil)
	}
	// The log of a start may come first here.
	r := e2e.Command(t, nil, e2e.ControlProgram(t), append([]string{"serve", "--http-listen", taken}, strings.Fields(own)...)...)
	if r.Code != 75 || !strings.Contains(r.Stderr, "another program uses the port: stop it, or set http.listen to another port") {
		t.Errorf("serve on a taken port: code %d\n%s", r.Code, r.Stderr)
	}
}
