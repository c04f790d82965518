package playwright

import (
	"encoding/json"
	"fmt"

	"github.com/autobot-fleet/autobot/executors"
)

const (
	maxScript     = 16 << 10
	maxEvaluation = 256 << 10 // characters of JSON
)

// evaluateStep runs a script in the page. An administrator has to permit it.
type evaluateStep struct {
	stepCommon
	Script string `json:"script"`
}

func (s *evaluateStep) check(c *stepCheck) error {
	if !c.settings.AllowEvaluate {
		e := executors.Errorf(executors.CodePermissionDenied, "%s: scripts are not permitted on this worker", c.at("action"))
		e.Field = c.at("action")
		e.Hint = "an administrator can permit them: executors.playwright.allow_evaluate: true"
		return e
	}
	return when(s.Script == "" || len(s.Script) > maxScript, c.at("script"), "is required, at most %d bytes", maxScript)
}

// evaluation runs an expression or a function and returns its value as JSON,
// so that the page's own process bounds what comes back.
const evaluation = `(async () => {
  let v = (
%s
);
  if (typeof v === 'function') v = v();
  const j = JSON.stringify(await v);
  if (j !== undefined && j.length > %d) throw new Error('the value has ' + j.length + ' characters as JSON, at most %d are possible');
  return j === undefined ? 'null' : j;
})()`

func (s *evaluateStep) run(r *run) (any, error) {
	var answer any
	err := r.bounded(s, func() (err error) {
		answer, err = r.page().Evaluate(fmt.Sprintf(evaluation, s.Script, maxEvaluation, maxEvaluation))
		return err
	})
	if err != nil {
		return nil, err
	}
	text, ok := answer.(string)
	var value any
	if !ok || len(text) > 4*maxEvaluation || json.Unmarshal([]byte(text), &value) != nil {
		return nil, executors.Errorf(executors.CodeScriptError, "the page interferes with reading the value")
	}
	if len(text) > r.room {
		return nil, executors.Errorf(executors.CodeTooLarge, "the values of the result together are larger than %d bytes", maxRoom)
	}
	r.room -= len(text)
	return r.secrets.any(value), nil
}
