package executors

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"

	"github.com/autobot-fleet/autobot/executors/child"
)

const (
	maxLine   = 16 << 10 // bytes of a line of output
	keepLines = 20       // last lines kept for Exit
	keepRunes = 400      // of each of them
)

// A lineSink turns the output of a process, which may be anything, into lines
// of bounded length and valid UTF-8.
type lineSink struct {
	mu   sync.Mutex
	to   io.Writer
	tail []string
}

func newLineSink(to io.Writer) *lineSink {
	if to == nil {
		to = io.Discard
	}
	return &lineSink{to: to}
}

// copy reads lines until r ends. A long line is cut, and the rest of it read
// and thrown away, so that the writer never blocks on a full pipe.
func (s *lineSink) copy(r io.Reader) {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		lost := 0
		if errors.Is(err, bufio.ErrBufferFull) {
			line = bytes.Clone(line)
			for errors.Is(err, bufio.ErrBufferFull) {
				var more []byte
				more, err = in.ReadSlice('\n')
				lost += len(more)
			}
			line = fmt.Appendf(line, " … [%d bytes cut]", lost)
		}
		if len(line) > 0 {
			s.line(line)
		}
		if err != nil {
			return
		}
	}
}

// line hands one line on.
func (s *lineSink) line(raw []byte) {
	text := strings.TrimRight(validUTF8(string(raw)), "\r\n")
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.TrimSpace(text) != "" {
		if len(s.tail) == keepLines {
			s.tail = s.tail[1:]
		}
		s.tail = append(s.tail, printable(cutRunes(text, keepRunes)))
	}
	_, _ = io.WriteString(s.to, text+"\n") // a failing log must not stop the process
}

func (s *lineSink) last() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.tail...)
}

// printable replaces control characters, for text that ends up on terminals.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return '�'
		}
		return r
	}, s)
}

// Exit says how an executor process ended.
type Exit struct {
	Code   int      // exit code, -1 after a signal
	Signal string   // "killed", "segmentation fault", ...; "" without a signal
	Killed bool     // we killed it
	Output []string // the last lines it printed, oldest first
}

// String is a short sentence with the last line of output.
func (e Exit) String() string {
	s := fmt.Sprintf("exit code %d", e.Code)
	if e.Signal != "" {
		s = "signal: " + e.Signal
	}
	return s + e.said()
}

// said is the last line of output as the end of a sentence.
func (e Exit) said() string {
	if len(e.Output) == 0 {
		return ""
	}
	return ", last output: " + cutRunes(e.telling(), 200)
}

// telling is the last line of output, or the first one of a panic: what
// follows that is a stack.
func (e Exit) telling() string {
	for _, line := range e.Output {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return line
		}
	}
	return e.Output[len(e.Output)-1]
}

func exitOf(p *child.Process, err error, killed bool, output []string) Exit {
	e := Exit{Code: -1, Output: output}
	state := p.State()
	if state == nil {
		if err != nil {
			e.Output = append(e.Output, err.Error())
		}
		return e
	}
	e.Code = state.ExitCode()
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Signal = status.Signal().String()
		e.Killed = killed && status.Signal() == syscall.SIGKILL
		if status.CoreDump() {
			e.Signal += " (core dumped)"
		}
	}
	return e
}
