package pathtree

import "github.com/weirhq/weir/internal/value/yson"

// sysAttributes are the attributes of //sys.
var sysAttributes = []string{"cell_id", "cell_tag", "cluster_name", "config", "leader", "master_version"}

// sysConfig is what clients expect in //sys/@config. Values that users write there override it and
// have no effect here.
var sysConfig = yson.Map(yson.Pair("node_tracker", yson.Map(yson.Pair("forbid_maintenance_attribute_writes", yson.Boolean(false)))))

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
