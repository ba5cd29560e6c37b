package client

import (
	"context"
	"fmt"
	"iter"

	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// Resources holds one number per resource: either amounts, in the units below, or shares,
// which are fractions of a tree's total.
type Resources struct {
	UserSlots float64 `yson:"user_slots"` // jobs
	CPU       float64 `yson:"cpu"`        // cores
	GPU       float64 `yson:"gpu"`        // devices
	Memory    float64 `yson:"memory"`     // bytes
	Network   float64 `yson:"network"`    // percent of a network card
}

// All iterates over the names and numbers, in the order of the fields.
func (r Resources) All() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		_ = yield("user_slots", r.UserSlots) && yield("cpu", r.CPU) && yield("gpu", r.GPU) && yield("memory", r.Memory) && yield("network", r.Network)
	}
}

// Of returns the number of the named resource; 0 if there is no such resource.
func (r Resources) Of(name string) float64 {
	for each, number := range r.All() {
		if each == name {
			return number
		}
	}
	return 0
}

// Standing is what a pool or an operation uses in a tree, and what it is entitled to.
type Standing struct {
	Weight float64   `yson:"weight"`
	Usage  Resources `yson:"resource_usage"`
	Demand Resources `yson:"resource_demand"`
	// The following are shares of the tree's resources.
	UsageShare  Resources `yson:"usage_share"`
	DemandShare Resources `yson:"demand_share"`
	FairShare   Resources `yson:"detailed_fair_share/total"`
	// Starvation is non_starving, starving or aggressively_starving.
	Starvation string `yson:"starvation_status"`
}

// Pool is the live state of a pool.
type Pool struct {
	Name   string `yson:"#"`
	Parent string `yson:"parent"` // empty for the root pool
	Mode   string `yson:"mode"`   // fair_share or fifo
	// Ephemeral reports whether the pool is not configured: it exists only while it has
	// operations.
	Ephemeral         bool  `yson:"is_ephemeral"`
	RunningOperations int64 `yson:"running_operation_count"`
	Operations        int64 `yson:"operation_count"`
	Standing
	StrongGuarantee Resources `yson:"strong_guarantee_resources"`
	// IntegralType is none, burst or relaxed; AccumulatedVolume is what an integral pool
	// has saved, in seconds of the whole tree.
	IntegralType      string  `yson:"integral_guarantee_type"`
	AccumulatedVolume float64 `yson:"accumulated_resource_ratio_volume"`
	// Satisfaction is usage divided by fair share. Below 1, the pool has less than it is
	// entitled to.
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

// RootPool is the name of every tree's root pool.
const RootPool = "<Root>"

// PoolTree is the live state of a tree.
type PoolTree struct {
	Name string `yson:"pool_tree"`
	// Resources is the total of the tree's nodes.
	Resources Resources `yson:"resource_limits"`
	// Pools includes the root pool.
	Pools      []Pool          `yson:"pools"`
	Operations []PoolOperation `yson:"operations"`
	Raw        Value           `yson:"."`
}

// liveTrees is the path of the trees' live state, configuredTrees that of their
// configuration.
const (
	liveTrees       = "//sys/scheduler/orchid/scheduler/pool_trees"
	configuredTrees = "//sys/pool_trees"
)

// The fields that GetPoolTree requests for each pool and each operation.
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

// DefaultTree returns the name of the tree that requests use if they name none.
func (c *Client) DefaultTree(ctx context.Context) (string, error) {
	answer, err := c.Get(ctx, configuredTrees+"/@default_tree", ReadOptions{})
	name, _ := answer.Text()
	return name, err
}

// PoolTrees returns the names of all trees.
func (c *Client) PoolTrees(ctx context.Context) ([]string, error) {
	return c.names(ctx, configuredTrees)
}

// PoolNames returns the names of a tree's pools. An empty tree means the default tree.
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

// liveTree returns the path of a tree's live state. It replaces an empty name by that of
// the default tree.
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

// GetPoolTree returns the live state of a tree: its pools and, if withOperations is set,
// its operations. An empty tree means the default tree.
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

// GetPool returns the live state of a pool. An empty tree means the default tree. Raw holds
// all fields of the pool, including those that GetPoolTree omits.
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

// PoolPath returns the path of a configured pool. The attributes at this path are the
// pool's options. An empty tree means the default tree.
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

// findPool searches for a pool below a path. If there is none, it returns the path itself.
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
// The server validates the whole tree with the new value; if it is invalid, nothing changes.
func (c *Client) SetPoolOption(ctx context.Context, tree, pool, option string, value any) error {
	path, err := c.PoolPath(ctx, tree, pool)
	if err != nil {
		return err
	}
	return c.Set(ctx, path+"/@"+option, value, WriteOptions{})
}

// CreatePool creates a pool and returns its id. An empty parent means the root pool.
// Options holds pool options, such as weight; it may be nil.
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

// RemovePool removes a pool and all pools below it.
func (c *Client) RemovePool(ctx context.Context, tree, pool string) error {
	path, err := c.PoolPath(ctx, tree, pool)
	if err != nil {
		return err
	}
	return c.Remove(ctx, path, WriteOptions{Recursive: true})
}

// PoolsFile is a document that describes a whole pool tree.
type PoolsFile struct {
	// Tree is the tree's name; empty means the default tree.
	Tree string `yson:"pool_tree"`
	// Text is YAML or JSON. The server parses it; its errors name File and the line.
	Text string `yson:"document"`
	File string `yson:"file"`
	// RequireFeasible makes ApplyPools fail with CodeOvercommit if the tree's nodes
	// cannot meet the guarantees.
	RequireFeasible bool `yson:"require_feasible"`
}

// PoolsPlan lists what a document changes in a tree.
type PoolsPlan struct {
	Tree  string `yson:"pool_tree"`
	New   bool   `yson:"is_new"`   // the tree does not exist yet
	Empty bool   `yson:"is_empty"` // the document changes nothing
	// Changes describes the changes for people, one line each.
	Changes  []string `yson:"changes"`
	Added    []string `yson:"added"`
	Removed  []string `yson:"removed"`
	Warnings []string `yson:"warnings"`
	// Feasible reports whether the tree's nodes can meet the guarantees; nil if the tree
	// has no nodes.
	Feasible *bool     `yson:"is_feasible"`
	Findings []Finding `yson:"feasibility/findings"`
	Raw      Value     `yson:"."`
}

// Finding is one result of the feasibility check.
type Finding struct {
	Message string `yson:"message"`
	Raw     Value  `yson:"."`
}

// PlanPools returns what ApplyPools would change. It changes nothing.
func (c *Client) PlanPools(ctx context.Context, f PoolsFile) (*PoolsPlan, error) {
	return ask[PoolsPlan](ctx, c, "plan_pools", f)
}

// ApplyPools changes a tree to match a document, and creates it if necessary. It applies
// all changes or none.
func (c *Client) ApplyPools(ctx context.Context, f PoolsFile) (*PoolsPlan, error) {
	return ask[PoolsPlan](ctx, c, "apply_pools", f)
}

// PoolsExport is a whole tree as a document that ApplyPools accepts.
type PoolsExport struct {
	YAML     string `yson:"yaml"`
	Document Value  `yson:"document"`
}

// ExportPools returns a tree as a document. An empty tree means the default tree.
func (c *Client) ExportPools(ctx context.Context, tree string) (*PoolsExport, error) {
	return ask[PoolsExport](ctx, c, "export_pools", PoolsFile{Tree: tree})
}
