package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// What an entry says.
const (
	Start = "start" // the task began
	End   = "end"   // it succeeded
	Child = "child" // it started a process; the entry's PID is that process
)

// Entry is one line of a ledger.
type Entry struct {
	ID      string
	Attempt int64
	What    string
	PID     int // of the executor process
	Time    time.Time
}

// Append adds an entry to the file in one write, so that many processes can
// share it.
func Append(file string, e Entry) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %d %s %d %d\n", e.ID, e.Attempt, e.What, e.PID, e.Time.UnixNano())
	return errors.Join(err, f.Close())
}

// Read returns all entries, none when there is no file yet.
func Read(file string) ([]Entry, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Entry
	for line := range strings.Lines(string(raw)) {
		var e Entry
		var ns int64
		if _, err := fmt.Sscanf(line, "%s %d %s %d %d\n", &e.ID, &e.Attempt, &e.What, &e.PID, &ns); err != nil {
			return nil, fmt.Errorf("ledger line %q: %w", line, err)
		}
		e.Time = time.Unix(0, ns)
		out = append(out, e)
	}
	return out, nil
}
