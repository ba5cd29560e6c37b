package config

import (
	"github.com/weirhq/weir/internal/document"
)

// RuleNotAtRuntime is broken by a change of a setting that is read only when its
// process starts.
const RuleNotAtRuntime document.Rule = "not_at_runtime"

func notAtRuntime(s Setting) string {
	return "cannot change while the " + process(s) + " runs; restart it"
}

// process is what obeys a setting.
func process(s Setting) string {
	if s.Section() == UpSection {
		return "cluster"
	}
	return s.Section()
}

// Runtime compares the configuration that a process runs with and the one it
// should run with. It returns what changes, in the order of the tables, or, if
// something changes that cannot while the process runs, all such things as an
// error of type document.Problems. Secrets are hidden in both.
func Runtime(from, to *Config) ([]document.Change, error) {
	var problems document.Problems
	changes := sections.table.Diff(from, to)
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
