package sysload

import "time"

// diskUsage describes one file system.
type diskUsage struct {
	free    uint64 // bytes for ordinary users
	percent float64
	refusal string // what Config.Also said
}

// diskProbe asks for the free space of one directory, with at most one
// question under way: a question that is never answered is not asked again.
type diskProbe struct {
	path    string
	ask     func(path string) (diskUsage, error)
	pending chan diskAnswer // nil: nothing asked
	asked   time.Time
}

type diskAnswer struct {
	usage diskUsage
	err   error
}

// read waits at most patience for an answer. Stuck is how long the file
// system has not answered, 0 when it did. read is for one goroutine.
func (d *diskProbe) read(patience time.Duration) (u diskUsage, stuck time.Duration, err error) {
	if d.pending == nil {
		answer := make(chan diskAnswer, 1) // the goroutine ends even if nobody listens any more
		d.pending, d.asked = answer, time.Now()
		go func() {
			u, err := d.ask(d.path)
			answer <- diskAnswer{u, err}
		}()
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case a := <-d.pending:
		d.pending = nil
		return a.usage, 0, a.err
	case <-timeout.C:
		return diskUsage{}, time.Since(d.asked), nil
	}
}
