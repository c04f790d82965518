package main

import (
	"os"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/executorstest"
	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestTheExampleKeepsTheContract(t *testing.T) {
	t.Parallel()
	executorstest.Run(t, executorstest.Binary{
		Path: executorstest.Build(t, "github.com/autobot-fleet/autobot/docs/examples/autobot-executor-primes"),
		Tasks: []executorstest.Case{
			{Name: "count", Type: "primes", Payload: `{"limit": 100}`, Check: func(t *testing.T, r executorstest.Report) {
				t.Helper()
				if got := string(r.Result.Output); got != `{"count":25}` {
					t.Errorf("output = %s, want 25 primes", got)
				}
			}},
			{Name: "list", Type: "primes", Payload: `{"op": "list", "limit": 10}`},
			{Name: "nothing below two", Type: "primes", Payload: `{"limit": 1}`, Code: executors.CodeInvalidInput},
		},
		Long: executorstest.Case{Type: "primes", Payload: `{"limit": 1000000000000}`},
	})
}

func TestTheManualShowsThisExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../executors.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```go\n"+string(code)+"```\n") {
		t.Error("docs/executors.md shows another program than docs/examples/autobot-executor-primes/main.go: copy the file into the page")
	}
}
