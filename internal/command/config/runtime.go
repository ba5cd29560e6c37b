package config

import (
	"github.com/weirhq/weir/internal/value/document"
)

// RuleNotAtRuntime is broken by a change of a setting that is read only when its process starts.
const RuleNotAtRuntime document.Rule = "not_at_runtime"

func notAtRuntime(s Setting) string {
	return "cannot change while the " + process(s) + " runs; restart it"
}

// process is the process that uses a setting.
func process(s Setting) string {
	if s.Section() == UpSection {
		return "cluster"
	}
	return s.Section()
}

// Patched returns the configuration with the changes made while the scheduler runs: a map of
// settings without the name of the section. It refuses settings that cannot change at run time.
// Unknown keys, which clients of YTsaurus may set, cause a warning. The error is of type
// document.Problems.
func (s *Scheduler) Patched(patch document.Value) (*Scheduler, document.Problems, error) {
	v := document.Map(document.Pair(SchedulerSection, patch))
	r := document.NewReader("")
	r.KeepUnknown = true
	loaded := &Loaded{origins: map[string]Origin{}}
	sections().table.Read(r, v, &loaded.Config)
	locate(v, sections().table.Options(), "", func(path string, at document.Position) {
		loaded.origins[path] = Origin{From: FromPatch, At: at}
		setting, _ := find(path)
		if setting.Info.NotSupported == "" && !setting.Runtime() {
			r.Add(document.Problem{Position: at, Path: path, Rule: RuleNotAtRuntime, Message: notAtRuntime(setting)})
		}
	})
	problems, warnings := r.Problems(), r.Warnings()
	sections().table.Fill(&loaded.Config, &Config{Scheduler: *s})
	if len(problems) == 0 {
		problems, _ = loaded.check() // it warned about the rest when it started
	}
	if len(problems) > 0 {
		return nil, warnings, problems
	}
	return &loaded.Config.Scheduler, warnings, nil
}

// Runtime compares the configuration that a process runs with and the one it should run with. It
// returns the changes, in the order of the tables. If some settings cannot change while the process
// runs, it returns all of these as an error of type document.Problems. Secrets are hidden in both.
func Runtime(from, to *Config) ([]document.Change, error) {
	var problems document.Problems
	changes := sections().table.Diff(from, to)
	for i := range changes {
		c := &changes[i]
		s, ok := find(c.Option)
		if !ok {
			continue // an unknown key of a patch, which has no effect
		}
		c.Old, c.New = redact(s, c.Old), redact(s, c.New)
		if !s.Runtime() && s.Info.NotSupported == "" {
			problems = append(problems, document.Problem{Path: s.Path, Rule: RuleNotAtRuntime,
				Message: notAtRuntime(s) + " to change it (" + described(c.Old) + " → " + described(c.New) + ")",
				Facts:   []document.Entry{document.Pair("old", c.Old), document.Pair("new", c.New)}})
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return changes, nil
}

func described(v document.Value) string {
	if v.IsNull() {
		return "unset"
	}
	return v.String()
}
