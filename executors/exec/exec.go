package exec

import (
	"context"
	"fmt"
	"strings"

	"github.com/autobot-fleet/autobot/executors"
)

// Name of the executor.
const Name = "exec"

// Executor implements executors.Executor.
type Executor struct {
	version  string
	settings Settings
}

var _ executors.Executor = (*Executor)(nil)

// New returns the executor. version is what Describe reports.
func New(version string, s Settings) (*Executor, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return &Executor{version: version, settings: s}, nil
}

// FromEnvironment builds the executor as its process does: with the settings
// that the agent hands over.
func FromEnvironment(version string) (executors.Executor, error) {
	s := Defaults()
	if err := executors.Settings(&s); err != nil {
		return nil, err
	}
	return New(version, s)
}

// Describe looks into the folder: a script that is added or removed changes
// the types. Files that cannot be used are named in Reasons.
func (e *Executor) Describe(context.Context) (executors.Description, error) {
	d := executors.Description{Name: Name, Version: e.version, Concurrency: e.settings.Concurrency}
	if e.settings.Dir == "" {
		d.Reasons = []string{"executors.exec.dir is not set (set it to a folder with scripts, each becomes a task type)"}
		return d, nil
	}
	scripts, problems, err := scan(e.settings.Dir)
	if err != nil {
		d.Reasons = []string{err.Error()}
		return d, nil
	}
	d.Reasons = problems
	for _, s := range scripts {
		d.Types = append(d.Types, executors.TypeDescription{Type: s.typ, DefaultTimeout: e.settings.Timeout})
	}
	d.Ready = len(scripts) > 0
	if !d.Ready && len(d.Reasons) == 0 {
		d.Reasons = []string{fmt.Sprintf("there is no script in %s (put an executable file there, named after its task type)", e.settings.Dir)}
	}
	return d, nil
}

// Execute runs the script of the task's type.
func (e *Executor) Execute(ctx context.Context, task executors.Task) (executors.Result, error) {
	if _, err := executors.DecodeCommon(task); err != nil {
		return executors.Result{}, err
	}
	path, err := e.find(task.Type)
	if err != nil {
		return executors.Result{}, err
	}
	out, err := e.run(ctx, task, path)
	return executors.Result{Op: "run", Output: out}, err
}

// find checks the script again: the folder may have changed since Describe.
func (e *Executor) find(typ string) (string, error) {
	scripts, problems, err := scan(e.settings.Dir)
	if err != nil {
		return "", executors.Errorf(executors.CodeEngineUnavailable, "%v", err)
	}
	var types []string
	for _, s := range scripts {
		if s.typ == typ {
			return s.path, nil
		}
		types = append(types, s.typ)
	}
	failed := executors.Errorf(executors.CodeUnsupported, "there is no usable script for type %q; there are %s", typ, strings.Join(types, ", "))
	failed.Detail = strings.Join(problems, "\n")
	return "", failed
}
