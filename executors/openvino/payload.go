package openvino

import (
	"encoding/json"
	"fmt"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/internal/rawjson"
)

// Operations.
const (
	opInfer      = "infer"
	opEmbed      = "embed"
	opSearch     = "search"
	opDetect     = "detect"
	opClassify   = "classify"
	opEmbedImage = "embed_image"
	opOCR        = "ocr"
	opLoad       = "load_model"
	opUnload     = "unload_model"
	opDeviceInfo = "device_info"
	opBenchmark  = "benchmark"
)

// Limits of payloads.
const (
	maxTexts     = 256
	maxTextBytes = 32 << 10
	maxTopK      = 1000
	maxRuns      = 10_000
)

// target is what operations on one model have in common.
type target struct {
	Model     string `json:"model"`
	ModelName string `json:"model_name"` // alias of model
	Device    string `json:"device"`     // AUTO, or an explicit one
	Precision string `json:"precision"`  // "", f32, f16, bf16
}

// seed are fields of payloads that were made for another worker and mean
// nothing here: they are read and ignored.
type seed struct {
	TaskType          json.RawMessage `json:"task_type"`
	Priority          json.RawMessage `json:"priority"`
	TimeoutSeconds    json.RawMessage `json:"timeout_seconds"`
	OptimizationLevel json.RawMessage `json:"optimization_level"`
	UseCache          json.RawMessage `json:"use_cache"`
}

// taskTypes are the words of older producers for operations.
var taskTypes = map[string]string{"embedding_generation": opEmbed, "semantic_search": opSearch}

// name returns the model that is asked for, or def.
func (t target) name(def string) (string, error) {
	name := t.Model
	if name == "" {
		name = t.ModelName
	} else if t.ModelName != "" && t.ModelName != name {
		return "", executors.Invalid("model_name", "is another name of model and differs from it")
	}
	if name == "" {
		name = def
	}
	if name == "" {
		return "", executors.Invalid("model", "is required")
	}
	return name, nil
}

// operation returns the operation of a task: op, else what an older payload
// means, else the first of the type.
func operation(task executors.Task, typ executors.TypeDescription) (op string, old bool, err error) {
	given := map[string]json.RawMessage{}
	rawjson.Members(task.Payload, func(name string, value json.RawMessage) bool {
		given[name] = value
		return true
	})
	if asked, ok := given["op"]; !ok || string(asked) == "null" {
		kind, _ := rawjson.Text(given["task_type"])
		switch {
		case kind != "":
			op, ok := taskTypes[kind]
			if !ok {
				e := executors.Errorf(executors.CodeUnsupported, "task_type: %q is not supported; there are embedding_generation and semantic_search", cut(kind))
				e.Field = "task_type"
				return "", true, e
			}
			return op, true, nil
		case given["image_path"] != nil && given["inputs"] == nil && (typ.Ops[0] == opInfer || typ.Ops[0] == opDetect):
			return "", true, nil // the model's card decides
		}
	}
	op, err = executors.Op(task, typ)
	return op, false, err
}

func cut(s string) string {
	if r := []rune(s); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return s
}

// fraction checks an optional number of 0 to 1.
func fraction(field string, v *float64, def float64) (float64, error) {
	if v == nil {
		return def, nil
	}
	if !(*v >= 0 && *v <= 1) {
		return 0, executors.Invalid(field, "must be between 0 and 1, got %v", *v)
	}
	return *v, nil
}

// whole checks an optional number.
func whole(field string, v *int, def, low, high int) (int, error) {
	if v == nil {
		return def, nil
	}
	if *v < low || *v > high {
		return 0, executors.Invalid(field, "must be between %d and %d, got %d", low, high, *v)
	}
	return *v, nil
}

// modelInfo names a model in results.
type modelInfo struct {
	Name     string `json:"name"`
	Revision string `json:"revision,omitempty"`
	SHA256   string `json:"sha256"`
}

func encode(op string, output any, warnings []executors.Warning) (executors.Result, error) {
	raw, err := json.Marshal(output)
	if err != nil {
		return executors.Result{}, fmt.Errorf("encode the result: %w", err)
	}
	return executors.Result{Op: op, Output: raw, Warnings: warnings}, nil
}
