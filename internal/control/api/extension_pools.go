package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/feasibility"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

// codeGuaranteesOvercommit is the error code of guarantees that together exceed the cluster.
const codeGuaranteesOvercommit = 29000

// poolPlan is a tree as it is and as a document describes it.
type poolPlan struct {
	tree     string
	isNew    bool
	before   *pooltree.Tree
	after    *pooltree.Tree
	changes  pooltree.Changes
	warnings document.Problems
}

// plannedTree is the name of the tree that a request is about.
func (c *call) plannedTree(trees *server.Trees) (string, error) {
	name, err := c.Parameters.Text("pool_tree", trees.Default)
	if err == nil && name == "" {
		err = wire.Missing("pool_tree")
	}
	return name, err
}

// plan compares the tree that a request describes, in the parameter "document", with the current
// one. The document is a map, or text in YAML or JSON; errors about text have line numbers.
func (c *call) plan(trees *server.Trees) (*poolPlan, error) {
	name, err := c.plannedTree(trees)
	if err != nil {
		return nil, err
	}
	p := &poolPlan{tree: name}
	if there, ok := trees.Find(name); ok {
		p.before = there.Tree
	} else {
		p.isNew = true
		if p.before, _, err = pooltree.FromValue(document.Map(), trees.Options(name)); err != nil {
			return nil, err
		}
	}
	if err := p.read(c.Parameters, trees.Options(name)); err != nil {
		return nil, err
	}
	p.changes = pooltree.Diff(p.before, p.after)
	return p, nil
}

func (p *poolPlan) read(given wire.Parameters, options pooltree.Options) error {
	n, ok := given.Get("document")
	if !ok {
		return wire.Missing("document")
	}
	file, err := given.Text("file", "document")
	if err != nil {
		return err
	}
	var v document.Value
	if text, isText := n.Text(); isText {
		options.File = file
		if v, err = notation.Parse(file, []byte(text)); err == nil && v.IsNull() {
			return wire.Errorf(wire.CodeGeneric, "The document is empty, which would remove every pool; if that is meant, say so: {}")
		}
	} else if v, err = wire.ToDocument(n); err != nil {
		return err
	}
	if err == nil {
		err = p.readTree(v, options)
	}
	if err != nil {
		return wire.Errorf(wire.CodeGeneric, "The document is no correct pool tree").Because(problemsIn(err)...)
	}
	return nil
}

// readTree reads the tree and reports all problems at once.
func (p *poolPlan) readTree(v document.Value, options pooltree.Options) (err error) {
	p.after, p.warnings, err = pooltree.FromValue(v, options)
	return errors.Join(err, p.refuseUnknown())
}

// problemsIn splits joined errors into single ones.
func problemsIn(err error) (list []error) {
	var problems document.Problems
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, part := range joined.Unwrap() {
			list = append(list, problemsIn(part)...)
		}
		return list
	}
	if !errors.As(err, &problems) {
		return []error{err}
	}
	for _, p := range problems {
		list = append(list, document.Problems{p})
	}
	return list
}

// refuseUnknown refuses unknown options and presets unless the tree has them already, so that an
// exported tree can always be applied.
func (p *poolPlan) refuseUnknown() error {
	var refused document.Problems
	for _, w := range p.warnings.With(document.RuleUnknownKey) {
		parts := strings.Split(w.Path, "/")
		key, extras := parts[len(parts)-1], p.before.Config().Extras
		if len(parts) > 1 {
			extras = nil
			if pool, there := p.before.Pool(parts[len(parts)-2]); there {
				extras = pool.Config().Extras
			}
		}
		if _, kept := extras.Get(key); !kept {
			w.Message = strings.Replace(w.Message, "; it is kept but has no effect", "", 1)
			refused = append(refused, w)
		}
	}
	for _, w := range p.warnings.With(pooltree.RuleUnknownPreset) {
		parts := strings.Split(w.Path, "/")
		if !slices.ContainsFunc(p.before.UnknownPresets(), func(u document.Named[string]) bool { return slices.Contains(parts, u.Name) }) {
			w.Message = strings.TrimSuffix(w.Message, "; it has no effect")
			refused = append(refused, w)
		}
	}
	return refused.Err()
}

// planPools returns what a document would change, and whether its promises can be kept. It changes
// nothing.
func planPools(c *call) (yson.Node, error) {
	p, err := c.plan(c.Server.Trees())
	if err != nil {
		return yson.Node{}, err
	}
	verdict, err := c.feasible(p)
	if err != nil {
		return yson.Node{}, err
	}
	return p.node(verdict)
}

