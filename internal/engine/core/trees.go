package core

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/entitlement"
	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

// RootName is the name of the root pool of every tree.
const RootName = "<Root>"

// tree is a pool tree with its nodes.
type tree struct {
	id     TreeID
	name   string
	config *pooltree.Tree
	filter nodefilter.Filter
	state  *scheduling.Tree
	pools  map[string]*pool
	order  []*pool // in the order they were added
	listed []*pool `save:"-"` // parents before children; nil if it must be rebuilt
	// edition increases whenever pools are added, removed or moved.
	edition uint64
	jobs    []job // by allocation
	owners  []OperationID
	nodes   []NodeID // by scheduling.Node
	core    *Core
	// nodesChanged reports whether limits that depend on node filters are out of
	// date.
	nodesChanged bool
	// assembling is the gang that assembled when trees were last compared.
	assembling int32
	// dropped are pools that were removed since the last TakeUsage.
	dropped []string `save:"-"`
}

// pool is a pool as the core knows it.
type pool struct {
	name      string
	slot      int32
	parent    *pool
	ephemeral bool
	user      string // the user whose operation created it
	hub       bool   // it is a subpool of a pool with create_ephemeral_subpools
	members   int    // operations and pools directly in it
	numbers   []bool // which numbers are in use by operations directly in it, from one on
}

// setTrees replaces the configuration of all trees. Trees keep their names
// and positions; new trees are added at the end.
func (c *Core) setTrees(now time.Time, trees []document.Named[*pooltree.Tree], defaultTree string, out *Decisions) error {
	if err := c.CheckTrees(trees); err != nil {
		return err
	}
	c.defaultTree = none
	for i, named := range trees {
		if i >= len(c.trees) {
			c.trees = append(c.trees, c.newTree(TreeID(i), named.Name, named.Value))
		}
		t := c.trees[i]
		waking := t.configure(named.Value, out)
		for _, slot := range waking {
			c.admitted(now, t, slot, out)
		}
		if named.Name == defaultTree {
			c.defaultTree = t.id
		}
	}
	for id := range c.nodes {
		if c.nodes[id] != nil {
			c.rejoin(now, NodeID(id), out)
		}
	}
	for _, t := range c.trees {
		c.admitWaiting(now, t, out)
	}
	return nil
}

// CheckTrees returns why TreesInput would refuse a configuration: it reorders
// trees, or puts a node into two of them (TwoTreesError).
func (c *Core) CheckTrees(trees []document.Named[*pooltree.Tree]) error {
	if len(trees) < len(c.trees) {
		return errors.New("a pool tree cannot be removed while the scheduler runs")
	}
	var problems []error
	for i, t := range c.trees {
		if trees[i].Name != t.name {
			problems = append(problems, fmt.Errorf("pool tree %s is now called %s: trees keep their names and positions", t.name, trees[i].Name))
		}
	}
	for _, n := range c.nodes {
		if n == nil {
			continue
		}
		var names []string
		for _, named := range trees {
			if named.Value.Settings().NodesFilter.Value().Matches(n.hasTag) {
				names = append(names, named.Name)
			}
		}
		if len(names) > 1 {
			problems = append(problems, &TwoTreesError{Node: n.name, Trees: names})
		}
	}
	return errors.Join(problems...)
}

func (c *Core) newTree(id TreeID, name string, config *pooltree.Tree) *tree {
	t := &tree{id: id, name: name, config: config, core: c, pools: map[string]*pool{}, assembling: none}
	root := scheduling.PoolParameters{Name: RootName, Element: entitlement.Root(), Effective: config.Root().Effective()}
	t.state = scheduling.New(t.settings(config), entitlement.Options(config), root)
	t.owners = append(t.owners, NoOperation)
	t.addPool(&pool{name: RootName})
	return t
}

func (t *tree) settings(config *pooltree.Tree) scheduling.Settings {
	s, chosen := config.Settings(), config.Chosen()
	order, _ := s.FIFOOrder.Get()
	return scheduling.Settings{
		TreePreemption: s.Preemption,
		// The core's setting is the default of a tree.
		MinSpare:           chosen.MinSpareResources.Value().Or(t.core.settings.MinSpare),
		FIFOBySatisfaction: order == pooltree.BySatisfaction,
		GuaranteesFirst:    s.GuaranteePriorityScheduling.Value(),
		OvercommitPatience: t.core.settings.OvercommitPatience,
		Packing:            scheduling.PackingOf(s.Packing),
		BestSharePeriod:    s.BestAllocationPeriod.Value(),
		NodeReconnection:   s.NodeReconnectionTimeout.Value(),
		GangAssembly:       max(s.GangAssemblyTimeout.Value(), 2*t.core.settings.HeartbeatPeriod),
	}
}

func (t *tree) addPool(p *pool) {
	t.pools[p.name] = p
	t.order = append(t.order, p)
	t.relist()
	if p.parent != nil {
		p.parent.members++
	}
}

