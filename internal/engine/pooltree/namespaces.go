package pooltree

import "path"

// Namespaces returns the patterns of the namespaces whose pods may run in the pool: its own, else those of the nearest pool
// above that has any. listed is false if there are none: then permissions decide.
func (p *Pool) Namespaces() (patterns []string, listed bool) {
	for at := p; at != nil && !at.IsRoot(); {
		if patterns, listed := at.config.Kubernetes.Namespaces.Get(); listed {
			return patterns, true
		}
		above, there := at.Parent()
		if !there {
			break
		}
		at = above
	}
	return nil, false
}

// MatchesNamespace reports whether one of the patterns matches a name.
func MatchesNamespace(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if match, err := path.Match(pattern, name); err == nil && match {
			return true
		}
	}
	return false
}