// applyPools changes a tree to match a document: as a whole, or not at all.
func applyPools(c *call) (yson.Node, error) {
	strict, err := c.Parameters.Boolean("require_feasible", false)
	if err != nil {
		return yson.Node{}, err
	}
	name, err := c.plannedTree(c.Server.Trees())
	if err != nil {
		return yson.Node{}, err
	}
	var p *poolPlan
	var verdict *feasibility.Verdict
	err = c.EditTrees(pathtree.PoolTreesPath+"/"+wire.EscapedTree(name), func(trees *server.Trees) (*server.Trees, error) {
		if p, err = c.plan(trees); err != nil {
			return nil, err
		}
		needs, err := c.planNeeds(p)
		if err != nil {
			return nil, err
		}
		if err := c.Require(needs); err != nil {
			return nil, err
		}
		if tree, there := trees.Find(p.tree); there {
			if err := c.RequirePassages(tree, p.after); err != nil {
				return nil, err
			}
		}
		if verdict, err = c.feasible(p); err != nil {
			return nil, err
		}
		if strict && verdict != nil && !verdict.OK {
			return nil, infeasible(verdict)
		}
		if p.changes.IsEmpty() && !p.isNew {
			return trees, nil
		}
		next := trees.Put(p.tree, p.after)
		if next.Default == "" {
			next.Default = p.tree
		}
		return next, nil
	})
	if err == nil {
		err = c.Commit() // the answer describes the plan
	}
	if err != nil {
		return yson.Node{}, err
	}
	c.Warn(p.warnings)
	return p.node(verdict)
}

// infeasible is the error for promises that cannot be kept.
func infeasible(v *feasibility.Verdict) *wire.Error {
	e := wire.Errorf(codeGuaranteesOvercommit, "The promises of the document cannot be kept on the nodes of the tree")
	for _, f := range v.Findings {
		if f.Severity == feasibility.Broken {
			e.Because(wire.Errorf(codeGuaranteesOvercommit, "%s", f.String()))
		}
	}
	return e
}

// planNeeds returns the permissions that applying a plan needs: the same as making each change by
// hand.
func (c *call) planNeeds(p *poolPlan) (needs auth.Needs, err error) {
	if p.isNew {
		chain, err := c.ChainAt(pathtree.PoolTreesPath)
		return auth.Requires(auth.Write, chain), err
	}
	// chainOf is the chain of a pool, or of its nearest existing ancestor.
	chainOf := func(name string) (auth.Chain, error) {
		pool, there := p.before.Pool(name)
		for !there {
			next, known := p.after.Pool(name)
			if !known {
				break
			}
			above, _ := next.Parent()
			name = above.Name()
			pool, there = p.before.Pool(name)
		}
		path := pathtree.PoolTreesPath + "/" + wire.EscapedTree(p.tree)
		if there && !pool.IsRoot() {
			path += pool.Path()
		}
		return c.ChainAt(path)
	}
	add := func(pool string, of func(chain auth.Chain) auth.Needs) {
		if err != nil {
			return
		}
		var chain auth.Chain
		if chain, err = chainOf(pool); err == nil {
			needs = append(needs, of(chain)...)
		}
	}
	if len(p.changes.Tree) > 0 {
		add(pooltree.RootName, func(chain auth.Chain) auth.Needs { return auth.SetTree(chain, optionNames(p.changes.Tree)...) })
	}
	for _, pool := range p.changes.Added {
		add(pool.Parent, func(chain auth.Chain) auth.Needs { return auth.CreatePool(chain, optionNames(pool.Options)...) })
	}
	for _, pool := range p.changes.Removed {
		add(pool.Pool, func(chain auth.Chain) auth.Needs { return auth.RemovePool(chain) })
	}
	for _, pool := range p.changes.Moved {
		add(pool.Pool, func(chain auth.Chain) auth.Needs {
			var to auth.Chain
			if to, err = chainOf(pool.To); err != nil {
				return nil
			}
			return auth.MovePool(chain, to)
		})
	}
	for _, pool := range p.changes.Changed {
		add(pool.Pool, func(chain auth.Chain) auth.Needs { return auth.SetPool(chain, optionNames(pool.Options)...) })
	}
	for _, parent := range p.changes.Reordered {
		add(parent, func(chain auth.Chain) auth.Needs { return auth.Requires(auth.Write, chain) })
	}
	return needs, err
}

// optionNames are the names of the changed options, without the paths inside them.
func optionNames(changes []document.Change) []string {
	var names []string
	for _, change := range changes {
		name, _, _ := strings.Cut(change.Option, "/")
		names = append(names, name)
	}
	return pathtree.SortedUnique(names)
}

// feasible checks whether the tree's current nodes can keep the promises of a plan. The verdict is
// nil if the tree has no nodes.
func (c *call) feasible(p *poolPlan) (*feasibility.Verdict, error) {
	return c.feasibleTree(p.tree, p.after)
}

