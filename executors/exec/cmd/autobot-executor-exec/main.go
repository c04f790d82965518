// Command autobot-executor-exec runs the exec executor for autobot-agent.
package main

import (
	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/exec"
	"github.com/autobot-fleet/autobot/internal/buildinfo"
)

func main() {
	executors.ServeFunc(exec.Name, buildinfo.Version, func() (executors.Executor, error) {
		return exec.FromEnvironment(buildinfo.Version)
	})
}
