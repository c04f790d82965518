// Command autobot-executor-openvino runs models for an agent.
package main

import (
	"os"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/openvino"
	"github.com/autobot-fleet/autobot/internal/buildinfo"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == openvino.CheckFlag {
		os.Exit(openvino.Check(os.Args[2], os.Stdout, os.Stderr))
	}
	executors.ServeFunc(openvino.Name, buildinfo.Version, func() (executors.Executor, error) {
		settings := openvino.DefaultSettings()
		if err := executors.Settings(&settings); err != nil {
			return nil, err
		}
		return openvino.New(settings)
	})
}
