// Command autobot-executor-playwright runs tasks of types playwright and
// browser for an agent.
package main

import (
	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/playwright"
	"github.com/autobot-fleet/autobot/internal/buildinfo"
)

func main() {
	playwright.LaunchIfAsked()
	executors.ServeFunc(playwright.Name, buildinfo.Version, playwright.FromEnvironment)
}