// configure applies a configuration to pools and settings. Pools that were
// removed but are not empty stay, without guarantees, until they are empty.
// It returns operations that run because of the change.
func (t *tree) configure(config *pooltree.Tree, out *Decisions) (admitted []int32) {
	t.config, t.filter = config, config.Settings().NodesFilter.Value()
	t.state.Configure(t.settings(config), entitlement.Options(config))
	t.state.SetPool(0, scheduling.PoolParameters{Name: RootName, Element: entitlement.Root(), Effective: config.Root().Effective()})
	for configured := range config.Pools() {
		above, _ := configured.Parent()
		parent := t.pools[nameOf(above)]
		p := t.pools[configured.Name()]
		if p != nil {
			t.movePool(p, parent)
		}
		own := configured.Config()
		parameters := t.poolParameters(configured.Name(), &own, configured.Effective())
		if p == nil {
			t.addPool(&pool{name: configured.Name(), slot: t.state.AddPool(parent.slot, parameters), parent: parent})
			continue
		}
		p.ephemeral, p.hub, p.user = false, false, ""
		t.state.SetPool(p.slot, parameters)
	}
	admitted = t.dissolve(out)
	t.settleEphemeral()
	t.renewOperations(func(*place) bool { return true })
	return admitted
}

// renewOperations recomputes the operations' parameters after their inputs
// have changed.
func (t *tree) renewOperations(concerns func(*place) bool) {
	for _, id := range t.core.live {
		op := t.core.operations[id]
		for i := range op.places {
			if at := &op.places[i]; at.tree == t.id && concerns(at) {
				t.state.SetOperation(at.slot, t.operationParameters(op, at))
			}
		}
	}
}

// followNodes recomputes the limits of pools and operations that may use only
// some nodes, from what these nodes have now.
func (t *tree) followNodes() {
	if !t.nodesChanged {
		return
	}
	t.nodesChanged = false
	for configured := range t.config.Pools() {
		if own := configured.Config(); !own.SchedulingTagFilter.Value().IsEmpty() {
			t.state.SetPool(t.pools[configured.Name()].slot, t.poolParameters(configured.Name(), &own, configured.Effective()))
		}
	}
	t.renewOperations(func(at *place) bool { return !at.options.SchedulingTagFilter.Value().IsEmpty() })
}

func nameOf(p *pooltree.Pool) string {
	if p == nil || p.IsRoot() {
		return RootName
	}
	return p.Name()
}

func (t *tree) poolParameters(name string, c *pooltree.PoolConfig, e pooltree.Effective) scheduling.PoolParameters {
	return scheduling.PoolParameters{
		Name: name, Element: entitlement.Pool(c, t), Effective: e, Filter: c.SchedulingTagFilter.Value(),
		Specified: c.ResourceLimits.Value(),
	}
}

// drop removes an ephemeral pool if it is empty, and then its parents
// likewise.
func (t *tree) drop(p *pool) {
	for p.parent != nil && p.ephemeral && p.members == 0 {
		t.state.RemovePool(p.slot)
		delete(t.pools, p.name)
		if !slices.Contains(t.dropped, p.name) {
			t.dropped = append(t.dropped, p.name)
		}
		t.order = slices.DeleteFunc(t.order, func(other *pool) bool { return other == p })
		t.relist()
		p.parent.members--
		p = p.parent
	}
}

// relist notes that pools were added, removed or moved.
func (t *tree) relist() {
	t.listed = nil
	t.edition++
}

// parentsFirst lists pools so that a parent comes before its children: a
// moved pool may be older than its new parent. The list is not modified
// afterwards.
func (t *tree) parentsFirst() []*pool {
	if t.listed != nil {
		return t.listed
	}
	slots := int32(0)
	for _, p := range t.order {
		slots = max(slots, p.slot+1)
	}
	listed := make([]bool, slots)
	list := make([]*pool, 0, len(t.order))
	var add func(p *pool)
	add = func(p *pool) {
		if listed[p.slot] {
			return
		}
		if p.parent != nil {
			add(p.parent)
		}
		listed[p.slot] = true
		list = append(list, p)
	}
	for _, p := range t.order {
		add(p)
	}
	t.listed = list
	return list
}

// ephemeralParameters returns the parameters of a pool that is created below
// a parent.
func (t *tree) ephemeralParameters(name string, parent *pool) scheduling.PoolParameters {
	own, effective := ephemeralOptions(t.config, parent.name, t.effectiveOf(parent))
	return t.poolParameters(name, &own, effective)
}

// ephemeralOptions returns the options of a pool that is created below a
// parent. The pool inherits the parent's effective options.
func ephemeralOptions(config *pooltree.Tree, parent string, effective pooltree.Effective) (own pooltree.PoolConfig, _ pooltree.Effective) {
	if configured, ok := config.Pool(parent); ok {
		own = configured.EphemeralPool()
	}
	settings := config.Settings()
	effective.Mode = own.Mode.Or(pooltree.FairShare)
	effective.FIFOSortParameters = pooltree.DefaultFIFOSort
	effective.MaxRunningOperationCount = own.MaxRunningOperationCount.Or(settings.MaxRunningOperationCountPerPool.Value())
	effective.MaxOperationCount = own.MaxOperationCount.Or(settings.MaxOperationCountPerPool.Value())
	effective.ForbidImmediateOperations = false
	return own, effective
}

