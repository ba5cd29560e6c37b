package api

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// plainNode is a node that means nothing to the scheduler: a directory, a
// document, a link, a small file. It is a row of the registry, or one of the
// directories that are always there.
type plainNode struct {
	bare
	path string
	row  store.PathNode
	info plainInfo
	// builtin nodes have no row until somebody gives them attributes.
	builtin bool
}

// plainInfo is what is stored of a plain node beside its value.
type plainInfo struct {
	ID guid.ID `json:"id"`
	// Custom has attributes of users, each as binary YSON, by name.
	Custom map[string][]byte `json:"custom,omitempty"`
}

// rootObject is the root of all paths.
func rootObject(c *call) object {
	root, _ := c.plain("/")
	return root
}

// alwaysThere are directories that exist without a row: the ones here and all on
// the way to a mount.
func (t *Tree) alwaysThere(path string) bool {
	switch path {
	case "/", "//sys", "//tmp", "//home", "//sys/scheduler", "//sys/controller_agents":
		return true
	}
	for mount := range t.mounts {
		if strings.HasPrefix(mount, path+"/") {
			return true
		}
	}
	return false
}

// plain returns the plain node at a path, or nil.
func (c *call) plain(path string) (object, error) {
	row, there := c.server.Registry().PathNode(path)
	builtin := c.tree.alwaysThere(path)
	if !there && !builtin {
		return nil, nil
	}
	n := &plainNode{path: path, row: row, builtin: builtin}
	if there {
		info, err := plainInfoOf(row)
		if err != nil {
			return nil, err
		}
		n.info = info
	}
	return n, nil
}

func plainInfoOf(row store.PathNode) (info plainInfo, err error) {
	if len(row.Attributes) > 0 {
		err = json.Unmarshal(row.Attributes, &info)
	}
	return info, err
}

func (n *plainNode) kind() string {
	if n.row.Type == "" {
		return "map_node"
	}
	return n.row.Type
}

func (n *plainNode) shape() shape {
	switch n.kind() {
	case "map_node":
		return mapShape
	case "link":
		return linkShape
	case "file":
		return opaqueShape
	}
	return documentShape
}

func (n *plainNode) meta(*call) meta {
	return meta{id: n.info.ID, created: n.row.Created, modified: n.row.Modified}
}

func (n *plainNode) child(c *call, key string) (object, error) {
	if n.shape() != mapShape {
		return nil, nil
	}
	path := joinPath(n.path, key)
	if mount, there := c.tree.mounts[path]; there {
		return mount(c), nil
	}
	return c.plain(path)
}

func (n *plainNode) keys(c *call) ([]string, error) {
	if n.shape() != mapShape {
		return nil, nil
	}
	var keys []string
	for _, row := range c.server.Registry().Below(n.path) {
		if key, direct := keyBelow(n.path, row.Path); direct {
			keys = append(keys, key)
		}
	}
	for _, path := range append([]string{"//sys", "//tmp", "//home", "//sys/scheduler", "//sys/controller_agents"}, c.tree.mountPaths()...) {
		if rest, below := strings.CutPrefix(path, n.path+"/"); below {
			key, _, _ := strings.Cut(rest, "/")
			keys = append(keys, key)
		}
	}
	return sortedUnique(keys), nil
}

func (t *Tree) mountPaths() []string {
	var paths []string
	for path := range t.mounts {
		paths = append(paths, path)
	}
	return paths
}

// keyBelow returns the key of a node below another, and whether it is its child.
func keyBelow(parent, path string) (key string, direct bool) {
	rest, below := strings.CutPrefix(path, parent)
	if !below {
		return "", false
	}
	steps, err := ypath.ParseSteps(rest)
	if err != nil || len(steps) != 1 {
		return "", false
	}
	return steps[0].Name, true
}

func (n *plainNode) value(*call) (yson.Node, error) {
	if n.shape() == opaqueShape {
		return yson.Entity(), nil
	}
	return unstored(n.row.Document)
}

func (n *plainNode) attribute(c *call, _ *place, name string) (yson.Node, bool, error) {
	if data, there := n.info.Custom[name]; there {
		value, err := unstored(data)
		if n.path == "//sys" && name == "config" {
			value = merge(sysConfig, value)
		}
		return value, true, err
	}
	switch {
	case n.path == "//sys":
		return sysAttribute(c, name)
	case n.path == "//sys/scheduler" && name == "alerts":
		return alertsNode(c), true, nil
	case n.kind() == "link" && name == "target_path":
		value, err := n.value(c)
		return value, true, err
	case n.kind() == "link" && name == "broken":
		_, err := c.follow(&place{object: n, key: n.path})
		return yson.Boolean(err != nil), true, nil
	case n.kind() == "file" && (name == "uncompressed_data_size" || name == "compressed_data_size"):
		return yson.Int64(int64(len(n.row.Document))), true, nil
	}
	return yson.Entity(), false, nil
}

func (n *plainNode) attributeNames(*call) (builtin, custom []string) {
	for name := range n.info.Custom {
		custom = append(custom, name)
	}
	slices.Sort(custom)
	switch n.kind() {
	case "link":
		builtin = []string{"target_path", "broken"}
	case "file":
		builtin = []string{"compressed_data_size", "uncompressed_data_size"}
	}
	switch n.path {
	case "//sys":
		builtin = append(builtin, sysAttributes...)
	case "//sys/scheduler":
		builtin = append(builtin, "alerts")
	}
	return builtin, custom
}

// findID looks for the object with an id.
func (c *call) findID(root *place, id guid.ID) (*place, error) {
	var path string
	switch id.Kind() {
	case guid.Pool, guid.PoolTree:
		path = poolPath(c.server.Trees(), id)
	default:
		for _, row := range c.server.Registry().Below("/") {
			if info, err := plainInfoOf(row); err == nil && info.ID == id {
				path = row.Path
			}
		}
	}
	if path == "" {
		return nil, nil
	}
	parsed, err := ypath.Parse(path)
	if err != nil {
		return nil, err
	}
	at := root
	for _, step := range parsed.Steps {
		if at, err = at.below(c, step.Name); at == nil || err != nil {
			return nil, err
		}
	}
	return at, nil
}

// poolPath is the path of the pool or tree with an id.
func poolPath(trees *server.Trees, id guid.ID) string {
	for i := range trees.List {
		tree := &trees.List[i]
		path := joinPath("//sys/pool_trees", tree.Name)
		if tree.Object.ID == id {
			return path
		}
		for pool := range tree.Tree.Pools() {
			if tree.Pool(pool.Name()).ID == id {
				return path + pool.Path()
			}
		}
	}
	return ""
}
