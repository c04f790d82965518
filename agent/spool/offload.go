package spool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/autobot-fleet/autobot/executors"
)

// OffloadedName is the artifact that holds an output which was too large for
// the task's result.
const OffloadedName = "output.json"

// Offload writes an output that is larger than executors.MaxResult into the
// attempt's directory and returns the artifact to commit beside the others,
// and the warning that tells the user. A name taken by the executor itself is
// avoided.
func (s *Spool) Offload(taskID string, attempt int64, output []byte) (executors.Artifact, executors.Warning, error) {
	name, err := s.AddFile(taskID, attempt, OffloadedName, output)
	if err != nil {
		return executors.Artifact{}, executors.Warning{}, err
	}
	return executors.Artifact{Name: name, Kind: "document", MediaType: "application/json"},
		executors.Warning{
			Code:    "OUTPUT_OFFLOADED",
			Message: "the output has " + size(int64(len(output))) + ", more than a result may hold; it is in the artifact " + name,
		}, nil
}

// AddFile writes data into the attempt's directory under name, or, when that
// is taken, name with -1, -2 and so on before its extension. It returns the
// name used.
func (s *Spool) AddFile(taskID string, attempt int64, name string, data []byte) (string, error) {
	if err := checkAnnounced(executors.Artifact{Name: name}); err != nil {
		return "", err
	}
	dir := s.attemptDir(taskID, attempt)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", diskError(err, "make the spool directory of task "+taskID)
	}
	ext := filepath.Ext(name)
	for i := 0; ; i++ {
		try := name
		if i > 0 {
			try = strings.TrimSuffix(name, ext) + "-" + strconv.Itoa(i) + ext
		}
		f, err := os.OpenFile(filepath.Join(dir, try), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) && i < 1000 {
			continue
		}
		if err == nil {
			_, err = f.Write(data)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return "", diskError(err, "write "+try+" into the spool directory of task "+taskID)
		}
		return try, nil
	}
}
