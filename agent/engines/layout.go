package engines

import "github.com/autobot-fleet/autobot/executors/engines"

// At returns the layout of an engines folder, for those who import only this
// package.
func At(dir string) engines.Layout { return engines.At(dir) }
