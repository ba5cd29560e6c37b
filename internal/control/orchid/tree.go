package orchid

import (
	"runtime"
	"slices"
	"sync"

	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

// treesOrchid has a directory for each pool tree.
func treesOrchid(make func(t *Tree) pathtree.Object) func(c *pathtree.Request) (pathtree.Object, error) {
	return func(c *pathtree.Request) (pathtree.Object, error) {
		state, err := Current(c)
		if err != nil {
			return nil, err
		}
		return pathtree.LazyMap{
			List: func() (keys []string, _ error) {
				for _, t := range state.Trees {
					keys = append(keys, t.Info.Name)
				}
				return keys, nil
			},
			Get: func(key string) (pathtree.Object, error) {
				if t, there := state.Tree(key); there {
					return make(t), nil
				}
				return nil, nil
			},
		}, nil
	}
}

// treeOrchid is a tree in the newer view.
func treeOrchid(t *Tree) pathtree.Object {
	return folder{list: append([]folderChild{
		childAt("pools", t.poolsTable), childAt("operations", t.operationsTable),
		childAt("operations_by_pool", t.operationsByPool), childAt("child_pools_by_pool", t.childPools),
		childValue("pool_count", t.poolCount), childValue("resource_distribution_info", t.distribution),
	}, t.facts()...)}
}

// oldTreeOrchid is a tree in the older view.
func oldTreeOrchid(t *Tree) pathtree.Object {
	return folder{list: append([]folderChild{
		childAt("fair_share_info", func(*pathtree.Request) pathtree.Object {
			return folder{list: []folderChild{
				childAt("pools", t.poolsTable), childAt("operations", t.operationsTable),
				childAt("operations_by_pool", t.operationsByPool), childAt("child_pools_by_pool", t.childPools),
				childValue("pool_count", t.poolCount), childValue("resource_distribution_info", t.distribution),
			}}
		}),
	}, t.facts()...)}
}

// facts are the parts of a tree that both views show.
func (t *Tree) facts() []folderChild {
	return []folderChild{
		childValue("config", func(*pathtree.Request) (yson.Node, error) { return treeConfigNode(t.settings()), nil }),
		childValue("resource_limits", func(*pathtree.Request) (yson.Node, error) { return wire.AmountsNode(t.Info.Total), nil }),
		childValue("resource_usage", func(*pathtree.Request) (yson.Node, error) { return wire.AmountsNode(t.Info.Root().Usage), nil }),
		childValue("node_count", func(*pathtree.Request) (yson.Node, error) { return yson.Int64(int64(t.Info.NodeCount)), nil }),
		childValue("node_addresses", func(*pathtree.Request) (yson.Node, error) { return wire.Texts(t.nodeNames()), nil }),
		childValue("user_to_ephemeral_pools", func(*pathtree.Request) (yson.Node, error) { return t.ephemeralPools(), nil }),
		childValue("update_time", func(*pathtree.Request) (yson.Node, error) { return wire.Instant(t.Info.Updated), nil }),
		childValue("alerts", func(*pathtree.Request) (yson.Node, error) { return t.alerts(), nil }),
	}
}

func (t *Tree) nodeNames() []string {
	var names []string
	for n := range t.State.View.Picture.Nodes() {
		if n.Tree == t.Info.ID {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names
}

// ephemeralPools lists the pools that exist because operations named them, by the user who made them.
// Subpools of pools with create_ephemeral_subpools are not among them.
func (t *Tree) ephemeralPools() yson.Node {
	byUser := map[string][]string{}
	for p := range t.Info.Pools() {
		if p.Named {
			byUser[p.User] = append(byUser[p.User], p.Name)
		}
	}
	var entries []yson.Entry
	for _, user := range SortedKeys(byUser) {
		entries = append(entries, yson.Pair(user, wire.Texts(byUser[user])))
	}
	return yson.Map(entries...)
}

func (t *Tree) alerts() yson.Node {
	items := make([]yson.Node, len(t.Info.Alerts))
	for i, alert := range t.Info.Alerts {
		items[i] = yson.String(alert.Message)
	}
	return yson.List(items...)
}

func (t *Tree) poolCount(*pathtree.Request) (yson.Node, error) {
	return yson.Int64(int64(t.Info.PoolCount() - 1)), nil // without the root
}

// treeConfigNode writes a tree's options in effect, defaults included. Options with several names
// appear under all of them.
func treeConfigNode(settings *pooltree.TreeConfig) yson.Node {
	n := wire.FromDocument(pooltree.TreeOptions.Write(settings, document.ForPrograms))
	for _, option := range pooltree.TreeOptions.Options() {
		value, there := n.Get(option.Name)
		if !there {
			continue
		}
		for _, alias := range option.Aliases {
			if _, taken := n.Get(alias); !taken {
				n = n.With(alias, value)
			}
		}
	}
	return n
}

// requestedFields reads which fields of elements a request asks for; nil means all.
func requestedFields(c *pathtree.Request) ([]string, error) { return c.Parameters.TextList("fields") }

// poolsTable has all pools of a tree, the root included.
func (t *Tree) poolsTable(c *pathtree.Request) pathtree.Object {
	return table{
		whole: func() (yson.Node, error) {
			names, err := requestedFields(c)
			if err != nil {
				return yson.Node{}, err
			}
			return t.allPools(poolFields.choose(names)), nil
		},
		text: t.writtenPools,
		list: func() (keys []string, _ error) {
			for p := range t.Info.Pools() {
				keys = append(keys, p.Name)
			}
			return keys, nil
		},
		get: func(key string) (pathtree.Object, error) {
			p, there := t.Info.Pool(key)
			if !there {
				return nil, nil
			}
			return elementNode(c, &poolFields, t.pool(p)), nil
		},
	}.as(c, "pools")
}

// allPools builds all pools with the fields of a filter, on several processors if there are many.
func (t *Tree) allPools(filter []int) yson.Node {
	entries := make([]yson.Entry, t.Info.PoolCount())
	workers := min(runtime.GOMAXPROCS(0), len(entries)/wire.EntriesAtOnce+1)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			v := new(wire.Vectors)
			for at := len(entries) * w / workers; at < len(entries)*(w+1)/workers; at++ {
				e := t.pool(t.Info.PoolAt(at))
				entries[at] = yson.Entry{Key: e.pool.Name, Value: poolFields.all(v, e, filter)}
			}
		})
	}
	group.Wait()
	return yson.Map(entries...)
}

