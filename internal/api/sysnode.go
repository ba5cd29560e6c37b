package api

import "github.com/weirhq/weir/internal/yson"

// sysAttributes are the attributes of //sys.
var sysAttributes = []string{"cell_id", "cell_tag", "cluster_name", "leader", "master_version"}

// cellID is the same in all clusters, as the cell of identifiers is.
const cellID = "ffcef5f3-ac2c7ff2-3ff0259-ffffffff"

func sysAttribute(c *call, name string) (yson.Node, bool, error) {
	switch name {
	case "cell_id":
		return yson.String(cellID), true, nil
	case "cell_tag":
		return yson.Uint64(0x3ff), true, nil
	case "cluster_name":
		return yson.String("weir"), true, nil
	case "master_version":
		return yson.String(c.api.options.Version), true, nil
	case "leader":
		return yson.String(c.server.Leader().Address), true, nil
	}
	return yson.Entity(), false, nil
}
