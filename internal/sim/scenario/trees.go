package scenario

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
)

// onlyTree is the name of the tree of a scenario that writes pools without
// pool_trees.
const onlyTree = "default"

// trees reads pool_trees, or the short form of tree and pools.
func (b *builder) trees(v document.Value) {
	short := !b.in.pools.IsNull() || !b.in.tree.IsNull()
	switch {
	case !b.in.trees.IsNull() && short:
		b.r.Refuse(b.in.trees.Position(), document.RuleTwoNames, "pool_trees stands instead of tree and pools; give only one of them")
	case !b.in.trees.IsNull():
		b.namedTrees()
	default:
		b.shortTree()
	}
	b.chooseDefault(v)
}

func (b *builder) add(name string, draft *pooltree.Draft) {
	// Build returns nil if the reader has problems, earlier ones included, so
	// it gets a reader for this tree alone.
	own := document.NewReader(b.r.File())
	own.Enter(b.r.Path())
	tree := draft.Build(own, pooltree.Limits{})
	for _, p := range own.Problems() {
		b.r.Add(p)
	}
	for _, w := range own.Warnings() {
		b.r.AddWarning(w)
	}
	if tree == nil {
		return
	}
	b.out.Trees = append(b.out.Trees, document.Named[*pooltree.Tree]{Name: name, Value: tree})
	b.noteTree(tree)
}

// noteTree records the pools that exist at some time.
func (b *builder) noteTree(tree *pooltree.Tree) {
	for p := range tree.Pools() {
		if !b.poolKnown[p.Name()] {
			b.poolKnown[p.Name()] = true
			b.poolNames = append(b.poolNames, p.Name())
		}
	}
}

// shortTree reads a single tree, as package treefile does.
func (b *builder) shortTree() {
	b.r.Enter("tree")
	draft := pooltree.Read(b.r, b.in.tree, pooltree.Keys{})
	b.r.Leave()
	pools := pooltree.Read(b.r, document.Map(document.Pair("pools", b.in.pools)), pooltree.Keys{})
	draft.Pools = append(draft.Pools, pools.Pools...)
	if b.in.tree.IsNull() && b.in.pools.IsNull() && len(b.out.Traces) > 0 {
		// A trace is replayed as it is, not cut by the default limits.
		draft.Config.MaxOperationCount = document.Some(math.MaxInt32)
		draft.Config.MaxRunningOperationCount = document.Some(math.MaxInt32)
		b.out.MaxOperations = b.out.MaxOperations.OrElse(document.Some(math.MaxInt32))
	}
	b.add(onlyTree, draft)
}

func (b *builder) namedTrees() {
	b.r.Enter("pool_trees")
	defer b.r.Leave()
	if b.in.trees.Kind() != document.MapKind {
		b.r.Refuse(b.in.trees.Position(), document.RuleWrongType, "must be a map from names to pool trees")
		return
	}
	for _, e := range b.in.trees.Entries() {
		b.r.Enter(e.Key)
		if file, ok := e.Value.Get("file"); ok {
			b.treeFile(e, file)
		} else {
			b.add(e.Key, pooltree.Read(b.r, e.Value, pooltree.Keys{}))
		}
		b.r.Leave()
	}
}

// treeFile reads a tree from a separate file.
func (b *builder) treeFile(e document.Entry, file document.Value) {
	if len(e.Value.Entries()) > 1 {
		b.r.Refuse(e.At, document.RuleTwoNames, "a tree is either in a file or here")
		return
	}
	name, ok := document.ReadAs(document.Words, b.r, file)
	if !ok {
		return
	}
	opened := b.open(file, name)
	if opened == nil {
		return
	}
	defer opened.Close()
	data, err := io.ReadAll(io.LimitReader(opened, notation.MaxSize+1))
	if err != nil {
		b.fileProblem(file, fmt.Errorf("file %q: %w", name, err))
		return
	}
	v, err := notation.Parse(name, data)
	if err != nil {
		b.fileProblem(file, err)
		return
	}
	tree, warnings, err := pooltree.FromValue(v, pooltree.Options{File: name})
	for _, w := range warnings {
		b.r.AddWarning(w)
	}
	if err != nil {
		b.fileProblem(file, err)
		return
	}
	b.out.Trees = append(b.out.Trees, document.Named[*pooltree.Tree]{Name: e.Key, Value: tree})
	b.noteTree(tree)
}

// open opens a file that the scenario names, or reports why not.
func (b *builder) open(v document.Value, name string) io.ReadCloser {
	if b.opener == nil {
		b.r.Refuse(v.Position(), document.RuleMissing, fmt.Sprintf("file %q cannot be opened from here", document.Shorten(name)))
		return nil
	}
	file, err := b.opener(name)
	if err != nil {
		b.r.Refuse(v.Position(), document.RuleMissing, err.Error())
		return nil
	}
	return file
}

func (b *builder) treeNames() (names []string) {
	for _, t := range b.out.Trees {
		names = append(names, t.Name)
	}
	return names
}

// chooseDefault finds the tree for operations that name none.
func (b *builder) chooseDefault(v document.Value) {
	written, _ := v.Get("default_tree")
	name, given := b.in.defaultTree.Get()
	switch {
	case given:
		if !slices.Contains(b.treeNames(), name) && len(b.out.Trees) > 0 {
			b.r.Enter("default_tree")
			b.r.Refuse(written.Position(), document.RuleUnknownValue, fmt.Sprintf("there is no pool tree %q", name)+didYouMean(name, b.treeNames()))
			b.r.Leave()
		}
		b.out.DefaultTree = name
	case len(b.out.Trees) == 1:
		b.out.DefaultTree = b.out.Trees[0].Name
	case slices.Contains(b.treeNames(), onlyTree):
		b.out.DefaultTree = onlyTree
	}
}

// defaultTree returns the tree for operations that name none, nil if there is
// no such tree.
func (b *builder) defaultTree() *document.Named[*pooltree.Tree] {
	for i := range b.out.Trees {
		if b.out.Trees[i].Name == b.out.DefaultTree {
			return &b.out.Trees[i]
		}
	}
	return nil
}
