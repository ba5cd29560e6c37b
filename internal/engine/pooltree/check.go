package pooltree

import (
	"fmt"
	"strings"

	"github.com/weirhq/weir/internal/value/document"
)

// checker turns a draft into a tree and applies the rules of whole trees.
type checker struct {
	r       *document.Reader
	base    string // path of the tree in its document
	draft   *Draft
	tree    *Tree
	sources []int // for each pool of the tree, its index in the draft
}

// refuse reports a problem of an option of the tree.
func (c *checker) refuse(option string, rule document.Rule, message string, facts ...document.Entry) {
	c.r.Add(c.treeProblem(option, rule, message, facts))
}

func (c *checker) warn(option string, rule document.Rule, message string, facts ...document.Entry) {
	c.r.AddWarning(c.treeProblem(option, rule, message, facts))
}

func (c *checker) treeProblem(option string, rule document.Rule, message string, facts []document.Entry) document.Problem {
	at, _ := position(c.draft.source, TreeOptions, option)
	return document.Problem{
		File: c.r.File(), Position: at, Path: joinPath(c.base, option), Rule: rule, Message: message,
		Facts: append([]document.Entry{document.Pair("option", document.Text(option))}, facts...),
	}
}

// refusePool reports a problem of a pool, or of one of its options.
func (c *checker) refusePool(p *Pool, option string, rule document.Rule, message string, facts ...document.Entry) {
	c.r.Add(c.poolProblem(p, option, rule, message, facts))
}

func (c *checker) warnPool(p *Pool, option string, rule document.Rule, message string, facts ...document.Entry) {
	c.r.AddWarning(c.poolProblem(p, option, rule, message, facts))
}

func (c *checker) poolProblem(p *Pool, option string, rule document.Rule, message string, facts []document.Entry) document.Problem {
	draft := &c.draft.Pools[c.sources[p.index]]
	at := draft.at
	if option != "" {
		if place, ok := position(draft.source, PoolOptions, option); ok {
			at = place
		}
	}
	about := []document.Entry{document.Pair("pool", document.Text(p.name))}
	if option != "" {
		about = append(about, document.Pair("option", document.Text(option)))
	}
	return document.Problem{
		File: c.r.File(), Position: at, Path: joinPath(c.base, "pools"+p.Path(), option), Rule: rule, Message: message,
		Facts: append(about, facts...),
	}
}

// refuseDraft reports a problem of a pool that has no place in the tree.
func (c *checker) refuseDraft(d *PoolDraft, rule document.Rule, message string, facts ...document.Entry) {
	at := d.at
	if rule == RuleUnknownParent || rule == RuleCycle {
		if place, ok := position(d.source, poolDocumentTable, "parent"); ok {
			at = place
		}
	}
	c.r.Add(document.Problem{
		File: c.r.File(), Position: at, Path: joinPath(c.base, "pools", document.Shorten(d.Name)), Rule: rule, Message: message,
		Facts: append([]document.Entry{document.Pair("pool", document.Text(d.Name))}, facts...),
	})
}

// readable reports whether an option of a pool was read without problems, so
// that rules about it make sense.
func (c *checker) readable(p *Pool, option string) bool {
	return p.IsRoot() || !hasWrong(c.draft.Pools[c.sources[p.index]].wrong, option)
}

