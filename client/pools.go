package client

import (
	"context"
	"fmt"
	"iter"

	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// Resources is a number for each resource: amounts, in the units below, or shares, which
// are fractions of what a tree has.
type Resources struct {
	UserSlots float64 `yson:"user_slots"` // jobs
	CPU       float64 `yson:"cpu"`        // cores
	GPU       float64 `yson:"gpu"`        // devices
	Memory    float64 `yson:"memory"`     // bytes
	Network   float64 `yson:"network"`    // percent of a network card
}

// All are the resources by name, in the order of the fields.
func (r Resources) All() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		_ = yield("user_slots", r.UserSlots) && yield("cpu", r.CPU) && yield("gpu", r.GPU) && yield("memory", r.Memory) && yield("network", r.Network)
	}
}

// Of is the number of a resource by its name; 0 if there is no such resource.
func (r Resources) Of(name string) float64 {
	for each, number := range r.All() {
		if each == name {
			return number
		}
	}
	return 0
}

// Standing is what a pool or an operation has in a tree, and what it is entitled to.
type Standing struct {
	Weight float64   `yson:"weight"`
	Usage  Resources `yson:"resource_usage"`
	Demand Resources `yson:"resource_demand"`
	// Shares of the tree's resources.
	UsageShare  Resources `yson:"usage_share"`
	DemandShare Resources `yson:"demand_share"`
	FairShare   Resources `yson:"detailed_fair_share/total"`
	// Starvation is non_starving, starving or aggressively_starving.
	Starvation string `yson:"starvation_status"`
}

// Pool is the live state of a pool.
type Pool struct {
	Name   string `yson:"#"`
	Parent string `yson:"parent"` // empty for the root, which is called RootPool
	Mode   string `yson:"mode"`   // fair_share or fifo
	// Ephemeral pools are not configured: they come and go with their operations.
	Ephemeral         bool  `yson:"is_ephemeral"`
	RunningOperations int64 `yson:"running_operation_count"`
	Operations        int64 `yson:"operation_count"`
	Standing
	StrongGuarantee Resources `yson:"strong_guarantee_resources"`
	// IntegralType is none, burst or relaxed; AccumulatedVolume is what an integral pool
	// has saved, in seconds of the whole tree.
	IntegralType      string  `yson:"integral_guarantee_type"`
	AccumulatedVolume float64 `yson:"accumulated_resource_ratio_volume"`
	// Satisfaction is usage over fair share: below 1 it has less than it is entitled to.
	Satisfaction float64 `yson:"satisfaction_ratio"`
	Raw          Value   `yson:"."`
}

// PoolOperation is the live state of an operation in a tree.
type PoolOperation struct {
	ID        string `yson:"#"`
	Pool      string `yson:"pool"`
	Title     string `yson:"title"`
	User      string `yson:"user"`
	State     State  `yson:"state"`
	Suspended bool   `yson:"suspended"`
	Standing
	Raw Value `yson:"."`
}

// RootPool is the name of the root of every tree.
const RootPool = "<Root>"

// PoolTree is the live state of a tree.
type PoolTree struct {
	Name string `yson:"pool_tree"`
	// Resources is what the nodes of the tree have.
	Resources Resources `yson:"resource_limits"`
	// Pools are in the order of the tree, the root among them.
	Pools      []Pool          `yson:"pools"`
	Operations []PoolOperation `yson:"operations"`
	Raw        Value           `yson:"."`
}

// liveTrees is where the live state of trees is, configuredTrees what they are to be.
const (
	liveTrees       = "//sys/scheduler/orchid/scheduler/pool_trees"
	configuredTrees = "//sys/pool_trees"
)