// feasibleTree is feasible for a tree.
func (c *call) feasibleTree(name string, after *pooltree.Tree) (*feasibility.Verdict, error) {
	state, err := orchid.Current(c.Request)
	if err != nil {
		return nil, err
	}
	tree, there := state.Tree(name)
	if !there || tree.Info.Total.IsZero() {
		return nil, nil
	}
	cluster := feasibility.Cluster{Total: tree.Info.Total, Nodes: nodeGroups(tree)}
	settings := after.Settings()
	verdict, err := feasibility.Check(cluster, promisesOf(after), nil, feasibility.Options{
		MainResource: settings.MainResource.Value(), SaturationPeriod: settings.Integral.CapacitySaturationPeriod.Value(),
		RelaxedMultiplier: settings.Integral.RelaxedMultiplier.Value(),
	})
	if err != nil {
		return nil, fmt.Errorf("promises of tree %s: %w", name, err)
	}
	return &verdict, nil
}

// nodeGroups counts equal nodes of the tree.
func nodeGroups(t *orchid.Tree) (groups []feasibility.NodeGroup) {
	at := map[resource.Amounts]int{}
	for n := range t.State.View.Picture.Nodes() {
		if n.Tree != t.Info.ID || !n.Online {
			continue
		}
		g, known := at[n.Limits]
		if !known {
			g = len(groups)
			at[n.Limits] = g
			groups = append(groups, feasibility.NodeGroup{Name: n.Limits.String(), Each: n.Limits})
		}
		groups[g].Count++
	}
	return groups
}

var integralTypes = [...]feasibility.GuaranteeType{
	pooltree.NoIntegral: feasibility.NoIntegral, pooltree.Burst: feasibility.Burst, pooltree.Relaxed: feasibility.Relaxed,
}

// promisesOf are the promises made to the pools of a tree, parents first.
func promisesOf(tree *pooltree.Tree) (pools []feasibility.Pool) {
	place := map[string]int{pooltree.RootName: feasibility.Root}
	for pool := range tree.Pools() {
		above, _ := pool.Parent()
		config := pool.Config()
		place[pool.Name()] = len(pools)
		pools = append(pools, feasibility.Pool{
			Name: pool.Name(), Parent: place[above.Name()], Strong: config.StrongGuarantee.Value(), Limits: config.ResourceLimits.Value(),
			MaxShareRatio: config.MaxShareRatio.Value(), Type: integralTypes[config.Integral.Type.Value()],
			Flow: config.Integral.ResourceFlow.Value().OrZero(), Burst: config.Integral.Burst.Value().OrZero(),
			RelaxedMultiplier: config.Integral.RelaxedMultiplier.Value(),
		})
	}
	return pools
}

// node writes the changes of a plan.
func (p *poolPlan) node(verdict *feasibility.Verdict) (yson.Node, error) {
	fits, details := yson.Entity(), yson.Entity()
	if verdict != nil {
		data, err := json.Marshal(verdict)
		if err != nil {
			return yson.Node{}, err
		}
		if details, err = orchid.StoredJSON(data); err != nil {
			return yson.Node{}, err
		}
		fits = yson.Boolean(verdict.OK)
	}
	var warnings []string
	for _, w := range p.warnings {
		warnings = append(warnings, w.String())
	}
	var lines []string
	if text := strings.TrimSpace(p.changes.String()); text != "" {
		lines = strings.Split(text, "\n")
	}
	return yson.Map(
		yson.Pair("pool_tree", yson.String(p.tree)),
		yson.Pair("is_new", yson.Boolean(p.isNew)),
		yson.Pair("is_empty", yson.Boolean(p.changes.IsEmpty() && !p.isNew)),
		yson.Pair("changes", wire.Texts(lines)),
		yson.Pair("added", placeNames(p.changes.Added)),
		yson.Pair("removed", placeNames(p.changes.Removed)),
		yson.Pair("moved", yson.Int64(int64(len(p.changes.Moved)))),
		yson.Pair("changed", yson.Int64(int64(len(p.changes.Changed)))),
		yson.Pair("warnings", wire.Texts(warnings)),
		yson.Pair("is_feasible", fits),
		yson.Pair("feasibility", details)), nil
}

func placeNames(list []pooltree.PoolPlace) yson.Node {
	var names []string
	for _, p := range list {
		names = append(names, p.Pool)
	}
	return wire.Texts(names)
}

// exportPools writes a whole tree as a document that apply_pools accepts: as a value for programs
// and as YAML for people.
func exportPools(c *call) (yson.Node, error) {
	trees := c.Server.Trees()
	name, err := c.plannedTree(trees)
	if err != nil {
		return yson.Node{}, err
	}
	tree, there := trees.Find(name)
	if !there {
		return yson.Node{}, wire.Errorf(wire.CodeResolve, "Pool tree %q does not exist", name)
	}
	text, err := notation.YAML(tree.Tree.Document(document.ForPeople))
	if err != nil {
		return yson.Node{}, err
	}
	return yson.Map(
		yson.Pair("pool_tree", yson.String(name)),
		yson.Pair("document", wire.FromDocument(tree.Tree.Document(orchid.DocumentStyle))),
		yson.Pair("yaml", yson.String(string(text)))), nil
}