func joinPath(parts ...string) string {
	var kept []string
	for _, part := range parts {
		if part != "" {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "/")
}

// structure gives every pool of the draft its place. It puts misplaced pools
// below the root, so that the remaining rules can still be applied to them.
func (c *checker) structure() {
	drafts := c.draft.Pools
	names := make(map[string]int, len(drafts)+1)
	unique := make([]int, 0, len(drafts))
	for i := range drafts {
		d := &drafts[i]
		if message := nameProblem(d.Name, true, c.tree.limits.MaxNameLength); message != "" {
			c.refuseDraft(d, RuleBadName, message)
		}
		if first, taken := names[d.Name]; taken {
			c.duplicate(d, &drafts[first])
			continue
		}
		names[d.Name] = i
		unique = append(unique, i)
	}
	parents := c.parents(names, unique)
	c.breakCycles(parents, unique)
	c.place(parents, unique)
	c.sizes()
}

func (c *checker) duplicate(d, first *PoolDraft) {
	message := fmt.Sprintf("there are two pools called %q; names are unique in a tree", d.Name)
	if !first.at.IsZero() {
		message += fmt.Sprintf(" (the first is at line %d)", first.at.Line)
	}
	c.refuseDraft(d, RuleDuplicateName, message)
}

const root = -1 // as a parent in the draft

var noConfig PoolConfig // of the root

// parents returns for each pool of the draft the index of its parent.
func (c *checker) parents(names map[string]int, unique []int) []int {
	parents := make([]int, len(c.draft.Pools))
	for _, i := range unique {
		d := &c.draft.Pools[i]
		parents[i] = root
		if d.Parent == "" || d.Parent == RootName {
			continue
		}
		parent, ok := names[d.Parent]
		if !ok {
			message := fmt.Sprintf("the parent %q does not exist", d.Parent)
			if nearest, found := document.Nearest(d.Parent, c.poolNames(unique)); found {
				message += fmt.Sprintf("; did you mean %q?", nearest)
			}
			c.refuseDraft(d, RuleUnknownParent, message, document.Pair("parent", document.Text(d.Parent)))
			continue
		}
		parents[i] = parent
	}
	return parents
}

func (c *checker) poolNames(unique []int) []string {
	names := make([]string, len(unique))
	for i, u := range unique {
		names[i] = c.draft.Pools[u].Name
	}
	return names
}

// breakCycles reports every cycle of parents once and moves one of its pools
// below the root.
func (c *checker) breakCycles(parents, unique []int) {
	const unseen, done = 0, -1
	visit := make([]int, len(parents)) // the number of the walk that visited the pool
	for n, start := range unique {
		walk := n + 1
		i := start
		for i != root && visit[i] == unseen {
			visit[i] = walk
			i = parents[i]
		}
		if i != root && visit[i] == walk {
			c.cycle(parents, i)
			parents[i] = root
		}
		for j := start; j != root && visit[j] == walk; j = parents[j] {
			visit[j] = done
		}
	}
}

func (c *checker) cycle(parents []int, from int) {
	const most = 10
	names := []string{c.draft.Pools[from].Name}
	for i := parents[from]; i != from; i = parents[i] {
		names = append(names, c.draft.Pools[i].Name)
	}
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("… %d more", len(names)-most))
	}
	names = append(names, c.draft.Pools[from].Name)
	c.refuseDraft(&c.draft.Pools[from], RuleCycle, "the pool is inside itself: "+strings.Join(names, " is in "))
}

// place puts the pools into the tree, depth first. It does not recurse: without
// limits a tree may be as deep as it has pools.
func (c *checker) place(parents, unique []int) {
	children := make([][]int, len(parents)+1) // the root's are last
	for _, i := range unique {
		parent := parents[i]
		if parent == root {
			parent = len(parents)
		}
		children[parent] = append(children[parent], i)
	}
	t := c.tree
	t.pools = make([]Pool, 0, len(unique)+1)
	t.byName = make(map[string]int, len(unique)+1)
	c.sources = make([]int, 0, len(unique)+1)
	type step struct{ draft, parent int }
	stack := []step{{draft: len(parents), parent: root}}
	for len(stack) > 0 {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		index := len(t.pools)
		pool := Pool{tree: t, name: RootName, index: index, parent: s.parent, config: &noConfig}
		if s.parent != root {
			d := &c.draft.Pools[s.draft]
			pool.name = d.Name
			if d.Config != nil {
				pool.config = d.Config
			}
			pool.depth = t.pools[s.parent].depth + 1
			t.pools[s.parent].children = append(t.pools[s.parent].children, index)
		}
		t.pools = append(t.pools, pool)
		t.byName[pool.name] = index
		c.sources = append(c.sources, s.draft)
		for n := len(children[s.draft]) - 1; n >= 0; n-- {
			stack = append(stack, step{draft: children[s.draft][n], parent: index})
		}
	}
}

// sizes applies the limits on depth and on the size of subtrees.
func (c *checker) sizes() {
	t := c.tree
	sizes := make([]int, len(t.pools))
	for i := len(t.pools) - 1; i > 0; i-- {
		sizes[i]++
		sizes[t.pools[i].parent] += sizes[i]
	}
	for i := 1; i < len(t.pools); i++ {
		p := &t.pools[i]
		// In a deep branch only the first pool that is too deep is reported.
		if most := t.limits.MaxDepth; most > 0 && p.depth == most+1 {
			c.refusePool(p, "", RuleTooDeep,
				fmt.Sprintf("pools are nested deeper than %d levels here (%d pools are)", most, sizes[i]),
				document.Pair("limit", document.Int(int64(most))))
		}
		if most := t.limits.MaxSubtreeSize; most > 0 && p.depth == 1 && sizes[i] > most {
			c.refusePool(p, "", RuleSubtreeSize,
				fmt.Sprintf("the pool and everything below are %d pools; the limit is %d", sizes[i], most),
				document.Pair("pools", document.Int(int64(sizes[i]))), document.Pair("limit", document.Int(int64(most))))
		}
	}
}
