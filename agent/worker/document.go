package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/autobot-fleet/autobot/agent/spool"
	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/internal/rawjson"
	"github.com/autobot-fleet/autobot/queue"
)

// metaReserve is what a result document keeps for artifacts and meta beside
// its output.
const metaReserve = 32 << 10

// meta is the part of a result or failure document that tells how the run went.
type meta struct {
	Status   string              `json:"status"` // succeeded, failed, cancelled
	Op       string              `json:"op"`
	Executor executorInfo        `json:"executor"`
	Worker   string              `json:"worker"`
	Attempt  int64               `json:"attempt"`
	Timing   timing              `json:"timing_ms"`
	Warnings []executors.Warning `json:"warnings"`
}

type executorInfo struct {
	Name          string `json:"name"`
	Version       string `json:"version"`
	Engine        string `json:"engine"`
	EngineVersion string `json:"engine_version"`
}

// timing is in milliseconds. Queue is measured on the server's clock, the rest
// on ours.
type timing struct {
	Queue  int64 `json:"queue"`
	Load   int64 `json:"load"`
	Run    int64 `json:"run"`
	Upload int64 `json:"upload"`
	Total  int64 `json:"total"`
}

func (a *attempt) meta(status string) meta {
	load := min(max(a.by.Result.Load, 0), a.ran)
	waited := max(a.r.claim.WaitedFor, 0)
	m := meta{
		Status: status, Op: clip(a.op(), 64), Worker: a.w.o.WorkerID, Attempt: a.r.claim.Attempt,
		Executor: a.executor(), Warnings: append([]executors.Warning{}, a.by.Result.Warnings...),
		Timing: timing{
			Queue: waited.Milliseconds(), Load: load.Milliseconds(), Run: (a.ran - load).Milliseconds(),
			Upload: a.upload.Milliseconds(), Total: (waited + time.Since(a.r.began)).Milliseconds(),
		},
	}
	for i := range m.Warnings {
		m.Warnings[i].Code = clip(m.Warnings[i].Code, 64)
		m.Warnings[i].Message = clip(m.Warnings[i].Message, 500)
	}
	if len(m.Warnings) > 50 {
		m.Warnings = m.Warnings[:50]
	}
	return m
}

// op is the operation that ran, else the one asked for, else the type's first.
func (a *attempt) op() string {
	switch {
	case a.by.Result.Op != "":
		return a.by.Result.Op
	case a.common.op != "":
		return a.common.op
	case len(a.typ.Ops) > 0:
		return a.typ.Ops[0]
	}
	return ""
}

// executor is who ran it, or who would have.
func (a *attempt) executor() executorInfo {
	if a.by.Executor != "" {
		return executorInfo{a.by.Executor, a.by.Version, a.by.Engine, a.by.EngineVersion}
	}
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	for _, e := range a.w.served.executors {
		if e.Name == a.r.executor {
			return executorInfo{e.Name, e.Version, e.Engine, e.EngineVersion}
		}
	}
	return executorInfo{Name: a.r.executor}
}

// offload moves an output that is too large for the result into an artifact.
func (a *attempt) offload() error {
	out, err := checkOutput(a.by.Result.Output)
	if err != nil {
		return err
	}
	a.by.Result.Output = out
	if len(out) <= queue.MaxResult-metaReserve {
		return nil
	}
	file, warning, err := a.w.o.Spool.Offload(a.r.claim.ID, a.r.claim.Attempt, out)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.announced = append(a.announced, file)
	a.mu.Unlock()
	a.by.Result.Output = json.RawMessage("{}")
	a.by.Result.Warnings = append(a.by.Result.Warnings, warning)
	return nil
}

// checkOutput makes sure that the keys of an output can stand beside ours.
func checkOutput(out json.RawMessage) (json.RawMessage, error) {
	if !utf8.Valid(out) {
		out = bytes.ToValidUTF8(out, []byte("\uFFFD"))
	}
	out = bytes.TrimSpace(out)
	if len(out) == 0 || string(out) == "null" {
		return json.RawMessage("{}"), nil
	}
	reserved := ""
	if !rawjson.Members(out, func(name string, _ json.RawMessage) bool {
		switch name {
		case "artifacts", "meta", "error":
			reserved = name
		}
		return true
	}) {
		return nil, executors.Errorf(executors.CodeEngineError, "the executor's output is not a JSON object: %s", show(out))
	}
	if reserved != "" {
		return nil, executors.Errorf(executors.CodeEngineError, "the executor's output uses the reserved name %q", reserved)
	}
	return out, nil
}

// resultDocument is what a completed task leaves: the output's keys at top
// level, beside artifacts and meta.
func (a *attempt) resultDocument(records []spool.Record) ([]byte, error) {
	doc, err := compose(a.by.Result.Output, nil, records, a.meta("succeeded"))
	if err == nil && len(doc) > queue.MaxResult {
		doc, err = compose(a.by.Result.Output, nil, withoutInline(records), a.meta("succeeded"))
	}
	if err != nil {
		return nil, executors.Errorf(executors.CodeEngineError, "the result cannot be written: %v", err)
	}
	if len(doc) > queue.MaxResult {
		return nil, executors.Errorf(executors.CodeTooLarge, "the result is %d bytes with its %d artifacts, the limit is %d", len(doc), len(records), queue.MaxResult)
	}
	return doc, nil
}

// failureDocument is what a failed attempt leaves: error, artifacts, meta, and
// as much of the output as there is.
func (a *attempt) failureDocument(e *executors.Error, records []spool.Record) []byte {
	status := "failed"
	if e.Code == executors.CodeCancelled {
		status = "cancelled"
	}
	output, err := checkOutput(e.Output)
	if err != nil {
		output = json.RawMessage("{}")
	}
	e = clean(e)
	m := a.meta(status)
	for _, try := range []struct {
		output  json.RawMessage
		records []spool.Record
	}{{output, records}, {output, withoutInline(records)}, {json.RawMessage("{}"), withoutInline(records)}, {json.RawMessage("{}"), nil}} {
		doc, err := compose(try.output, e, try.records, m)
		if err == nil && len(doc) <= queue.MaxResult {
			return doc
		}
	}
	return []byte(fmt.Sprintf(`{"error":{"code":%q,"message":"","retryable":%t},"artifacts":[]}`, string(e.Code), e.Retryable))
}

// compose writes a document around an output, whose bytes it keeps.
func compose(output json.RawMessage, e *executors.Error, records []spool.Record, m meta) ([]byte, error) {
	if records == nil {
		records = []spool.Record{}
	}
	own := struct {
		Error     *executors.Error `json:"error,omitempty"`
		Artifacts []spool.Record   `json:"artifacts"`
		Meta      meta             `json:"meta"`
	}{e, records, m}
	tail, err := marshal(own)
	if err != nil {
		return nil, err
	}
	head := bytes.TrimSpace(output)
	if len(head) < 2 || head[0] != '{' || head[len(head)-1] != '}' {
		return tail, nil
	}
	head = bytes.TrimSpace(head[:len(head)-1])
	doc := make([]byte, 0, len(head)+len(tail)+1)
	doc = append(doc, head...)
	if len(head) > 1 {
		doc = append(doc, ',')
	}
	return append(doc, tail[1:]...), nil
}

// marshal is json.Marshal that leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

func withoutInline(records []spool.Record) []spool.Record {
	out := append([]spool.Record(nil), records...)
	for i := range out {
		out[i].InlineBase64 = ""
	}
	return out
}
