package pooltree

import "testing"

// The nearest list above decides, and a star stands for any characters.
func TestTheNamespacesOfAPool(t *testing.T) {
	tree := mustParse(t, "{pools: {a: {kubernetes: {namespaces: [ml-*, lab]}, pools: {b: {}, c: {kubernetes: {namespaces: ['*-prod']}}}}, d: {}}}")
	for _, c := range []struct {
		pool, namespace string
		listed, matches bool
	}{
		{"a", "ml-1", true, true}, {"a", "lab", true, true}, {"a", "labs", true, false}, {"a", "html-", true, false},
		{"b", "ml-", true, true}, {"c", "web-prod", true, true}, {"c", "lab", true, false}, {"d", "lab", false, false},
	} {
		p, _ := tree.Pool(c.pool)
		patterns, listed := p.Namespaces()
		if matches := MatchesNamespace(patterns, c.namespace); listed != c.listed || matches != c.matches {
			t.Errorf("%s in %s: listed %v, matches %v", c.namespace, c.pool, listed, matches)
		}
	}
	var none *Pool
	if _, listed := none.Namespaces(); listed {
		t.Error("a pool that does not exist has namespaces")
	}
}
