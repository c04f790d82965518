package playwright

import (
	"maps"
	"slices"

	"github.com/autobot-fleet/autobot/executors"
)

// secret checks that the task has the secret that a step names.
func (c *checking) secret(path, name string) error {
	value, ok := c.task.Secrets[name]
	if !ok {
		e := executors.Errorf(executors.CodeNotFound, "%s: the task has no secret %.64q", path, name)
		e.Field = path
		if near := executors.Nearest(name, slices.Sorted(maps.Keys(c.task.Secrets)), 3); len(near) > 0 {
			e.Hint = "did you mean " + near[0] + "?"
		}
		return e
	}
	return when(len(value) < minSecret, path, "secret %.64q has fewer than %d bytes; one so short cannot be kept out of results", name, minSecret)
}

// redactor knows everything in the plan that must not be shown.
func (p *plan) redactor(task executors.Task) *redactor {
	var secrets, clear []string
	for _, value := range p.Headers {
		clear = append(clear, value)
	}
	for _, k := range p.Cookies {
		clear = append(clear, k.Value)
	}
	for _, s := range p.steps {
		switch s := s.(type) {
		case *fillStep:
			if s.Value != nil {
				clear = append(clear, *s.Value)
			} else {
				secrets = append(secrets, task.Secrets[s.SecretRef])
			}
		case *typeStep:
			clear = append(clear, s.Text)
		case *setCookiesStep:
			for _, k := range s.Cookies {
				clear = append(clear, k.Value)
			}
		}
	}
	return newRedactor(secrets, clear)
}
