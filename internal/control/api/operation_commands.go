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

// startOperation starts an operation and returns its id once it is stored. All checks of the
// request happen here.
func startOperation(c *call) (yson.Node, error) {
	c.Warn(c.start.Warnings)
	if err := c.checkStart(c.start.Spec); err != nil {
		return yson.Node{}, err
	}
	files := &fixedFiles{call: c}
	defer files.release()
	if err := files.fix(c.start.Spec); err != nil {
		return yson.Node{}, err
	}
	if err := c.fixImages(c.start.Spec, files); err != nil {
		return yson.Node{}, err
	}
	id, err := c.Server.StartOperation(c.Context, c.Caller("operation"), server.Start{Type: vanilla, User: c.Who.User, Spec: c.start, Uses: files.uses})
	if err != nil {
		return yson.Node{}, err
	}
	return yson.String(id.String()), nil
}

// vanilla is the only type of operations here.
const vanilla = "vanilla"

// readStart reads the specification of the operation to start.
func (c *call) readStart() (*operation.Specification, error) {
	kind, err := c.Parameters.NeedText("operation_type")
	if err != nil {
		return nil, err
	}
	if kind != vanilla {
		return nil, wire.Errorf(wire.CodeGeneric, "Operations of type %q are not supported: there are no tables here; start a vanilla operation", wire.CutText(kind, 100)).
			With("operation_type", yson.String(kind))
	}
	given, err := c.describedStart()
	if err != nil {
		return nil, err
	}
	spec, err := operation.Read(given, operation.ReadOptions{File: "spec"})
	if err != nil {
		return nil, wire.Errorf(wire.CodeGeneric, "Error parsing operation spec").Because(err)
	}
	return spec, nil
}

// describedStart is the specification as the request has it.
func (c *call) describedStart() (document.Value, error) {
	described, err := c.Parameters.Mapping("spec")
	if err != nil {
		return document.Value{}, err
	}
	return wire.ToDocument(keepFileAttributes(described))
}

// anyTask stands in for tasks that cannot be read.
var anyTask = document.Map(document.Pair("any", document.Map(document.Pair("job_count", document.Int(1)), document.Pair("command", document.Text("true")))))

// readPools reads the specification of an operation whose tasks cannot be read, as far as pools need
// it; nil if more is wrong.
func (c *call) readPools() *operation.Specification {
	if kind, err := c.Parameters.NeedText("operation_type"); err != nil || kind != vanilla {
		return nil
	}
	given, err := c.describedStart()
	if err != nil {
		return nil
	}
	spec, err := operation.Read(given.With("tasks", anyTask), operation.ReadOptions{File: "spec"})
	if err != nil {
		return nil
	}
	return spec
}

// mayUsePools reads the specification and checks whether the user may use its pools. As in YTsaurus,
// an operation that pools refuse is refused for that reason, even if its tasks are wrong too.
func (c *call) mayUsePools() error {
	start, invalid := c.readStart()
	if invalid != nil {
		if start = c.readPools(); start == nil {
			return invalid
		}
	}
	c.start = start
	trees, err := c.treesOf(c.start.Spec)
	if err != nil {
		return err
	}
	for _, tree := range trees {
		name, _ := c.poolIn(c.start.Spec, tree)
		chain, err := orchid.PoolChain(c.Request, tree, name, c.Who.User)
		if err != nil {
			return err
		}
		if err := c.Require(auth.UsePool(chain)); err != nil {
			return err
		}
	}
	if invalid != nil {
		if err := c.checkStart(start.Spec); err != nil {
			return err
		}
		if err := c.Server.AcceptsOperation(c.Context, c.Who.User, start.Spec); err != nil {
			return err
		}
	}
	return invalid
}

// poolIn is the operation's pool in a tree: the one that the specification names, or the user's.
func (c *call) poolIn(spec *operation.Spec, tree *server.TreeConfig) (name string, named bool) {
	options := spec.OperationOptions.For(tree.Name)
	if name, named = options.Pool.Get(); !named {
		name = c.Who.User
	}
	return name, named
}

// replayStart answers a repeated start with the id of the operation that the first one started.
func replayStart(_ *call, response []byte) (yson.Node, error) {
	id, err := guid.Parse(string(response))
	return yson.String(id.String()), err
}

