// Command autobot-executor-ledger runs the ledger executor for tests.
package main

import (
	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
)

func main() {
	executors.ServeFunc(ledger.Name, "1", ledger.FromEnvironment)
}
