package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/backoff"
	"github.com/autobot-fleet/autobot/internal/redisconn"
)

// factsEvery is how often the server is asked about itself: settings such as
// maxmemory-policy can be changed while it runs.
const factsEvery = time.Minute

// watchFacts warns, once, when the server is set up in a way that loses tasks.
// The findings are also in the metrics and in the health of the connections.
func (c *Control) watchFacts(ctx context.Context) error {
	pause := backoff.New(time.Second, 10*time.Second)
	var told []string
	for {
		wait := pause.Next()
		callCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
		facts, err := c.redis.Facts(callCtx)
		cancel()
		if err != nil && told == nil && redisconn.Misfit(err) {
			return badConfig("redis.url", errors.New(redisconn.Explain(err)))
		}
		if err == nil { // an outage is the monitor's to report
			warnings := redisconn.Warnings(facts)
			lacking := c.redis.Lacking(ctx, redisconn.Control)
			c.lacking.Store(&lacking)
			if lacking != "" {
				warnings = append(warnings, lacking) // looked at again soon: it is repaired while we run
			} else {
				pause.Reset()
				wait = factsEvery
			}
			told = c.tell(facts, warnings, told)
			if c.Strict && len(told) > 0 {
				return badConfig("redis", fmt.Errorf("refused because of --strict: %s", strings.Join(told, " ")))
			}
		}
		if !backoff.Sleep(ctx, wait) {
			return nil
		}
	}
}

// tell logs the warnings that are new since told, and returns what is known now.
func (c *Control) tell(facts redisconn.Facts, warnings, told []string) []string {
	for _, w := range warnings {
		if !slices.Contains(told, w) {
			c.log.Warn(strings.TrimSuffix(w, "."))
		}
	}
	if told == nil {
		c.log.Info("redis found", zap.Stringer("facts", facts))
	}
	if len(told) > 0 && len(warnings) == 0 {
		c.log.Info("redis is set up as it should be now")
	}
	return append([]string{}, warnings...) // never nil: the server is known now
}
