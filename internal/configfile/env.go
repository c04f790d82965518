package configfile

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/autobot-fleet/autobot/internal/nearest"
)

// EnvApplier is implemented by a section that also reads variables of other
// names than its keys have, for example for compatibility. It is called after
// the files and before the AUTOBOT_<KEY> variables. lookup returns the value of
// a variable that is set and not empty. The result maps each key that was set,
// relative to the section, to the variable it came from.
type EnvApplier interface {
	ApplyEnv(lookup func(name string) (string, bool)) (map[string]string, []Problem)
}

// environment is the variables by name; empty ones count as not set.
type environment map[string]string

func newEnvironment(environ []string) environment {
	if environ == nil {
		environ = os.Environ()
	}
	env := environment{}
	for _, line := range environ {
		if name, value, ok := strings.Cut(line, "="); ok && value != "" {
			env[name] = value
		}
	}
	return env
}

func (e environment) lookup(name string) (string, bool) {
	value, ok := e[name]
	return value, ok
}

// EnvName returns the variable for a key: EnvName("AUTOBOT", "redis.url") is
// AUTOBOT_REDIS_URL.
func EnvName(prefix, key string) string {
	return prefix + "_" + strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToUpper(key))
}

func (l *loader) applyEnv(o Options) {
	if o.EnvPrefix == "" {
		return
	}
	env := newEnvironment(o.Environ)
	for _, s := range l.schema.sections() {
		l.applyOwnEnv(s, env)
	}
	known := map[string]bool{}
	for _, s := range l.schema.sections() {
		for _, name := range s.order {
			f, isLeaf := s.fields[name]
			if !isLeaf {
				continue
			}
			variable := EnvName(o.EnvPrefix, f.key)
			known[variable] = true
			l.applyVariable(f, variable, env)
			if f.secret != "" {
				known[variable+"_FILE"] = true
			}
		}
	}
	l.applyRemainEnv(o.EnvPrefix, env, known)
	l.warnAboutNearNames(o.EnvPrefix, env, known)
}

func (l *loader) applyOwnEnv(s *schema, env environment) {
	a, ok := s.value.Addr().Interface().(EnvApplier)
	if !ok {
		return
	}
	set, problems := a.ApplyEnv(env.lookup)
	for key, variable := range set {
		l.sources[joinKey(s.prefix, key)] = place{label: "env " + variable}
	}
	for _, p := range problems {
		p.Key = joinKey(s.prefix, p.Key)
		l.problems = append(l.problems, p)
	}
}

// applyVariable sets f from its variable or, for a secret, from the file that
// VARIABLE_FILE names (unless that is the variable of a key of its own).
func (l *loader) applyVariable(f field, variable string, env environment) {
	value, set := env[variable]
	at := place{label: "env " + variable}
	if _, isKey := l.schema.leaves[f.key+"_file"]; f.secret != "" && !isKey {
		if path, ok := env[variable+"_FILE"]; ok {
			at.label = "env " + variable + "_FILE"
			if set {
				l.problem(at, f.key, "both %s and %s_FILE are set; unset one", variable, variable)
				return
			}
			secret, warning, err := ReadSecretFile(path)
			if err != nil {
				l.problem(at, f.key, "%v", err)
				return
			}
			if warning != "" {
				l.warnings = append(l.warnings, warning)
			}
			value, set = secret, true
		}
	}
	if set {
		l.assignText(f, f.key, value, origin{at: at, text: true})
	}
}

// applyRemainEnv sets values of unknown sub-sections: for the section executors
// AUTOBOT_EXECUTORS_TTS_VOICE is executors.tts.voice. The name ends at the first
// underscore unless the files have a longer one.
func (l *loader) applyRemainEnv(prefix string, env environment, known map[string]bool) {
	for _, s := range l.schema.sections() {
		if !s.remain.IsValid() || s.prefix == "" {
			continue
		}
		start := EnvName(prefix, s.prefix) + "_"
		var variables []string
		for variable := range env {
			if strings.HasPrefix(variable, start) && !known[variable] {
				variables = append(variables, variable)
			}
		}
		slices.Sort(variables)
		for _, variable := range variables {
			name, sub, ok := strings.Cut(strings.ToLower(strings.TrimPrefix(variable, start)), "_")
			for _, n := range s.remain.MapKeys() {
				if rest, has := strings.CutPrefix(variable, EnvName(prefix, joinKey(s.prefix, n.String()))+"_"); has {
					name, sub, ok = n.String(), strings.ToLower(rest), true
				}
			}
			if _, taken := s.fields[name]; ok && sub != "" && !taken {
				known[variable] = true
				l.assignRemainText(s, name, sub, env[variable], origin{at: place{label: "env " + variable}, text: true})
			}
		}
	}
}

// warnAboutNearNames finds misspelt variables. Others may belong to someone
// else, so only those that nearly match are mentioned.
func (l *loader) warnAboutNearNames(prefix string, env environment, known map[string]bool) {
	for variable := range env {
		if known[variable] || !strings.HasPrefix(variable, prefix+"_") {
			continue
		}
		for name := range known {
			if _, alsoSet := env[name]; !alsoSet && nearest.Distance(variable, name) <= 2 {
				l.warnings = append(l.warnings, fmt.Sprintf("the variable %s is not known; did you mean %s?", variable, name))
				break
			}
		}
	}
	slices.Sort(l.warnings)
}