// Fields that are asked for, of each pool and each operation of a tree.
var (
	poolFields = []string{
		"parent", "mode", "weight", "is_ephemeral", "running_operation_count", "operation_count", "resource_usage", "resource_demand",
		"usage_share", "demand_share", "detailed_fair_share", "strong_guarantee_resources", "integral_guarantee_type",
		"accumulated_resource_ratio_volume", "starvation_status", "satisfaction_ratio",
	}
	poolOperationFields = []string{
		"pool", "title", "user", "state", "suspended", "weight", "resource_usage", "resource_demand", "usage_share", "demand_share",
		"detailed_fair_share", "starvation_status",
	}
)

// DefaultTree is the name of the tree that is meant if none is named.
func (c *Client) DefaultTree(ctx context.Context) (string, error) {
	answer, err := c.Get(ctx, configuredTrees+"/@default_tree", ReadOptions{})
	name, _ := answer.Text()
	return name, err
}

// PoolTrees are the names of all trees.
func (c *Client) PoolTrees(ctx context.Context) ([]string, error) {
	return c.names(ctx, configuredTrees)
}

// PoolNames are the names of the pools of a tree, the default one if tree is empty.
func (c *Client) PoolNames(ctx context.Context, tree string) ([]string, error) {
	at, err := c.liveTree(ctx, &tree)
	if err != nil {
		return nil, err
	}
	return c.names(ctx, at+"/pools")
}

func (c *Client) names(ctx context.Context, path string) ([]string, error) {
	children, err := c.List(ctx, path, ReadOptions{})
	names := make([]string, len(children))
	for i, child := range children {
		names[i], _ = child.Text()
	}
	return names, err
}

// liveTree is where the live state of a tree is; an empty name becomes the default one.
func (c *Client) liveTree(ctx context.Context, tree *string) (string, error) {
	if *tree == "" {
		name, err := c.DefaultTree(ctx)
		if err != nil {
			return "", err
		}
		*tree = name
	}
	return liveTrees + "/" + ypath.Escape(*tree), nil
}

// GetPoolTree returns the live state of a tree, the default one if tree is empty: its
// pools and, if wanted, its operations.
func (c *Client) GetPoolTree(ctx context.Context, tree string, withOperations bool) (*PoolTree, error) {
	at, err := c.liveTree(ctx, &tree)
	if err != nil {
		return nil, err
	}
	parts := []yson.Entry{yson.Pair("pool_tree", yson.String(tree))}
	for _, part := range []struct {
		key    string
		fields []string
	}{{"resource_limits", nil}, {"pools", poolFields}, {"operations", poolOperationFields}} {
		if part.key == "operations" && !withOperations {
			continue
		}
		value, err := c.Get(ctx, at+"/"+part.key, ReadOptions{Fields: part.fields})
		if err != nil {
			return nil, err
		}
		parts = append(parts, yson.Pair(part.key, value.node))
	}
	return decode[PoolTree](Value{yson.Map(parts...)}), nil
}

// GetPool returns the live state of a pool, with everything that is known about it in Raw.
func (c *Client) GetPool(ctx context.Context, tree, pool string) (*Pool, error) {
	at, err := c.liveTree(ctx, &tree)
	if err != nil {
		return nil, err
	}
	answer, err := c.Get(ctx, at+"/pools/"+ypath.Escape(pool), ReadOptions{})
	if err != nil {
		return nil, err
	}
	found := decode[Pool](answer)
	found.Name = pool
	return found, nil
}

// PoolPath is the path of a pool that is configured; its attributes are the options of the
// pool. An empty tree means the default one.
func (c *Client) PoolPath(ctx context.Context, tree, pool string) (string, error) {
	if _, err := c.liveTree(ctx, &tree); err != nil {
		return "", err
	}
	root := configuredTrees + "/" + ypath.Escape(tree)
	answer, err := c.Get(ctx, root, ReadOptions{})
	if err != nil {
		return "", err
	}
	path, found := findPool(root, answer.node, pool)
	if !found && pool != RootPool {
		return "", &Error{Code: CodeResolve, Message: fmt.Sprintf("There is no pool %q in tree %q", pool, tree)}
	}
	return path, nil
}

