package playwright

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/autobot-fleet/autobot/executors"
)

// saved is the name of an artifact that a step has left.
type saved string

// save writes an artifact.
func (r *run) save(name, kind, media string, data []byte, limit int) (any, error) {
	if len(data) > limit {
		return nil, executors.Errorf(executors.CodeTooLarge, "%s has %d bytes, at most %d are possible", name, len(data), limit)
	}
	f, err := r.create(name)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("write the artifact %s: %w", name, errors.Join(err, os.Remove(f.Name())))
	}
	name = filepath.Base(f.Name())
	r.announce(executors.Artifact{Name: name, Kind: kind, MediaType: media})
	return saved(name), nil
}

// create opens a new file in the spool folder; a name that is taken gets a
// number.
func (r *run) create(name string) (*os.File, error) {
	r.files.Lock()
	defer r.files.Unlock()
	ext := filepath.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for n := 2; r.taken[name]; n++ {
		name = fmt.Sprintf("%s-%d%s", stem, n, ext)
	}
	r.taken[name] = true
	f, err := os.OpenFile(filepath.Join(r.task.SpoolDir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write the artifact %s: %w", name, err)
	}
	return f, nil
}

func (r *run) announce(a executors.Artifact) {
	r.files.Lock()
	defer r.files.Unlock()
	r.task.Artifact(a)
}
