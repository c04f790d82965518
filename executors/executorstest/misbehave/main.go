// Command misbehave is an executor that does what executors should not. Tests
// of the host side launch it; $MISBEHAVE says what it does before its
// handshake, the operation of a task what it does later.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

func main() {
	switch os.Getenv("MISBEHAVE") {
	case "garbage":
		fmt.Println("Loading model ... done")
	case "long":
		fmt.Print(strings.Repeat("long ", 40_000))
	case "exit":
		fmt.Fprintln(os.Stderr, "library libnothing.so.1 is missing")
		os.Exit(3)
	case "hang":
		fmt.Fprintln(os.Stderr, "waiting for a device")
		time.Sleep(10 * time.Minute)
	case "build":
		executors.ServeFunc("misbehave", "1", func() (executors.Executor, error) {
			return nil, errors.New("settings of the executor: colour: is an unknown field")
		})
		return
	}
	executors.Serve(executor{})
}

type executor struct{}

func (executor) Describe(context.Context) (executors.Description, error) {
	if os.Getenv("MISBEHAVE") == "describe" {
		panic("no description today")
	}
	return executors.Description{
		Name: "misbehave", Version: "1", Concurrency: 8, Ready: true,
		Types: []executors.TypeDescription{{Type: "misbehave", Ops: []string{"nothing"}, MaxTimeout: time.Hour}},
	}, nil
}

func (executor) Execute(ctx context.Context, task executors.Task) (executors.Result, error) {
	var p struct {
		Op string `json:"op"`
	}
	if err := json.Unmarshal(task.Payload, &p); err != nil {
		return executors.Result{}, err
	}
	out := func(s string) (executors.Result, error) {
		return executors.Result{Op: p.Op, Output: json.RawMessage(s)}, nil
	}
	switch p.Op {
	case "panic":
		panic("index out of range [3]")
	case "panic elsewhere":
		go panic("nobody recovers this")
		<-ctx.Done()
		return executors.Result{}, ctx.Err()
	case "exit":
		os.Exit(7)
	case "print":
		return out(printEverywhere())
	case "bad text":
		return badText(task)
	case "reserved name":
		return out(`{"meta": 1}`)
	case "no object":
		return out(`[1, 2]`)
	case "too large":
		return out(`{"x": "` + strings.Repeat("x", executors.MaxOutput) + `"}`)
	case "large":
		return out(`{"x": "` + strings.Repeat("x", executors.MaxOutput-100) + `"}`)
	case "nil error":
		var e *executors.Error
		return executors.Result{}, e
	case "ignore":
		time.Sleep(10 * time.Minute)
	case "env":
		raw, err := json.Marshal(map[string][]string{"env": os.Environ()})
		return executors.Result{Output: raw}, err
	case "wait":
		task.Progress(executors.Progress{Percent: 40, Stage: "wait"})
		<-ctx.Done()
		return executors.Result{}, errors.New("interrupted") // not the context's error
	}
	return out(`{}`)
}

// printEverywhere prints in every way that knows nothing of the handshake.
func printEverywhere() string {
	fmt.Println("printed with fmt")
	_, _ = fmt.Fprintln(os.Stdout, "printed to os.Stdout")
	cmd := exec.Command("/bin/sh", "-c", "echo printed by a child; head -c 1000000 /dev/zero; echo; echo end of noise")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Sprintf(`{"error_of_child": %q}`, err)
	}
	return `{"printed": true}`
}

func badText(task executors.Task) (executors.Result, error) {
	const bad = "gr\xfc\xdf"
	task.Log(bad, "log %s", bad)
	task.Progress(executors.Progress{Percent: 900, Stage: bad, Unit: bad, Message: bad + strings.Repeat("m", 1000)})
	task.Progress(executors.Progress{Percent: 5, Stage: "back"})
	task.Artifact(executors.Artifact{Name: bad, Kind: bad, MediaType: bad, Meta: map[string]string{bad: bad}})
	e := executors.Errorf(executors.CodeEngineError, "message %s", bad)
	e.Field, e.Hint, e.Detail = bad, bad, strings.Repeat(bad, 10_000)
	e.Output = json.RawMessage(`{"partial": "` + bad + `"}`)
	return executors.Result{}, e
}