// findPool looks for a pool below a path; without it the path is the answer.
func findPool(path string, pools yson.Node, name string) (at string, found bool) {
	for _, e := range pools.Entries() {
		below := path + "/" + ypath.Escape(e.Key)
		if e.Key == name {
			return below, true
		}
		if at, found = findPool(below, e.Value, name); found {
			return at, true
		}
	}
	return path, false
}

// SetPoolOption sets an option of a pool, such as weight or strong_guarantee_resources.
// The whole tree is checked: the option is set, or nothing changes.
func (c *Client) SetPoolOption(ctx context.Context, tree, pool, option string, value any) error {
	path, err := c.PoolPath(ctx, tree, pool)
	if err != nil {
		return err
	}
	return c.Set(ctx, path+"/@"+option, value, WriteOptions{})
}

// CreatePool makes a pool below a parent, the root if that is empty, and returns its id.
// Options are those of pools, such as weight; nil if there are none.
func (c *Client) CreatePool(ctx context.Context, tree, parent, pool string, options map[string]any) (id string, err error) {
	given, err := ValueOf(options)
	if err != nil {
		return "", err
	}
	return c.Create(ctx, "scheduler_pool", "", merged(given, struct {
		Name   string `yson:"name"`
		Tree   string `yson:"pool_tree"`
		Parent string `yson:"parent_name"`
	}{pool, tree, parent}), WriteOptions{})
}

// RemovePool removes a pool with everything below it.
func (c *Client) RemovePool(ctx context.Context, tree, pool string) error {
	path, err := c.PoolPath(ctx, tree, pool)
	if err != nil {
		return err
	}
	return c.Remove(ctx, path, WriteOptions{Recursive: true})
}

// PoolsFile is a whole tree of pools as a document.
type PoolsFile struct {
	// Tree is its name; empty means the default one.
	Tree string `yson:"pool_tree"`
	// Text is YAML or JSON. The server reads it, so that its errors name lines of File.
	Text string `yson:"document"`
	File string `yson:"file"`
	// RequireFeasible refuses promises that the nodes of the tree cannot keep.
	RequireFeasible bool `yson:"require_feasible"`
}

// PoolsPlan is what a document changes in a tree.
type PoolsPlan struct {
	Tree  string `yson:"pool_tree"`
	New   bool   `yson:"is_new"`   // there was no such tree
	Empty bool   `yson:"is_empty"` // nothing differs
	// Changes for people, a line each.
	Changes  []string `yson:"changes"`
	Added    []string `yson:"added"`
	Removed  []string `yson:"removed"`
	Warnings []string `yson:"warnings"`
	// Feasible says whether the nodes of the tree can keep the promises; nil if it has
	// none.
	Feasible *bool     `yson:"is_feasible"`
	Findings []Finding `yson:"feasibility/findings"`
	Raw      Value     `yson:"."`
}

// Finding is something about the promises of a tree.
type Finding struct {
	Message string `yson:"message"`
	Raw     Value  `yson:"."`
}

// PlanPools says what ApplyPools would change. It changes nothing.
func (c *Client) PlanPools(ctx context.Context, f PoolsFile) (*PoolsPlan, error) {
	return ask[PoolsPlan](ctx, c, "plan_pools", f)
}

// ApplyPools makes a tree what a document says, as a whole or not at all.
func (c *Client) ApplyPools(ctx context.Context, f PoolsFile) (*PoolsPlan, error) {
	return ask[PoolsPlan](ctx, c, "apply_pools", f)
}

// PoolsExport is a whole tree as a document that ApplyPools takes.
type PoolsExport struct {
	YAML     string `yson:"yaml"`
	Document Value  `yson:"document"`
}

// ExportPools writes a tree, the default one if tree is empty, as a document.
func (c *Client) ExportPools(ctx context.Context, tree string) (*PoolsExport, error) {
	return ask[PoolsExport](ctx, c, "export_pools", PoolsFile{Tree: tree})
}
