// Command autobot-executor-tts runs tasks of type tts for an agent.
package main

import (
	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/tts"
	"github.com/autobot-fleet/autobot/internal/buildinfo"
)

func main() {
	executors.ServeFunc(tts.Name, buildinfo.Version, func() (executors.Executor, error) {
		settings := tts.DefaultSettings()
		if err := executors.Settings(&settings); err != nil {
			return nil, err
		}
		return tts.New(settings)
	})
}