// effectiveOf returns the effective options of a pool. An ephemeral pool has
// those of its parent.
func (t *tree) effectiveOf(p *pool) pooltree.Effective {
	for ; p != nil && p.parent != nil; p = p.parent {
		if configured, ok := t.config.Pool(p.name); ok {
			return configured.Effective()
		}
	}
	return t.config.Root().Effective()
}

// Matching returns the sum of the resources of the tree's nodes that match a
// filter.
func (t *tree) Matching(filter nodefilter.Filter) (sum resource.Amounts, known bool) {
	for _, id := range t.nodes {
		if n := t.core.nodes[id]; n != nil && n.tree == t.id && filter.Matches(n.hasTag) {
			sum = sum.Add(n.resources)
		}
	}
	return sum, true
}

// BestShare sets no bound: the bound follows the demand and the nodes, so
// scheduling recomputes it periodically.
func (t *tree) BestShare(resource.Amounts) resource.Shares { return resource.Shares{} }

var _ entitlement.Nodes = (*tree)(nil)

// resolve finds the pool that an operation runs in, or the name and parent of
// the ephemeral pool that must be created for it.
func (t *tree) resolve(user string, wanted document.Optional[string]) (parent *pool, name string, err error) {
	name = wanted.Or(user)
	if p := t.pools[name]; p != nil {
		configured, ok := t.config.Pool(name)
		if ok && configured.Config().CreateEphemeralSubpools.Value() {
			return p, name + "$" + user, nil
		}
		effective := t.config.Root().Effective()
		if ok {
			effective = configured.Effective()
		}
		if (ok || p.parent == nil) && effective.ForbidImmediateOperations {
			return nil, "", &PoolError{Tree: t.name, Pool: name, Rule: PoolForbidsOperations}
		}
		return p.parent, name, nil
	}
	if err := pooltree.CheckName(name, true); err != nil {
		return nil, "", &PoolError{Tree: t.name, Pool: name, Rule: PoolNameForbidden, Cause: err}
	}
	parent = t.defaultParent(user)
	owned := 0
	for _, p := range t.order {
		if p.ephemeral && !p.hub && p.user == user {
			owned++
		}
	}
	if most := t.config.Settings().MaxEphemeralPoolPerUser.Value(); owned >= most {
		return nil, "", &PoolError{Tree: t.name, Pool: name, Rule: PoolsPerUser, User: user, Limit: most}
	}
	return parent, name, nil
}

func (t *tree) isFIFO(p *pool) bool {
	configured, ok := t.config.Pool(p.name)
	return ok && configured.Effective().Mode == pooltree.FIFO
}

// PoolRule is why an operation cannot run in a pool.
type PoolRule uint8

const (
	PoolMissing           PoolRule = iota // the pool does not exist
	PoolForbidsOperations                 // forbid_immediate_operations
	PoolNameForbidden                     // it does not exist, and the name is not allowed
	PoolsPerUser                          // it does not exist, and the user has reached the limit on ephemeral pools
)

// PoolError reports why an operation cannot run in a pool.
type PoolError struct {
	Tree, Pool string
	Rule       PoolRule
	// User and Limit are set for PoolsPerUser, Cause for PoolNameForbidden.
	User  string
	Limit int
	Cause error
}

// Error names the tree, the pool and the rule.
func (e *PoolError) Error() string {
	rule := "does not exist"
	switch e.Rule {
	case PoolForbidsOperations:
		rule = "accepts operations only in its subpools (forbid_immediate_operations)"
	case PoolNameForbidden:
		rule = e.Cause.Error()
	case PoolsPerUser:
		rule = fmt.Sprintf("does not exist, and user %s already has %d, the most ephemeral pools of one user (max_ephemeral_pool_per_user)", e.User, e.Limit)
	}
	return fmt.Sprintf("pool %s of tree %s %s", e.Pool, e.Tree, rule)
}

// Unwrap returns the error in the name.
func (e *PoolError) Unwrap() error { return e.Cause }

// TwoTreesError reports that a node belongs to more than one tree.
type TwoTreesError struct {
	Node  string
	Trees []string
}

// Error names the node and the trees.
func (e *TwoTreesError) Error() string {
	return fmt.Sprintf("node %s matches the filters of several pool trees: %v", e.Node, e.Trees)
}

// setVolume sets the volume of an integral pool, in seconds of the whole
// tree.
func (c *Core) setVolume(id TreeID, name string, seconds float64) error {
	t := c.trees[id]
	p := t.pools[name]
	if p == nil {
		return &PoolError{Tree: t.name, Pool: name, Rule: PoolMissing}
	}
	t.state.SetState(p.slot, fairshare.State{Volume: resource.VolumeOf(t.state.Total(), seconds, 1)})
	return nil
}
