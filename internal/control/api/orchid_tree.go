package api

import (
	"runtime"
	"slices"
	"sync"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

// treesOrchid has a directory for each pool tree.
func treesOrchid(make func(t *orchidTree) object) func(c *call) (object, error) {
	return func(c *call) (object, error) {
		state, err := c.orchid()
		if err != nil {
			return nil, err
		}
		return lazyMap{
			list: func() (keys []string, _ error) {
				for _, t := range state.trees {
					keys = append(keys, t.info.Name)
				}
				return keys, nil
			},
			get: func(key string) (object, error) {
				if t, there := state.tree(key); there {
					return make(t), nil
				}
				return nil, nil
			},
		}, nil
	}
}

// treeOrchid is a tree in the newer view.
func treeOrchid(t *orchidTree) object {
	return folder{list: append([]folderChild{
		childAt("pools", t.poolsTable), childAt("operations", t.operationsTable),
		childAt("operations_by_pool", t.operationsByPool), childAt("child_pools_by_pool", t.childPools),
		childValue("pool_count", t.poolCount), childValue("resource_distribution_info", t.distribution),
	}, t.facts()...)}
}

// oldTreeOrchid is a tree in the older view.
func oldTreeOrchid(t *orchidTree) object {
	return folder{list: append([]folderChild{
		childAt("fair_share_info", func(*call) object {
			return folder{list: []folderChild{
				childAt("pools", t.poolsTable), childAt("operations", t.operationsTable),
				childAt("operations_by_pool", t.operationsByPool), childAt("child_pools_by_pool", t.childPools),
				childValue("pool_count", t.poolCount), childValue("resource_distribution_info", t.distribution),
			}}
		}),
	}, t.facts()...)}
}

// facts are what both views tell of a tree.
func (t *orchidTree) facts() []folderChild {
	return []folderChild{
		childValue("config", func(*call) (yson.Node, error) { return treeConfigNode(t.settings()), nil }),
		childValue("resource_limits", func(*call) (yson.Node, error) { return amountsNode(t.info.Limits), nil }),
		childValue("resource_usage", func(*call) (yson.Node, error) { return amountsNode(t.info.Usage), nil }),
		childValue("node_count", func(*call) (yson.Node, error) { return yson.Int64(int64(len(t.info.Nodes))), nil }),
		childValue("node_addresses", func(*call) (yson.Node, error) { return texts(t.nodeNames()), nil }),
		childValue("user_to_ephemeral_pools", func(*call) (yson.Node, error) { return t.ephemeralPools(), nil }),
		childValue("update_time", func(*call) (yson.Node, error) { return instant(t.info.Updated), nil }),
		childValue("alerts", func(*call) (yson.Node, error) { return t.alerts(), nil }),
	}
}

func (t *orchidTree) nodeNames() []string {
	var names []string
	for i := range t.state.snapshot.Nodes {
		if n := &t.state.snapshot.Nodes[i]; n.Tree == t.info.ID {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names
}

// ephemeralPools lists pools that exist because of operations, by who made them.
func (t *orchidTree) ephemeralPools() yson.Node {
	byUser := map[string][]string{}
	for i := range t.info.Pools {
		if p := &t.info.Pools[i]; p.Ephemeral {
			byUser[p.User] = append(byUser[p.User], p.Name)
		}
	}
	var entries []yson.Entry
	for _, user := range sortedKeys(byUser) {
		entries = append(entries, yson.Pair(user, texts(byUser[user])))
	}
	return yson.Map(entries...)
}

func (t *orchidTree) alerts() yson.Node {
	items := make([]yson.Node, len(t.info.Alerts))
	for i, alert := range t.info.Alerts {
		items[i] = yson.String(alert.Message)
	}
	return yson.List(items...)
}

func (t *orchidTree) poolCount(*call) (yson.Node, error) {
	return yson.Int64(int64(len(t.info.Pools) - 1)), nil // without the root
}

// treeConfigNode writes the options of a tree that hold, defaults included. Those
// with several names are there under all of them.
func treeConfigNode(settings *pooltree.TreeConfig) yson.Node {
	n := fromDocument(pooltree.TreeOptions.Write(settings, document.ForPrograms))
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

// requestedFields reads which fields of elements a request wants; nil means all.
func (c *call) requestedFields() ([]string, error) { return c.parameters.textList("fields") }

// poolsTable has all pools of a tree, the root included.
func (t *orchidTree) poolsTable(c *call) object {
	return table{
		whole: func() (yson.Node, error) {
			names, err := c.requestedFields()
			if err != nil {
				return yson.Node{}, err
			}
			return t.allPools(poolFields.choose(names)), nil
		},
		text: t.writtenPools,
		list: func() (keys []string, _ error) {
			for at := range t.info.Pools {
				keys = append(keys, t.info.Pools[at].Name)
			}
			return keys, nil
		},
		get: func(key string) (object, error) {
			at, there := t.pools[key]
			if !there {
				return nil, nil
			}
			return c.elementNode(&poolFields, t.pool(at)), nil
		},
	}.as(c, "pools")
}

// allPools makes all pools with the fields of a filter, on several processors if
// there are many.
func (t *orchidTree) allPools(filter []int) yson.Node {
	entries := make([]yson.Entry, len(t.info.Pools))
	workers := min(runtime.GOMAXPROCS(0), len(entries)/poolsAtOnce+1)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			v := new(vectors)
			for at := len(entries) * w / workers; at < len(entries)*(w+1)/workers; at++ {
				e := t.pool(int32(at))
				entries[at] = yson.Entry{Key: e.pool.Name, Value: poolFields.all(v, e, filter)}
			}
		})
	}
	group.Wait()
	return yson.Map(entries...)
}

// elementNode is one pool or operation.
func (c *call) elementNode(table *fields, e *element) object {
	return computed{get: func() (yson.Node, error) {
		names, err := c.requestedFields()
		if err != nil {
			return yson.Node{}, err
		}
		return table.all(new(vectors), e, table.choose(names)), nil
	}}
}

// operationName is the id of an operation; the record may have gone a moment ago.
func (e *element) operationName() (string, bool) {
	if e.record == nil {
		return "", false
	}
	return e.record.ID.String(), true
}

// operationsOf is a table of operations of a tree.
func (t *orchidTree) operationsOf(c *call, key string, places []int) object {
	return table{
		whole: func() (yson.Node, error) {
			names, err := c.requestedFields()
			if err != nil {
				return yson.Node{}, err
			}
			filter, v := operationFields.choose(names), new(vectors)
			entries := make([]yson.Entry, 0, len(places))
			for _, at := range places {
				e := t.operation(c.server, at)
				if name, there := e.operationName(); there {
					entries = append(entries, yson.Entry{Key: name, Value: operationFields.all(v, e, filter)})
				}
			}
			return yson.Map(entries...), nil
		},
		list: func() (keys []string, _ error) {
			for _, at := range places {
				if name, there := t.operation(c.server, at).operationName(); there {
					keys = append(keys, name)
				}
			}
			return keys, nil
		},
		get: func(key string) (object, error) {
			v, there := c.liveByName(key)
			if !there {
				return nil, nil
			}
			at, there := t.byOperation[v.Number]
			if !there || !slices.Contains(places, at) {
				return nil, nil
			}
			return c.elementNode(&operationFields, t.operation(c.server, at)), nil
		},
	}.as(c, key)
}

// liveByName finds an operation that has not ended by its id.
func (c *call) liveByName(name string) (*server.Operation, bool) {
	key, err := keyOf(name)
	if err != nil {
		return nil, false
	}
	return c.server.Operation(key)
}

func (t *orchidTree) operationsTable(c *call) object {
	places := make([]int, len(t.places))
	for i := range places {
		places[i] = i
	}
	return t.operationsOf(c, "operations", places)
}

// byPools is a directory with something for each pool.
func (t *orchidTree) byPools(of func(at int32) object) object {
	return lazyMap{
		list: func() (keys []string, _ error) {
			for at := range t.info.Pools {
				keys = append(keys, t.info.Pools[at].Name)
			}
			return keys, nil
		},
		get: func(key string) (object, error) {
			at, there := t.pools[key]
			if !there {
				return nil, nil
			}
			return of(at), nil
		},
	}
}

func (t *orchidTree) operationsByPool(c *call) object {
	return t.byPools(func(at int32) object { return t.operationsOf(c, t.info.Pools[at].Name, t.byPool[at]) })
}

// childPools has the pools directly in each pool.
func (t *orchidTree) childPools(c *call) object {
	return t.byPools(func(at int32) object {
		children := t.children[at]
		return lazyMap{
			list: func() (keys []string, _ error) {
				for _, child := range children {
					keys = append(keys, t.info.Pools[child].Name)
				}
				return keys, nil
			},
			get: func(key string) (object, error) {
				child, there := t.pools[key]
				if !there || t.info.Pools[child].Parent != at {
					return nil, nil
				}
				return c.elementNode(&poolFields, t.pool(child)), nil
			},
		}
	})
}

// distribution is what of the tree is promised, and what is not.
func (t *orchidTree) distribution(*call) (yson.Node, error) {
	var strong resource.Amounts
	for _, at := range t.children[0] {
		if config := t.info.Pools[at].Config; config != nil {
			strong = strong.Add(config.StrongGuarantee.Value().OrZero())
		}
	}
	total, root := t.info.Limits, &t.info.Pools[0].Details.Pool
	times := func(ratio float64) resource.Amounts { return resource.Uniform(ratio).Of(total) }
	distributed := strong.Add(times(max(root.TotalBurstRatio, root.TotalFlowRatio)))
	return yson.Map(
		yson.Pair("distributed_strong_guarantee_resources", amountsNode(strong)),
		yson.Pair("distributed_resource_flow", amountsNode(times(root.TotalFlowRatio))),
		yson.Pair("distributed_burst_guarantee_resources", amountsNode(times(root.TotalBurstRatio))),
		yson.Pair("distributed_resources", amountsNode(distributed)),
		yson.Pair("undistributed_resources", amountsNode(total.Sub(distributed))),
		yson.Pair("undistributed_resource_flow", amountsNode(times(max(root.TotalBurstRatio-root.TotalFlowRatio, 0)))),
		yson.Pair("undistributed_burst_guarantee_resources", amountsNode(times(max(root.TotalFlowRatio-root.TotalBurstRatio, 0)))),
	), nil
}

// summary is what a tree has and what became of it.
func (t *orchidTree) summary() yson.Node {
	root := &t.info.Pools[0]
	var guaranteed resource.Amounts
	for _, at := range t.children[0] {
		guaranteed = guaranteed.Add(t.info.Pools[at].Details.Pool.StrongGuarantee.Of(t.info.Limits))
	}
	flow, burst := root.Details.Pool.TotalFlowRatio, root.Details.Pool.TotalBurstRatio
	return yson.Map(
		yson.Pair("capacity", amountsNode(t.info.Limits)),
		yson.Pair("used", amountsNode(t.info.Usage)),
		yson.Pair("free", amountsNode(t.info.Limits.Sub(t.info.Usage).Max(resource.Amounts{}))),
		yson.Pair("demanded", amountsNode(root.Demand)),
		yson.Pair("guaranteed", amountsNode(guaranteed)),
		yson.Pair("resource_flow", amountsNode(resource.Uniform(flow).Of(t.info.Limits))),
		yson.Pair("burst_guarantee", amountsNode(resource.Uniform(burst).Of(t.info.Limits))),
		yson.Pair("usage_ratio", number(t.info.Usage.Share(t.info.Limits).Largest())),
		yson.Pair("node_count", yson.Int64(int64(len(t.info.Nodes)))),
		yson.Pair("pool_count", yson.Int64(int64(len(t.info.Pools)-1))),
		yson.Pair("operation_count", yson.Int64(int64(root.Operations))),
		yson.Pair("running_operation_count", yson.Int64(int64(root.RunningOperations))),
		yson.Pair("running_job_count", yson.Int64(int64(root.RunningJobs))),
		yson.Pair("update_time", instant(t.info.Updated)),
		yson.Pair("alerts", t.alerts()))
}
