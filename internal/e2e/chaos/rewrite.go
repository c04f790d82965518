package chaos

import (
	"bytes"
	"strconv"
	"sync/atomic"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// rewrittenScripts counts the scripts that were broken on their way.
var rewrittenScripts atomic.Int64

// rewrite is a toxic that breaks a move (see Breaks) in each script whose text
// passes. Redis never gets to know the right text, so a call by its hash is
// answered with NOSCRIPT and the text follows.
type rewrite struct {
	Break string `json:"break"`
}

// unsent is the part of a command that has not come whole yet.
type unsent struct{ buf []byte }

// NewState is what a connection remembers.
func (*rewrite) NewState() any { return &unsent{} }

// Pipe passes commands on, one or more at a time.
func (r *rewrite) Pipe(stub *toxics.ToxicStub) {
	state := stub.State.(*unsent)
	for {
		select {
		case <-stub.Interrupt:
			return
		case c := <-stub.Input:
			if c == nil {
				stub.Close()
				return
			}
			state.buf = append(state.buf, c.Data...)
			var out []byte
			for {
				args, n := command(state.buf)
				if n == 0 {
					break
				}
				out = append(out, r.edited(args, state.buf[:n])...)
				state.buf = state.buf[n:]
			}
			if len(out) > 0 {
				stub.Output <- &stream.StreamChunk{Data: out, Timestamp: c.Timestamp}
			}
		}
	}
}

// edited is a command as it is passed on; raw is how it came.
func (r *rewrite) edited(args [][]byte, raw []byte) []byte {
	var at int // which argument is a script
	switch {
	case len(args) > 2 && bytes.EqualFold(args[0], []byte("eval")):
		at = 1
	case len(args) > 2 && bytes.EqualFold(args[0], []byte("script")) && bytes.EqualFold(args[1], []byte("load")):
		at = 2
	default:
		return raw
	}
	text, places := broken(r.Break, string(args[at]))
	if places == 0 {
		return raw
	}
	rewrittenScripts.Add(1)
	args[at] = []byte(text)
	out := append([]byte("*"), strconv.Itoa(len(args))...)
	for _, a := range args {
		out = append(append(append(out, "\r\n$"...), strconv.Itoa(len(a))...), "\r\n"...)
		out = append(out, a...)
	}
	return append(out, "\r\n"...)
}

// command reads the first command of what a client has written: a RESP array
// of bulk strings. n is its length, 0 while it has not come whole. What is
// anything else is passed on as it is.
func command(buf []byte) (args [][]byte, n int) {
	count, n := number(buf, '*')
	if n < 0 {
		return nil, len(buf)
	}
	if n == 0 {
		return nil, 0
	}
	for range count {
		size, head := number(buf[n:], '$')
		if head < 0 {
			return nil, len(buf)
		}
		end := n + head + size + 2
		if head == 0 || end > len(buf) {
			return nil, 0
		}
		args = append(args, buf[n+head:end-2])
		n = end
	}
	return args, n
}

// number reads a line of a mark and a count. n is the length of the line: 0
// while it is not whole, below 0 when it is something else.
func number(buf []byte, mark byte) (count, n int) {
	if len(buf) == 0 {
		return 0, 0
	}
	if buf[0] != mark {
		return 0, -1
	}
	end := bytes.Index(buf, []byte("\r\n"))
	if end < 0 {
		return 0, 0
	}
	count, err := strconv.Atoi(string(buf[1:end]))
	if err != nil || count < 0 {
		return 0, -1
	}
	return count, end + 2
}
