package api

import (
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

// transferPoolResources moves guarantees and operation counts from one pool to another.
func transferPoolResources(c *call) (yson.Node, error) {
	var transfer pooltree.Transfer
	treeName, err := c.Parameters.Text("pool_tree", c.Server.Trees().Default)
	if err != nil {
		return yson.Node{}, err
	}
	for name, field := range map[string]*string{"source_pool": &transfer.From, "destination_pool": &transfer.To} {
		text, wrong := c.Parameters.NeedText(name)
		if wrong != nil {
			return yson.Node{}, wrong
		}
		*field = text
	}
	delta, err := c.Parameters.Document("resource_delta")
	if err != nil {
		return yson.Node{}, err
	}
	if err := readTransfer(delta, &transfer); err != nil {
		return yson.Node{}, err
	}
	object := pathtree.JoinPath(pathtree.PoolTreesPath, treeName)
	return nothing(c.EditTree(object, treeName, func(tree *server.TreeConfig) ([]pooltree.Edit, error) {
		from, err := pathtree.FindPool(tree, transfer.From)
		if err != nil {
			return nil, err
		}
		to, err := pathtree.FindPool(tree, transfer.To)
		if err != nil {
			return nil, err
		}
		needs := auth.TransferPoolResources(c.ChainOfPool(tree, from.Name()), c.ChainOfPool(tree, to.Name()))
		if err := c.Require(needs); err != nil {
			return nil, err
		}
		return []pooltree.Edit{transfer}, nil
	}))
}

// readTransfer reads amounts by the rules of pools.
func readTransfer(delta document.Value, t *pooltree.Transfer) error {
	var config pooltree.PoolConfig
	r := document.NewReader("")
	flat := document.Map()
	integral := document.Map()
	for _, e := range delta.Entries() {
		switch name := document.Normal(e.Key); name {
		case "burst_guarantee_resources", "resource_flow":
			integral = integral.With(name, e.Value)
		case "strong_guarantee_resources", "min_share_resources", "max_operation_count", "max_running_operation_count":
			flat = flat.With(e.Key, e.Value)
		default:
			return wire.Errorf(wire.CodeGeneric, "Error parsing parameter /resource_delta: %q cannot be transferred", document.Shorten(e.Key))
		}
	}
	if len(integral.Entries()) > 0 {
		flat = flat.With("integral_guarantees", integral)
	}
	r.Enter("resource_delta")
	pooltree.PoolOptions.Read(r, flat, &config)
	t.StrongGuarantee, t.Burst = config.StrongGuarantee.Or(resource.Partial{}), config.Integral.Burst.Or(resource.Partial{})
	t.ResourceFlow = config.Integral.ResourceFlow.Or(resource.Partial{})
	t.MaxOperationCount, t.MaxRunningOperationCount = config.MaxOperationCount.Value(), config.MaxRunningOperationCount.Value()
	return r.Problems().Err()
}
