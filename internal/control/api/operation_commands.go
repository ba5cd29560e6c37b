package api

import (
	"fmt"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

var _ = register(
	command{name: "start_operation", v3: "start_op", volatile: true, result: "operation_id", run: startOperation, replay: replayStart},
	command{name: "abort_operation", v3: "abort_op", volatile: true, silentV3: true, run: abortOperation},
	command{name: "complete_operation", v3: "complete_op", volatile: true, silentV3: true, run: completeOperation},
	command{name: "suspend_operation", v3: "suspend_op", volatile: true, silentV3: true, run: suspendOperation},
	command{name: "resume_operation", v3: "resume_op", volatile: true, silentV3: true, run: resumeOperation},
	command{name: "update_operation_parameters", v3: "update_op_parameters", volatile: true, silentV3: true, run: updateOperation},
	command{name: "patch_operation_spec", v3: "patch_op_spec", volatile: true, silentV3: true, run: patchOperation},
)

// startOperation starts an operation and returns its id once it is stored.
// Everything that speaks against it is said here.
func startOperation(c *call) (yson.Node, error) {
	kind, err := c.Parameters.NeedText("operation_type")
	if err != nil {
		return yson.Node{}, err
	}
	if kind != "vanilla" {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Operations of type %q are not supported: there are no tables here; start a vanilla operation", wire.CutText(kind, 100)).
			With("operation_type", yson.String(kind))
	}
	if !c.Parameters.Has("spec") {
		return yson.Node{}, wire.Missing("spec")
	}
	given, err := c.Parameters.Document("spec")
	if err != nil {
		return yson.Node{}, err
	}
	spec, err := operation.Read(given, operation.ReadOptions{File: "spec"})
	if err != nil {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Error parsing operation spec").Because(err)
	}
	c.Warn(spec.Warnings)
	if err := c.checkStart(spec.Spec); err != nil {
		return yson.Node{}, err
	}
	id, err := c.Server.StartOperation(c.Context, c.Caller("operation"), server.Start{Type: kind, User: c.Who.User, Spec: spec})
	if err != nil {
		return yson.Node{}, err
	}
	return yson.String(id.String()), nil
}

// replayStart answers a repeated start with the id of the operation that the first
// one made.
func replayStart(_ *call, response []byte) (yson.Node, error) {
	id, err := guid.Parse(string(response))
	return yson.String(id.String()), err
}

// checkStart refuses operations in trees and pools that do not exist or that the
// user may not use, and lists that name nobody.
func (c *call) checkStart(spec *operation.Spec) error {
	if given, set := spec.ACL.Get(); set {
		if err := c.checkOperationACL(given); err != nil {
			return err
		}
	}
	trees, err := c.treesOf(spec)
	if err != nil {
		return err
	}
	for _, tree := range trees {
		options := spec.OperationOptions.For(tree.Name)
		name, named := options.Pool.Get()
		if !named {
			name = c.Who.User
		}
		chain, err := orchid.PoolChain(c.Request, tree, name, c.Who.User)
		if err != nil {
			return err
		}
		if err := c.Require(auth.UsePool(chain)); err != nil {
			return err
		}
		if named {
			if err := c.checkPoolExists(spec, tree, name); err != nil {
				return err
			}
		}
		if err := checkPool(spec, tree, name); err != nil {
			return err
		}
	}
	return nil
}

// checkPoolExists refuses a pool that an operation names and that is not
// configured, if the operation or the scheduler wants such pools to be.
func (c *call) checkPoolExists(spec *operation.Spec, tree *server.TreeConfig, name string) error {
	if _, there := tree.Tree.Pool(name); there || !spec.RequirePoolsExist.Value() && !c.Server.Settings().RequirePools {
		return nil
	}
	return wire.Errorf(wire.CodeNoSuchPool, "Operation is launched in nonexistent pool: pool %q of tree %q does not exist", name, tree.Name).
		With("pool", yson.String(name)).With("pool_tree", yson.String(tree.Name))
}

// checkPool refuses what the pool of an operation does not take, beyond what the
// scheduler itself checks.
func checkPool(spec *operation.Spec, tree *server.TreeConfig, name string) error {
	pool, there := tree.Tree.Pool(name)
	if there && spec.IsGang.Value() && !pool.Effective().AllowGangOperations {
		return wire.Errorf(wire.CodeGangInFairSharePool, "Gang operations are allowed only in FIFO pools: pool %q of tree %q is none", name, tree.Name).
			With("pool", yson.String(name)).With("pool_tree", yson.String(tree.Name))
	}
	return nil
}

// treesOf returns the trees in which an operation is to run.
func (c *call) treesOf(spec *operation.Spec) ([]*server.TreeConfig, error) {
	trees := c.Server.Trees()
	names, given := spec.PoolTrees.Get()
	if !given {
		if trees.Default == "" {
			return nil, wire.Errorf(wire.CodePoolTrees, "Operation pool trees are not specified: pool_trees is not given and there is no default tree")
		}
		names = []string{trees.Default}
	}
	var list []*server.TreeConfig
	for _, name := range names {
		tree, there := trees.Find(name)
		if !there {
			return nil, wire.Errorf(wire.CodePoolTrees, "Pool tree %q does not exist", name).With("pool_tree", yson.String(name))
		}
		list = append(list, tree)
	}
	return list, nil
}

func (c *call) checkOperationACL(given document.Value) error {
	list, err := auth.ParseACL(given)
	if err != nil {
		return wire.Errorf(wire.CodeGeneric, "Error parsing acl of the operation").Because(err)
	}
	r := document.NewReader("acl")
	c.Subjects.CheckACL(r, list)
	return r.Problems().Err()
}

func abortOperation(c *call) (yson.Node, error) {
	v, err := orchid.Manage(c.Request)
	if err != nil {
		return yson.Node{}, err
	}
	message, err := c.Parameters.Text("abort_message", "")
	if err != nil {
		return yson.Node{}, err
	}
	return nothing(c.Server.AbortOperation(c.Context, c.Caller(v.ID.String()), v.Key(), message))
}

func completeOperation(c *call) (yson.Node, error) {
	v, err := orchid.Manage(c.Request)
	if err != nil {
		return yson.Node{}, err
	}
	return nothing(c.Server.CompleteOperation(c.Context, c.Caller(v.ID.String()), v.Key()))
}

func suspendOperation(c *call) (yson.Node, error) {
	v, err := orchid.Manage(c.Request)
	if err != nil {
		return yson.Node{}, err
	}
	abort, err := c.Parameters.Boolean("abort_running_jobs", false)
	if err != nil {
		return yson.Node{}, err
	}
	return nothing(c.Server.SuspendOperation(c.Context, c.Caller(v.ID.String()), v.Key(), abort))
}

func resumeOperation(c *call) (yson.Node, error) {
	v, err := orchid.Manage(c.Request)
	if err != nil {
		return yson.Node{}, err
	}
	if !v.Live.Suspended && v.Live.State != operation.Orphaned {
		return yson.Node{}, wire.Errorf(wire.CodeOperationState, "Operation %s is not suspended: its state is %q", v.ID, v.Live.State).
			With("operation_id", yson.String(v.ID.String()))
	}
	return nothing(c.Server.ResumeOperation(c.Context, c.Caller(v.ID.String()), v.Key()))
}

// updateOperation changes parameters of a running operation: all, or none.
func updateOperation(c *call) (yson.Node, error) {
	if !c.Parameters.Has("parameters") {
		return yson.Node{}, wire.Missing("parameters")
	}
	given, err := c.Parameters.Document("parameters")
	if err != nil {
		return yson.Node{}, err
	}
	return c.update(given)
}

// patchOperation changes single options of the specification. They are the same
// that can be changed as parameters.
func patchOperation(c *call) (yson.Node, error) {
	patches, ok := c.Parameters.Get("patches")
	if !ok {
		return yson.Node{}, wire.Missing("patches")
	}
	change := document.Map()
	for i, patch := range patches.Items() {
		path, _ := patch.Get("path")
		text, _ := path.Text()
		value, there := patch.Get("value")
		if len(text) < 2 || text[0] != '/' || !there {
			return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /patches/%d: a patch has a path such as /max_failed_job_count and a value", i)
		}
		v, err := wire.ToDocument(value)
		if err != nil {
			return yson.Node{}, err
		}
		change = change.With(text[1:], v)
	}
	return c.update(change)
}

func (c *call) update(given document.Value) (yson.Node, error) {
	v, err := orchid.FindOperation(c.Request)
	if err != nil {
		return yson.Node{}, err
	}
	update, warnings, err := operation.ReadUpdate(given, "parameters")
	if err != nil {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Error parsing operation parameters").Because(err)
	}
	c.Warn(warnings)
	if list, set := update.ACL.Get(); set {
		if err := c.checkOperationACL(list); err != nil {
			return yson.Node{}, err
		}
	}
	needs, err := c.updateNeeds(v, &update)
	if err != nil {
		return yson.Node{}, err
	}
	if err := c.Require(needs); err != nil {
		return yson.Node{}, err
	}
	if err := v.MustLive(); err != nil {
		return yson.Node{}, err
	}
	if err := checkTrees(v, &update); err != nil {
		return yson.Node{}, err
	}
	return nothing(c.Server.UpdateOperation(c.Context, c.Caller(v.ID.String()), v.Key(), update))
}

// checkTrees refuses options for trees that the operation is not in.
func checkTrees(v *orchid.OperationView, update *operation.Update) error {
	for _, tree := range update.Trees.PerTree {
		if !v.IsIn(tree.Name) {
			return wire.Errorf(wire.CodePoolTrees, "Pool tree %q is not among those of operation %s", tree.Name, v.ID).
				With("pool_tree", yson.String(tree.Name))
		}
	}
	return nil
}

// updateNeeds is what a change of an operation's parameters needs.
func (c *call) updateNeeds(v *orchid.OperationView, update *operation.Update) (auth.Needs, error) {
	chain, err := v.Chain(c.Request)
	if err != nil {
		return nil, err
	}
	all := &update.Trees.SchedulingOptions
	change := auth.OperationUpdate{
		Weight: all.Weight.IsSet(),
		Other: update.ACL.IsSet() || update.ACOName.IsSet() || update.Annotations.IsSet() || update.MaxFailedJobCount.IsSet() ||
			all.SchedulingTagFilter.IsSet(),
	}
	var places []auth.Place
	trees := c.Server.Trees()
	for _, p := range v.Places() {
		tree, there := trees.Find(p.Tree)
		if !there {
			continue
		}
		here, err := orchid.PoolChain(c.Request, tree, p.Pool, v.User)
		if err != nil {
			return nil, err
		}
		places = append(places, auth.Place{Tree: p.Tree, Pool: here})
		wanted := all.Pool
		for _, own := range update.Trees.PerTree {
			if own.Name != p.Tree {
				continue
			}
			wanted = own.Value.Pool.OrElse(wanted)
			change.Other = change.Other || own.Value.ResourceLimits.IsSet()
			if own.Value.Weight.IsSet() {
				change.WeightIn = append(change.WeightIn, p.Tree)
			}
		}
		if name, moves := wanted.Get(); moves {
			to, err := orchid.PoolChain(c.Request, tree, name, v.User)
			if err != nil {
				return nil, fmt.Errorf("pool %s: %w", name, err)
			}
			if v.Live != nil {
				if err := c.checkPoolExists(v.Live.Spec, tree, name); err != nil {
					return nil, err
				}
			}
			change.Pools = append(change.Pools, to)
		}
	}
	return auth.UpdateOperation(chain, places, change), nil
}
