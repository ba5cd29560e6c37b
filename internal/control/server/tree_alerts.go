package server

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/engine/pooltree"
)

// knownDefault is the default tree, empty if there is no tree of that name.
func (t *Trees) knownDefault() string {
	if _, there := t.Find(t.Default); !there {
		return ""
	}
	return t.Default
}

// alertTrees raises alerts about what trees refer to and what is not there, or cannot be used. It is
// no error, because the other part may be created later.
func (b *alertBoard) alertTrees(trees *Trees) {
	missing := ""
	if trees.Default != "" && trees.knownDefault() == "" {
		missing = fmt.Sprintf("Default tree %q is missing: operations without pool_trees are refused", trees.Default)
	}
	b.set(AlertDefaultTree, missing)
	problems := slices.Concat(b.leftOut, b.untemplated, trees.heldFilters())
	var unusable []string
	for i := range trees.List {
		tree := trees.List[i].Tree
		for _, wrong := range tree.UnknownPresets() {
			problems = append(problems, fmt.Sprintf("Pool %q of tree %q: there is no config preset %q; it has no effect", wrong.Name, trees.List[i].Name, wrong.Value))
		}
		settings := tree.Settings()
		name := settings.DefaultParentPool.Value()
		pool, there := tree.Pool(name)
		switch {
		case !there:
			unusable = append(unusable, fmt.Sprintf("Default parent pool %q of tree %q is missing: pools of users are created below the root", name, trees.List[i].Name))
		case pool.Effective().Mode == pooltree.FIFO:
			unusable = append(unusable, fmt.Sprintf("Default parent pool %q of tree %q is FIFO: pools of users are created below the root", name, trees.List[i].Name))
		}
	}
	b.set(AlertDefaultParent, strings.Join(unusable, "; "))
	b.set(AlertPoolConfig, strings.Join(problems, "; "))
}
