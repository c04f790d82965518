package bench

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

// figures are the lines printed at the end, by benchmark; the last run of each
// counts.
var figures struct {
	sync.Mutex
	names []string
	text  map[string]string
}

// figure notes a line for people.
func figure(b *testing.B, format string, args ...any) {
	figures.Lock()
	defer figures.Unlock()
	if figures.text == nil {
		figures.text = map[string]string{}
	}
	if !slices.Contains(figures.names, b.Name()) {
		figures.names = append(figures.names, b.Name())
	}
	figures.text[b.Name()] = fmt.Sprintf(format, args...)
}

func TestMain(m *testing.M) {
	logging.Disable() // it would write into the lines of the results
	code := m.Run()
	if len(figures.names) > 0 {
		fmt.Println()
	}
	for _, name := range figures.names {
		fmt.Println(figures.text[name])
	}
	os.Exit(code)
}

// percentile returns the p-th percentile, nearest rank, in milliseconds.
func percentile(sorted []time.Duration, p int) float64 {
	i := (len(sorted)*p + 99) / 100
	return float64(sorted[max(i, 1)-1].Microseconds()) / 1000
}
