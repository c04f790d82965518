package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/internal/redisconn"
	"github.com/autobot-fleet/autobot/queue"
)

type schema struct {
	Ref        string            `json:"$ref"`
	Type       kinds             `json:"type"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
}

// kinds is a type, or the one beside "null" of a value that may be null.
type kinds string

func (k *kinds) UnmarshalJSON(b []byte) error {
	var list []string
	if b[0] != '[' {
		return json.Unmarshal(b, (*string)(k))
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	if len(list) != 2 || list[1] != "null" {
		return fmt.Errorf("%s is no type that may be null", b)
	}
	*k = kinds(list[0])
	return nil
}

type parameter struct {
	Name string `json:"name"`
	In   string `json:"in"`
}

type operation struct {
	ID         string         `json:"operationId"`
	Summary    string         `json:"summary"`
	Security   *[]any         `json:"security"`
	Parameters []parameter    `json:"parameters"`
	Responses  map[string]any `json:"responses"`
}

type document struct {
	OpenAPI    string                          `json:"openapi"`
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas   map[string]schema `json:"schemas"`
		Responses map[string]any    `json:"responses"`
	} `json:"components"`
}

func readDocument(t *testing.T) document {
	t.Helper()
	var d document
	if err := json.Unmarshal(openapiDocument, &d); err != nil {
		t.Fatal("openapi.json:", err)
	}
	return d
}

func TestOpenAPIHasEveryRouteAndNoOther(t *testing.T) {
	t.Parallel()
	doc := readDocument(t)
	api := newRig(t).api
	var want, got []string
	seen := map[string]bool{}
	for _, rt := range api.table() {
		want = append(want, rt.pattern)
		method, path, _ := strings.Cut(rt.pattern, " ")
		op := doc.Paths[path][strings.ToLower(method)]
		if (rt.who == open) != (op.Security != nil && len(*op.Security) == 0) {
			t.Errorf("%s: the description is wrong about credentials", rt.pattern)
		}
		if seen[op.ID] || op.ID == "" || op.Summary == "" || op.Responses["200"] == nil {
			t.Errorf("%s: needs an operationId of its own, a summary and a response 200", rt.pattern)
		}
		seen[op.ID] = true
		for _, part := range strings.Split(path, "/") {
			name, isParam := strings.CutPrefix(part, "{")
			if isParam && !slices.ContainsFunc(op.Parameters, func(p parameter) bool {
				return p.In == "path" && p.Name+"}" == name
			}) {
				t.Errorf("%s: %s is not described", rt.pattern, part)
			}
		}
	}
	for path, methods := range doc.Paths {
		for method := range methods {
			got = append(got, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Error("routes (-) and openapi.json (+) differ:", d)
	}
}

func TestOpenAPISchemasAreTheBodies(t *testing.T) {
	t.Parallel()
	doc := readDocument(t)
	for _, v := range []any{
		apiwire.SubmitRequest{}, apiwire.SubmitReply{}, apiwire.TaskView{}, apiwire.TaskPage{}, apiwire.StatusReply{},
		apiwire.RetryRequest{}, apiwire.RetryReply{}, apiwire.QueueView{}, apiwire.QueueList{}, apiwire.QueueReply{},
		apiwire.WorkerView{}, apiwire.WorkerList{}, apiwire.WorkerReply{}, apiwire.FailoverLog{}, apiwire.ScanReply{},
		apiwire.Problem{}, apiwire.ErrorReply{}, apiwire.EventMessage{}, apiwire.ArtifactReply{}, apiwire.PriorityRequest{},
		apiwire.ReadyReply{}, queue.Task{}, queue.FailoverEvent{}, SpeechRequest{}, SpeechError{}, SpeechProblem{},
	} {
		typ := reflect.TypeOf(v)
		s, there := doc.Components.Schemas[typ.Name()]
		if !there {
			t.Errorf("%s has no schema", typ)
			continue
		}
		want, required := map[string]string{}, map[string]bool{}
		collect(typ, want, required)
		got := map[string]string{}
		for name, p := range s.Properties {
			got[name] = string(p.Type)
			if p.Ref != "" || p.Type == "" || want[name] == "any" { // compared by name only
				got[name] = want[name]
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: the type (-) and its schema (+) differ: %s", typ, d)
		}
		for _, name := range s.Required {
			if !required[name] {
				t.Errorf("%s: %s is required in the schema, but the type may leave it out", typ, name)
			}
		}
	}
	if s := doc.Components.Schemas["ErrorReply"].Properties["error"]; len(s.Properties) != len(keysOf(executors.Error{})) {
		t.Errorf("the schema of an error is not that of executors.Error: %v", s.Properties)
	}
	health := keysOf(redisconn.Health{})
	for name := range doc.Components.Schemas["RedisHealth"].Properties {
		if health[name] == "" {
			t.Errorf("RedisHealth: %s is not in the body", name)
		}
	}
}

func keysOf(v any) map[string]string {
	out := map[string]string{}
	collect(reflect.TypeOf(v), out, map[string]bool{})
	return out
}

// collect lists the JSON names of a struct with the schema types that belong
// to them, and which are always written.
func collect(t reflect.Type, names map[string]string, always map[string]bool) {
	for f := range fieldsIter(t) {
		if f.Anonymous {
			collect(f.Type, names, always)
		}
	}
	for f := range fieldsIter(t) { // outer fields win
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" || name == "-" {
			continue
		}
		names[name] = kindName(f.Type)
		always[name] = !strings.Contains(opts, "omit")
	}
}

func fieldsIter(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

func kindName(t reflect.Type) string {
	if t.PkgPath() == "time" && t.Name() == "Time" {
		return "string"
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		return "any"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindName(t.Elem())
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.String:
		return "string"
	case reflect.Slice:
		return "array"
	}
	return "object"
}

// TestOpenAPIReferences follows every $ref.
func TestOpenAPIReferences(t *testing.T) {
	t.Parallel()
	var doc any
	if err := json.Unmarshal(openapiDocument, &doc); err != nil {
		t.Fatal(err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, is := v["$ref"].(string); is {
				at := doc
				for _, part := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
					m, _ := at.(map[string]any)
					at = m[part]
				}
				if at == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		case string, float64, bool, nil:
		default:
			t.Errorf("unexpected %s", fmt.Sprint(v))
		}
	}
	walk(doc)
	res, body := newRig(t).do("GET", "/api/openapi.json", "", "X", "")
	if res.StatusCode != 200 || body != string(openapiDocument) {
		t.Errorf("served: %d, %d bytes", res.StatusCode, len(body))
	}
}
