package pathtree

import (
	"math"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/yson"
)

// sysAttributes are the attributes of //sys.
var sysAttributes = []string{"cell_id", "cell_tag", "cluster_name", "config", "leader", "master_version"}

// sysConfig is what clients expect in //sys/@config. Values that users write there override it. Only
// subtreeSizeOption has an effect here.
var sysConfig = yson.Map(yson.Pair("node_tracker", yson.Map(yson.Pair("forbid_maintenance_attribute_writes", yson.Boolean(false)))))

// subtreeSizeOption is the path in //sys/@config of the limit on the pools of a subtree.
var subtreeSizeOption = []string{"scheduler_pool_manager", "max_scheduler_pool_subtree_size"}

// maxSubtreeSize is the most pools that the subtree of a pool may have when pools are added.
func (c *Request) maxSubtreeSize() (int, error) {
	most := pooltree.DefaultLimits().MaxSubtreeSize
	sys, err := c.plain("//sys")
	if err != nil || sys == nil {
		return most, err
	}
	n, there, err := sys.Attribute(c, nil, "config")
	for _, key := range subtreeSizeOption {
		if err != nil || !there {
			return most, err
		}
		n, there = n.Get(key)
	}
	if v, ok := n.Int64(); there && ok && v >= 1 {
		most = int(min(v, math.MaxInt32))
	}
	return most, nil
}

// cellID is the same in all clusters, as is the cell in identifiers.
const cellID = "ffcef5f3-ac2c7ff2-3ff0259-ffffffff"

func sysAttribute(c *Request, name string) (yson.Node, bool, error) {
	switch name {
	case "cell_id":
		return yson.String(cellID), true, nil
	case "cell_tag":
		return yson.Uint64(0x3ff), true, nil
	case "cluster_name":
		return yson.String("weir"), true, nil
	case "master_version":
		return yson.String(c.Tree.Options.Version), true, nil
	case "config":
		return sysConfig, true, nil
	case "leader":
		return yson.String(c.Server.Leader().Address), true, nil
	}
	return yson.Entity(), false, nil
}
