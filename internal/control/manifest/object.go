package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/value/document"
)

// Names of the custom resources.
const (
	Group   = "weir.dev"
	Version = "v1alpha1"
	Trees   = "weirtrees"
	Pools   = "weirpools"
	// Finalizer keeps the object of a pool or tree until Weir has removed the pool or tree.
	Finalizer = Group + "/pool"
	// DefaultTree is the tree of pools that name none.
	DefaultTree = "default"
)

// Pool is a WeirPool.
type Pool struct {
	// Object is the name of the object, Name that of the pool.
	Object, Name string
	Tree, Parent string
	Options      document.Value
	// Namespaces are the patterns of the namespaces that may use the pool; nil leaves that to Options.
	Namespaces []string
	// Deleted reports that the user has deleted the object: the pool is to be removed.
	Deleted bool
}

// Tree is a WeirTree. Its name is that of its object.
type Tree struct {
	Name     string
	Selector Selector
	Options  document.Value
	Deleted  bool
}

// Selector chooses nodes by their labels, as Kubernetes does it.
type Selector struct {
	MatchLabels      map[string]string `json:"matchLabels,omitempty"`
	MatchExpressions []Requirement     `json:"matchExpressions,omitempty"`
}

// Requirement is one condition of a selector.
type Requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

// isEmpty reports whether the selector chooses all nodes.
func (s Selector) isEmpty() bool { return len(s.MatchLabels)+len(s.MatchExpressions) == 0 }

// filter returns the selector as a formula over tags KEY=VALUE. Only labels in known become tags.
func (s Selector) filter(known []string) (string, error) {
	var terms []string
	tag := func(key, value string) string { return key + "=" + value }
	check := func(key string) error {
		if !slices.Contains(known, key) {
			return fmt.Errorf("the label %q is no tag of nodes: add it to scheduler/kubernetes/tag_labels", document.Shorten(key))
		}
		return nil
	}
	for _, key := range sortedKeys(s.MatchLabels) {
		if err := check(key); err != nil {
			return "", err
		}
		terms = append(terms, tag(key, s.MatchLabels[key]))
	}
	for _, r := range s.MatchExpressions {
		if err := check(r.Key); err != nil {
			return "", err
		}
		var tags []string
		for _, value := range r.Values {
			tags = append(tags, tag(r.Key, value))
		}
		switch {
		case r.Operator == "In" && len(tags) > 0:
			terms = append(terms, "("+strings.Join(tags, " | ")+")")
		case r.Operator == "NotIn" && len(tags) > 0:
			terms = append(terms, "!("+strings.Join(tags, " | ")+")")
		case r.Operator == "In" || r.Operator == "NotIn":
			return "", fmt.Errorf("the operator %s of the label %q needs values", r.Operator, document.Shorten(r.Key))
		default:
			return "", fmt.Errorf("the operator %q of the label %q is not supported: use In or NotIn", document.Shorten(r.Operator), document.Shorten(r.Key))
		}
	}
	return strings.Join(terms, " & "), nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m { // sorted below
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
