package tts

import (
	"sync"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
)

// TestATextThatKillsTheEngineCostsOnlyItsOwnTask lets an engine die of one word
// while it speaks for somebody else.
func TestATextThatKillsTheEngineCostsOnlyItsOwnTask(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, func(s *Settings) {
		s.Concurrency = 2
		s.EspeakPath = script(t, `case "$*" in *--version*|*--voices*) exec espeak-ng "$@";; esac
text=$(cat); case "$text" in *crashme*) kill -SEGV $$;; esac; printf '%s\n' "$text" | espeak-ng "$@"`)
	})
	var good, bad spoken
	var wg sync.WaitGroup
	wg.Go(func() {
		good = run(t.Context(), t, e, payload(t, map[string]any{"text": "One. Two. Three. Four. Five. Six."}), nil)
	})
	wg.Go(func() {
		bad = run(t.Context(), t, e, payload(t, map[string]any{"text": "One. Please crashme now."}), nil)
	})
	wg.Wait()
	if good.err != nil || len(good.output.Segments) != 6 {
		t.Errorf("the neighbour: %v", good.err)
	}
	if bad.err == nil || bad.err.Code != executors.CodeEngineError || bad.err.Message != "segment 2 of 2: espeak-ng ended with signal: segmentation fault" {
		t.Errorf("%v", bad.err)
	}
	if d, err := e.Describe(t.Context()); err != nil || !d.Ready {
		t.Errorf("afterwards: %+v, %v", d, err)
	}
}
