package chaos

import "sync"

// Submitted is a task as its producer knows it.
type Submitted struct {
	ID         string
	MaxRetries int
	Harmful    bool // its executor process dies of it
	Failing    bool // it fails by itself, now and then or always
	Accepted   bool // somebody has said so, or it was seen to be there
	Doubled    bool // its id may have been pushed twice
	Retries    int  // by an operator, counted when asked for
}

// book is what the producers and operators write down. It may be used from
// many goroutines.
type book struct {
	mu    sync.Mutex
	tasks []*Submitted
	byID  map[string]*Submitted
}

func newBook() *book { return &book{byID: map[string]*Submitted{}} }

// add writes a task down, before it is sent.
func (b *book) add(s Submitted) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks = append(b.tasks, &s)
	b.byID[s.ID] = &s
}

func (b *book) change(id string, how func(*Submitted)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.byID[id]; s != nil {
		how(s)
	}
}

func (b *book) accept(id string)    { b.change(id, func(s *Submitted) { s.Accepted = true }) }
func (b *book) double(id string)    { b.change(id, func(s *Submitted) { s.Doubled = true }) }
func (b *book) noteRetry(id string) { b.change(id, func(s *Submitted) { s.Retries++ }) }

// all is a copy of what was written down.
func (b *book) all() []Submitted {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]Submitted, len(b.tasks))
	for i, s := range b.tasks {
		out[i] = *s
	}
	return out
}

// accepted is how many tasks somebody has accepted.
func (b *book) accepted() int {
	n := 0
	for _, s := range b.all() {
		if s.Accepted {
			n++
		}
	}
	return n
}
