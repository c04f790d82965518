// Command autobot-executor-general runs the general executor for autobot-agent.
package main

import (
	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/general"
	"github.com/autobot-fleet/autobot/internal/buildinfo"
)

func main() {
	executors.ServeFunc(general.Name, buildinfo.Version, func() (executors.Executor, error) {
		return general.FromEnvironment(buildinfo.Version)
	})
}
