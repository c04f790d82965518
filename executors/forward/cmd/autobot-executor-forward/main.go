// Command autobot-executor-forward runs the forward executor for autobot-agent.
package main

import (
	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/forward"
	"github.com/autobot-fleet/autobot/internal/buildinfo"
)

func main() {
	executors.ServeFunc(forward.Name, buildinfo.Version, func() (executors.Executor, error) {
		return forward.FromEnvironment(buildinfo.Version)
	})
}