// elementNode is one pool or operation.
func elementNode(c *pathtree.Request, table *fields, e *element) pathtree.Object {
	return pathtree.Computed{Get: func() (yson.Node, error) {
		names, err := requestedFields(c)
		if err != nil {
			return yson.Node{}, err
		}
		return table.all(new(wire.Vectors), e, table.choose(names)), nil
	}}
}

// operationName is the id of an operation; the record may have been removed meanwhile.
func (e *element) operationName() (string, bool) {
	if e.record == nil {
		return "", false
	}
	return e.record.ID.String(), true
}

// operationsOf is a table of a tree's operations: all, or those directly in a pool.
func (t *Tree) operationsOf(c *pathtree.Request, key string, in *core.Pool) pathtree.Object {
	seats := func() []*core.Seat {
		if in == nil {
			return t.seats()
		}
		return t.membersOf(in)
	}
	return table{
		whole: func() (yson.Node, error) {
			names, err := requestedFields(c)
			if err != nil {
				return yson.Node{}, err
			}
			filter, v := operationFields.choose(names), new(wire.Vectors)
			list := seats()
			entries := make([]yson.Entry, 0, len(list))
			for _, seat := range list {
				e := t.operation(c.Server, seat)
				if name, there := e.operationName(); there {
					entries = append(entries, yson.Entry{Key: name, Value: operationFields.all(v, e, filter)})
				}
			}
			return yson.Map(entries...), nil
		},
		list: func() (keys []string, _ error) {
			for _, seat := range seats() {
				if name, there := t.operation(c.Server, seat).operationName(); there {
					keys = append(keys, name)
				}
			}
			return keys, nil
		},
		get: func(key string) (pathtree.Object, error) {
			v, there := liveByName(c, key)
			if !there {
				return nil, nil
			}
			seat := t.seatOf(v.Number)
			if seat == nil || in != nil && seat.Parent != in.Slot {
				return nil, nil
			}
			return elementNode(c, &operationFields, t.operation(c.Server, seat)), nil
		},
	}.as(c, key)
}

// liveByName finds a live operation by its id.
func liveByName(c *pathtree.Request, name string) (*server.Operation, bool) {
	key, err := keyOf(name)
	if err != nil {
		return nil, false
	}
	return c.Server.Operation(key)
}

func (t *Tree) operationsTable(c *pathtree.Request) pathtree.Object {
	return t.operationsOf(c, "operations", nil)
}

