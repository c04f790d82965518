package fleet

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of what is read from a heartbeat. Anybody with access to the server
// can write one, and every monitor reads all of them.
const (
	maxHeartbeat    = 64 << 10 // bytes; a larger document is not read
	maxText         = 256      // runes of one text
	maxCapabilities = 256
	maxExecutors    = 64
)

// ParseHeartbeat reads a heartbeat, also one that another program wrote: each
// field is taken if it makes sense (numbers may be texts, lists may be JSON in
// a text) and left zero if not. The error says that the document as a whole is
// unreadable; the worker is alive all the same, for its key exists.
func ParseHeartbeat(doc []byte) (Heartbeat, error) {
	var h Heartbeat
	if len(doc) > maxHeartbeat {
		return h, fmt.Errorf("heartbeat has %d bytes, at most %d are read", len(doc), maxHeartbeat)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(doc, &fields); err != nil {
		return h, fmt.Errorf("heartbeat is not a JSON object: %w", err)
	}
	h.WorkerID = text(fields["worker_id"])
	h.Timestamp = number(fields["timestamp"])
	h.Load = number(fields["load"])
	h.TasksActive = whole(fields["tasks_active"])
	h.Capabilities = texts(fields["capabilities"], maxCapabilities)
	h.MemoryMB = number(fields["memory_mb"])

	h.NodeID = text(fields["node_id"])
	h.Generation = whole64(fields["generation"])
	h.Status = text(fields["status"])
	h.Reason = text(fields["reason"])
	h.MaxConcurrent = whole(fields["max_concurrent"])
	h.CPUPercent = number(fields["cpu_percent"])
	h.CPUStealPercent = number(fields["cpu_steal_percent"])
	for i, raw := range list(fields["load_avg"], len(h.LoadAvg)) {
		h.LoadAvg[i] = number(raw)
	}
	h.MemoryPercent = number(fields["memory_percent"])
	h.MemoryAvailableMB = number(fields["memory_available_mb"])
	h.SwapPercent = number(fields["swap_percent"])
	h.DiskPercent = number(fields["disk_percent"])
	h.UptimeSeconds = number(fields["uptime_seconds"])
	h.NPU = npu(fields["npu"])
	for _, raw := range list(fields["executors"], maxExecutors) {
		if e, ok := executor(raw); ok {
			h.Executors = append(h.Executors, e)
		}
	}
	h.Version = text(fields["version"])
	h.StartedAt = number(fields["started_at"])
	h.ClockSkewMS = number(fields["clock_skew_ms"])
	return h, nil
}

func npu(raw json.RawMessage) NPU {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return NPU{}
	}
	n := NPU{Present: text(fields["present"]) == "true"}
	if busy, ok := fields["busy_percent"]; ok && string(busy) != "null" {
		v := number(busy)
		n.BusyPercent = &v
	}
	return n
}

func executor(raw json.RawMessage) (Executor, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return Executor{}, false
	}
	e := Executor{
		Name:    text(fields["name"]),
		Version: text(fields["version"]),
		Types:   texts(fields["types"], maxCapabilities),
		State:   text(fields["state"]),
	}
	return e, e.Name != ""
}

// text reads a JSON string, number or boolean as text: valid UTF-8, without
// control characters, at most maxText runes.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || string(raw) == "null" {
			return ""
		}
		s = string(raw)
	}
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return -1
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) > maxText {
		s = string([]rune(s)[:maxText])
	}
	return s
}

// number reads a JSON number, or a text that holds one.
func number(raw json.RawMessage) float64 {
	f, err := strconv.ParseFloat(text(raw), 64)
	if err != nil {
		return 0
	}
	return finite(f)
}

// whole reads a count; nonsense is 0.
func whole(raw json.RawMessage) int {
	const most = 1 << 31
	f := number(raw)
	if f < 0 || f > most {
		return 0
	}
	return int(f)
}

// whole64 reads a large whole number without the rounding of a float.
func whole64(raw json.RawMessage) int64 {
	if n, err := strconv.ParseInt(text(raw), 10, 64); err == nil {
		return n
	}
	const exact = 1 << 53
	if f := number(raw); f > -exact && f < exact {
		return int64(f)
	}
	return 0
}

// texts reads a list of texts, or JSON in a text, or a single text.
func texts(raw json.RawMessage, most int) []string {
	var out []string
	for _, item := range list(raw, most) {
		if s := text(item); s != "" {
			out = append(out, s)
		}
	}
	if out == nil && len(raw) > 0 && raw[0] == '"' {
		var inner string
		if json.Unmarshal(raw, &inner) == nil && strings.HasPrefix(strings.TrimSpace(inner), "[") {
			return texts(json.RawMessage(strings.TrimSpace(inner)), most)
		}
		if s := text(raw); s != "" {
			out = []string{s}
		}
	}
	return out
}

// list reads at most the first most entries of a JSON list.
func list(raw json.RawMessage, most int) []json.RawMessage {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return nil
	}
	return items[:min(len(items), most)]
}
