package openvino

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/autobot-fleet/autobot/executors"
)

// writeArtifact leaves a file with the task.
func writeArtifact(task executors.Task, a executors.Artifact, content []byte) error {
	if err := task.MakeSpoolDir(); err != nil {
		return err
	}
	path := filepath.Join(task.SpoolDir, a.Name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("write the artifact %s: %w", a.Name, err)
	}
	task.Artifact(a)
	return nil
}

// readInput reads an artifact that the payload refers to, at most limit bytes.
func readInput(task executors.Task, field, ref string, limit int64) ([]byte, error) {
	path, err := task.Input(field, ref)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, executors.FileError(field, err)
	}
	defer func() { _ = f.Close() }() // only read
	return readLimited(f, field, limit)
}

func readLimited(f *os.File, field string, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, executors.FileError(field, err)
	}
	if info.Size() > limit {
		e := executors.Errorf(executors.CodeTooLarge, "%s: has %d bytes, the limit is %d", field, info.Size(), limit)
		e.Field = field
		return nil, e
	}
	raw := make([]byte, info.Size())
	if _, err := f.ReadAt(raw, 0); err != nil && info.Size() > 0 {
		return nil, executors.FileError(field, err)
	}
	return raw, nil
}

// decodeLoose reads the fields of v and ignores all others.
func decodeLoose(task executors.Task, v any) error {
	if err := json.Unmarshal(task.Payload, v); err != nil {
		return executors.Invalid("payload", "%v", err)
	}
	return nil
}