// byPools is a directory with an entry for each pool.
func (t *Tree) byPools(of func(p *core.Pool) pathtree.Object) pathtree.Object {
	return pathtree.LazyMap{
		List: func() (keys []string, _ error) {
			for p := range t.Info.Pools() {
				keys = append(keys, p.Name)
			}
			return keys, nil
		},
		Get: func(key string) (pathtree.Object, error) {
			p, there := t.Info.Pool(key)
			if !there {
				return nil, nil
			}
			return of(p), nil
		},
	}
}

func (t *Tree) operationsByPool(c *pathtree.Request) pathtree.Object {
	return t.byPools(func(p *core.Pool) pathtree.Object { return t.operationsOf(c, p.Name, p) })
}

// childPools has the pools directly in each pool.
func (t *Tree) childPools(c *pathtree.Request) pathtree.Object {
	return t.byPools(func(p *core.Pool) pathtree.Object {
		return pathtree.LazyMap{
			Opaque: true,
			List: func() (keys []string, _ error) {
				for _, child := range t.childrenOf(p) {
					keys = append(keys, child.Name)
				}
				slices.Sort(keys)
				return keys, nil
			},
			Get: func(key string) (pathtree.Object, error) {
				child, there := t.Info.Pool(key)
				if !there || child.Parent != p.Slot {
					return nil, nil
				}
				return elementNode(c, &poolFields, t.pool(child)), nil
			},
		}
	})
}

// distribution is the promised part of the tree, and the rest.
func (t *Tree) distribution(*pathtree.Request) (yson.Node, error) {
	var strong resource.Amounts
	total, root := t.Info.Total, t.Info.Root()
	for _, p := range t.childrenOf(root) {
		if configured, there := t.Info.Configured(p); there {
			own := configured.Config()
			strong = strong.Add(own.StrongGuarantee.Value().OrZero())
		}
	}
	times := func(ratio float64) resource.Amounts { return resource.Uniform(ratio).Of(total) }
	distributed := strong.Add(times(max(root.TotalBurstRatio, root.TotalFlowRatio)))
	return yson.Map(
		yson.Pair("distributed_strong_guarantee_resources", wire.AmountsNode(strong)),
		yson.Pair("distributed_resource_flow", wire.AmountsNode(times(root.TotalFlowRatio))),
		yson.Pair("distributed_burst_guarantee_resources", wire.AmountsNode(times(root.TotalBurstRatio))),
		yson.Pair("distributed_resources", wire.AmountsNode(distributed)),
		yson.Pair("undistributed_resources", wire.AmountsNode(total.Sub(distributed))),
		yson.Pair("undistributed_resource_flow", wire.AmountsNode(times(max(root.TotalBurstRatio-root.TotalFlowRatio, 0)))),
		yson.Pair("undistributed_burst_guarantee_resources", wire.AmountsNode(times(max(root.TotalFlowRatio-root.TotalBurstRatio, 0)))),
	), nil
}

// Summary is a tree's resources and their use.
func (t *Tree) Summary() yson.Node {
	root := t.Info.Root()
	var guaranteed resource.Amounts
	for _, p := range t.childrenOf(root) {
		guaranteed = guaranteed.Add(p.StrongGuarantee.Of(t.Info.Total))
	}
	flow, burst := root.TotalFlowRatio, root.TotalBurstRatio
	return yson.Map(
		yson.Pair("capacity", wire.AmountsNode(t.Info.Total)),
		yson.Pair("used", wire.AmountsNode(t.Info.Root().Usage)),
		yson.Pair("free", wire.AmountsNode(t.Info.Total.Sub(t.Info.Root().Usage).Max(resource.Amounts{}))),
		yson.Pair("demanded", wire.AmountsNode(root.Demand)),
		yson.Pair("guaranteed", wire.AmountsNode(guaranteed)),
		yson.Pair("resource_flow", wire.AmountsNode(resource.Uniform(flow).Of(t.Info.Total))),
		yson.Pair("burst_guarantee", wire.AmountsNode(resource.Uniform(burst).Of(t.Info.Total))),
		yson.Pair("usage_ratio", Number(t.Info.Root().Usage.Share(t.Info.Total).Largest())),
		yson.Pair("node_count", yson.Int64(int64(t.Info.NodeCount))),
		yson.Pair("pool_count", yson.Int64(int64(t.Info.PoolCount()-1))),
		yson.Pair("operation_count", yson.Int64(int64(root.Operations))),
		yson.Pair("running_operation_count", yson.Int64(int64(root.RunningOperations))),
		yson.Pair("running_job_count", yson.Int64(int64(root.RunningJobs))),
		yson.Pair("update_time", wire.Instant(t.Info.Updated)),
		yson.Pair("alerts", t.alerts()))
}
