package pathtree

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/checksum"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// PlainNode is a node that means nothing to the scheduler: a directory, a document, a link, a small
// file. It is a row of the registry, or one of the directories that always exist.
type PlainNode struct {
	Bare
	Path string
	Row  store.PathNode
	info plainInfo
	// builtin nodes have no row until a user sets attributes on them.
	builtin bool
}

// plainInfo is the stored data of a plain node beside its value.
type plainInfo struct {
	ID guid.ID `json:"id"`
	// Custom has users' attributes by name, each as binary YSON.
	Custom map[string][]byte `json:"custom,omitempty"`
}

// rootObject is the root of all paths.
func rootObject(c *Request) Object {
	root, _ := c.plain("/")
	return root
}

// alwaysThere reports whether a directory exists without a row: one listed here, or one above a
// mount.
func (t *Tree) alwaysThere(path string) bool {
	switch path {
	case "/", "//sys", "//tmp", "//home", "//sys/images", "//sys/scheduler", "//sys/controller_agents":
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
func (c *Request) plain(path string) (Object, error) {
	row, there := c.Server.Registry().PathNode(path)
	builtin := c.Tree.alwaysThere(path)
	if !there && !builtin {
		return nil, nil
	}
	n := &PlainNode{Path: path, Row: row, builtin: builtin}
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

// Kind is the type that the node was created with.
func (n *PlainNode) Kind() string {
	if n.Row.Type == "" {
		return "map_node"
	}
	return n.Row.Type
}

// Shape follows from the type.
func (n *PlainNode) Shape() Shape {
	switch n.Kind() {
	case "map_node":
		return MapShape
	case "link":
		return LinkShape
	case "file":
		return OpaqueShape
	}
	return DocumentShape
}

// Meta is the stored metadata of the node.
func (n *PlainNode) Meta(*Request) Meta {
	return Meta{ID: n.info.ID, Created: n.Row.Created, Modified: n.Row.Modified}
}

// Child is a mount or a plain node.
func (n *PlainNode) Child(c *Request, key string) (Object, error) {
	if n.Shape() != MapShape {
		return nil, nil
	}
	path := JoinPath(n.Path, key)
	if mount, there := c.Tree.mounts[path]; there {
		return mount(c), nil
	}
	return c.plain(path)
}

// Keys lists stored children, mounts and the directories above mounts.
func (n *PlainNode) Keys(c *Request) ([]string, error) {
	if n.Shape() != MapShape {
		return nil, nil
	}
	var keys []string
	for _, row := range c.Server.Registry().Below(n.Path) {
		if key, direct := keyBelow(n.Path, row.Path); direct {
			keys = append(keys, key)
		}
	}
	for _, path := range append([]string{"//sys", "//tmp", "//home", "//sys/images", "//sys/scheduler", "//sys/controller_agents"}, c.Tree.mountPaths()...) {
		if rest, below := strings.CutPrefix(path, n.Path+"/"); below {
			key, _, _ := strings.Cut(rest, "/")
			keys = append(keys, key)
		}
	}
	return SortedUnique(keys), nil
}

func (t *Tree) mountPaths() []string {
	var paths []string
	for path := range t.mounts {
		paths = append(paths, path)
	}
	return paths
}

// keyBelow returns the key of a node below another, and whether the node is a direct child.
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

// Value is the stored value; files are not read this way.
func (n *PlainNode) Value(*Request) (yson.Node, error) {
	if n.Shape() == OpaqueShape {
		return yson.Entity(), nil
	}
	return wire.Unstored(n.Row.Document)
}

// Attribute returns the attributes that users set, and those of some types and paths.
func (n *PlainNode) Attribute(c *Request, _ *Place, name string) (yson.Node, bool, error) {
	if n.Kind() == "file" && name == "content_hash" { // nobody can set it
		return yson.String(cmp.Or(n.Row.Content, checksum.Of(n.Row.Document).String())), true, nil
	}
	if data, there := n.info.Custom[name]; there {
		value, err := wire.Unstored(data)
		if n.Path == "//sys" && name == "config" {
			value = wire.Merge(sysConfig, value)
		}
		return value, true, err
	}
	switch {
	case n.Path == "//sys":
		return sysAttribute(c, name)
	case n.Path == "//sys/scheduler" && name == "alerts":
		return alertsNode(c), true, nil
	case n.Kind() == "link" && name == "target_path":
		value, err := n.Value(c)
		return value, true, err
	case n.Kind() == "link" && name == "broken":
		_, err := c.follow(&Place{Object: n, Key: n.Path})
		return yson.Boolean(err != nil), true, nil
	case n.Kind() == "file" && (name == "uncompressed_data_size" || name == "compressed_data_size"):
		return yson.Int64(n.Size()), true, nil
	}
	return yson.Entity(), false, nil
}

// Size is the size of a file.
func (n *PlainNode) Size() int64 {
	if n.Row.Content != "" {
		return n.Row.ContentSize
	}
	return int64(len(n.Row.Document))
}

// AttributeNames lists the attributes that users set, and those of some types and paths.
func (n *PlainNode) AttributeNames(*Request) (builtin, custom []string) {
	for name := range n.info.Custom {
		custom = append(custom, name)
	}
	slices.Sort(custom)
	switch n.Kind() {
	case "link":
		builtin = []string{"target_path", "broken"}
	case "file":
		builtin = []string{"compressed_data_size", "content_hash", "uncompressed_data_size"}
	}
	switch n.Path {
	case "//sys":
		builtin = append(builtin, sysAttributes...)
	case "//sys/scheduler":
		builtin = append(builtin, "alerts")
	}
	return builtin, custom
}

// findID finds the object with an id.
func (c *Request) findID(root *Place, id guid.ID) (*Place, error) {
	var path string
	switch id.Kind() {
	case guid.Pool, guid.PoolTree:
		path = poolPath(c.Server.Trees(), id)
	default:
		for _, row := range c.Server.Registry().Below("/") {
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
		if at, err = at.Below(c, step.Name); at == nil || err != nil {
			return nil, err
		}
	}
	return at, nil
}

// poolPath is the path of the pool or tree with an id.
func poolPath(trees *server.Trees, id guid.ID) string {
	for i := range trees.List {
		tree := &trees.List[i]
		path := JoinPath("//sys/pool_trees", tree.Name)
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
