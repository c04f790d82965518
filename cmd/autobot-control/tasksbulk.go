package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/queue"
)

const (
	bulkBatch   = 500                        // lines sent together
	bulkLine    = queue.MaxPayload + 128<<10 // bytes of one line; the API takes less
	bulkPending = 8 << 20                    // bytes of lines kept before they are sent
)

// lineView is what became of one line.
type lineView struct {
	Line int `json:"line"`
	receiptView
	Detail string `json:"detail,omitempty"` // why it was refused
}

// bulk submits lines in batches and prints the answers in the order of the
// lines.
type bulk struct {
	env     *environment
	cl      *client.Client
	lines   []lineView // of the batch
	texts   []json.RawMessage
	at      []int // index in lines of each text
	bytes   int
	total   int
	refused int
}

// submitLines reads JSON lines from the standard input. With --output json it
// prints JSON lines too.
func submitLines(ctx context.Context, env *environment, cl *client.Client) error {
	b := &bulk{env: env, cl: cl}
	in := bufio.NewReaderSize(env.Stdin, 64<<10)
	for n := 1; ; n++ {
		line, tooLong, err := readLine(in)
		if errors.Is(err, io.EOF) && len(line) == 0 && !tooLong {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read line %d: %w", n, err)
		}
		b.add(n, line, tooLong)
		if len(b.lines) >= bulkBatch || b.bytes >= bulkPending {
			if err := b.flush(ctx); err != nil {
				return err
			}
		}
	}
	if err := b.flush(ctx); err != nil {
		return err
	}
	switch {
	case b.total == 0:
		return cli.Usagef("the standard input holds no submission: it takes one JSON object per line")
	case b.refused > 0:
		return cli.Exitf(cli.ExitFailure, "%d of %d lines were refused", b.refused, b.total)
	}
	return nil
}

// readLine returns the next line without its end. The rest of one that is too
// long is skipped.
func readLine(in *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if !tooLong {
			line = append(line, part...)
		}
		if len(line) > bulkLine {
			line, tooLong = nil, true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), tooLong, err
		}
	}
}

// add takes a line into the batch; empty ones are skipped.
func (b *bulk) add(n int, line []byte, tooLong bool) {
	v := lineView{Line: n}
	var syntax *json.SyntaxError
	var probe json.RawMessage
	err := json.Unmarshal(line, &probe)
	switch {
	case tooLong:
		v.Detail = fmt.Sprintf("is longer than %d bytes: pass large input as an artifact", bulkLine)
	case len(line) == 0:
		return
	case errors.As(err, &syntax):
		v.Detail = fmt.Sprintf("is not valid JSON: %v (at byte %d)", syntax, syntax.Offset)
	case line[0] != '{':
		v.Detail = "must be a JSON object"
	default:
		b.texts, b.at = append(b.texts, line), append(b.at, len(b.lines))
		b.bytes += len(line)
	}
	b.lines = append(b.lines, v)
}

// flush sends the batch and prints its answers. After an error it says which
// lines were submitted, so that the rest can be sent again.
func (b *bulk) flush(ctx context.Context) error {
	receipts, err := b.cl.SubmitJSON(ctx, b.texts)
	for i := range b.at {
		v := &b.lines[b.at[i]]
		switch {
		case i >= len(receipts):
			v.Detail = "not known: the connection broke off"
		case receipts[i].Err != nil:
			v.Detail, v.TaskID = receipts[i].Err.Error(), receipts[i].ID
		default:
			v.receiptView = receiptView{receipts[i].ID, receipts[i].Queue, receipts[i].Status}
		}
	}
	for _, v := range b.lines {
		b.total++
		if v.Detail != "" {
			b.refused++
		}
		if err := b.print(v); err != nil {
			return err
		}
	}
	b.lines, b.texts, b.at, b.bytes = nil, nil, nil, 0
	if err != nil {
		return fmt.Errorf("%w (lines that were answered above are submitted)", err)
	}
	return nil
}

func (b *bulk) print(v lineView) error {
	if b.env.Output == "json" {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(b.env.Stdout, string(text))
		return err
	}
	return b.env.Print([]lineView{v}, func(w io.Writer) error {
		if v.Detail != "" {
			_, err := fmt.Fprintf(w, "line %d: refused: %s\n", v.Line, cli.Printable(v.Detail))
			return err
		}
		_, err := fmt.Fprintf(w, "line %d: task %s is %s in %s\n", v.Line, v.TaskID, v.Status, v.Queue)
		return err
	})
}