// checkStart refuses operations in pools that do not exist or do not accept them, and access lists
// with unknown subjects.
func (c *call) checkStart(spec *operation.Spec) error {
	if given, set := spec.ACL.Get(); set {
		if err := c.checkOperationACL(given); err != nil {
			return err
		}
	}
	if err := c.checkNotify(spec); err != nil {
		return err
	}
	trees, err := c.treesOf(spec)
	if err != nil {
		return err
	}
	for _, tree := range trees {
		name, named := c.poolIn(spec, tree)
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

// checkPoolExists refuses a pool that an operation names and that is not configured, if the
// operation or the scheduler requires configured pools.
func (c *call) checkPoolExists(spec *operation.Spec, tree *server.TreeConfig, name string) error {
	if _, there := tree.Tree.Pool(name); there || !spec.RequirePoolsExist.Value() && !c.Server.Settings().RequirePools {
		return nil
	}
	return wire.Errorf(wire.CodeNoSuchPool, "Operation is launched in nonexistent pool: pool %q of tree %q does not exist", name, tree.Name).
		With("pool", yson.String(name)).With("pool_tree", yson.String(tree.Name))
}

// checkPool refuses operations that the pool does not accept, beyond the scheduler's own checks.
func checkPool(spec *operation.Spec, tree *server.TreeConfig, name string) error {
	pool, there := tree.Tree.Pool(name)
	if there && spec.IsGang.Value() && !pool.Effective().AllowGangOperations {
		return wire.Errorf(wire.CodeGangInFairSharePool, "Gang operations are allowed only in FIFO pools: pool %q of tree %q is none", name, tree.Name).
			With("pool", yson.String(name)).With("pool_tree", yson.String(tree.Name))
	}
	return nil
}

// treesOf returns the trees that an operation is to run in.
func (c *call) treesOf(spec *operation.Spec) ([]*server.TreeConfig, error) {
	trees := c.Server.Trees()
	names, given := spec.PoolTrees.Get()
	if !given {
		if trees.Default == "" {
			return nil, wire.Errorf(wire.CodePoolTrees, "Operation pool trees are not specified: pool_trees is not set and there is no default tree")
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

// liveOperation is the operation of the request, which must not have ended.
func (c *call) liveOperation() (*orchid.OperationView, error) {
	return c.operation, c.operation.MustLive()
}

func abortOperation(c *call) (yson.Node, error) {
	v, err := c.liveOperation()
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
	v, err := c.liveOperation()
	if err != nil {
		return yson.Node{}, err
	}
	return nothing(c.Server.CompleteOperation(c.Context, c.Caller(v.ID.String()), v.Key()))
}

func suspendOperation(c *call) (yson.Node, error) {
	v, err := c.liveOperation()
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
	v, err := c.liveOperation()
	if err != nil {
		return yson.Node{}, err
	}
	if !v.Live.Suspended && v.Live.State != operation.Orphaned {
		return yson.Node{}, wire.Errorf(wire.CodeOperationState, "Operation %s is not suspended: its state is %q", v.ID, v.Live.State).
			With("operation_id", yson.String(v.ID.String()))
	}
	return nothing(c.Server.ResumeOperation(c.Context, c.Caller(v.ID.String()), v.Key()))
}

// updateOperation changes parameters of a running operation: all of them, or none.
func updateOperation(c *call) (yson.Node, error) {
	v, err := c.liveOperation()
	if err != nil {
		return yson.Node{}, err
	}
	if err := checkTrees(v, c.update); err != nil {
		return yson.Node{}, err
	}
	return nothing(c.Server.UpdateOperation(c.Context, c.Caller(v.ID.String()), v.Key(), *c.update))
}

// patches are changes of single options of the specification. The same options can be changed as
// parameters.
func patches(list yson.Node) (document.Value, error) {
	change := document.Map()
	for i, patch := range list.Items() {
		path, _ := patch.Get("path")
		text, _ := path.Text()
		value, there := patch.Get("value")
		if len(text) < 2 || text[0] != '/' || !there {
			return change, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /patches/%d: a patch has a path such as /max_failed_job_count and a value", i)
		}
		v, err := wire.ToDocument(value)
		if err != nil {
			return change, err
		}
		change = change.With(text[1:], v)
	}
	return change, nil
}

// readUpdate reads the changes that a request asks for.
func (c *call) readUpdate() (*operation.Update, error) {
	var given document.Value
	var err error
	if list, patched := c.Parameters.Get("patches"); patched {
		given, err = patches(list)
	} else {
		given, err = c.Parameters.Document("parameters")
	}
	if err != nil {
		return nil, err
	}
	update, warnings, err := operation.ReadUpdate(given, "parameters")
	if err != nil {
		return nil, wire.Errorf(wire.CodeGeneric, "Error parsing operation parameters").Because(err)
	}
	c.Warn(warnings)
	return &update, nil
}

// mayUpdateOperation reads the changes and checks whether the user may make them.
func (c *call) mayUpdateOperation() (err error) {
	if c.operation, err = orchid.FindOperation(c.Request); err != nil {
		return err
	}
	if c.update, err = c.readUpdate(); err != nil {
		return err
	}
	if list, set := c.update.ACL.Get(); set {
		if err := c.checkOperationACL(list); err != nil {
			return err
		}
	}
	needs, err := c.updateNeeds(c.operation, c.update)
	if err != nil {
		return err
	}
	return c.Require(needs)
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

// updateNeeds returns the permissions that an update of an operation's parameters needs.
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
