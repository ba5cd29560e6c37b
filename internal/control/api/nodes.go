package api

import (
	"net"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

const nodesPath = "//sys/cluster_nodes"

// fixedLink leads to another node, always.
type fixedLink struct {
	bare
	to string
}

func (fixedLink) kind() string                         { return "link" }
func (fixedLink) shape() shape                         { return linkShape }
func (l fixedLink) value(*call) (yson.Node, error)     { return yson.String(l.to), nil }
func (fixedLink) attributeNames(*call) (_, _ []string) { return []string{"target_path"}, nil }

func (l fixedLink) attribute(_ *call, _ *place, name string) (yson.Node, bool, error) {
	return yson.String(l.to), name == "target_path", nil
}

// nodesNode is //sys/cluster_nodes.
type nodesNode struct {
	bare
	orchid func(c *call, node *server.Node) object
}

func (nodesNode) kind() string { return "cluster_node_map" }

func (nodesNode) keys(c *call) ([]string, error) {
	var names []string
	for _, node := range c.server.Nodes() {
		names = append(names, node.Name)
	}
	slices.Sort(names)
	return names, nil
}

func (n nodesNode) child(c *call, key string) (object, error) {
	node, there := c.server.Node(key)
	if !there {
		return nil, nil
	}
	return clusterNode{node: node, orchid: n.orchid}, nil
}

func (nodesNode) attribute(c *call, at *place, name string) (yson.Node, bool, error) {
	switch name {
	case "online", "offline":
		n := 0
		for _, node := range c.server.Nodes() {
			if node.Online == (name == "online") {
				n++
			}
		}
		return yson.Int64(int64(n)), true, nil
	}
	return c.customBeside(at.path(), name)
}

func (nodesNode) attributeNames(c *call) (builtin, custom []string) {
	return []string{"offline", "online"}, c.customNames(nodesPath)
}

func (nodesNode) editAttributes(c *call, at *place, edits []attributeEdit) error {
	for _, e := range edits {
		if isFixed(e.name) || e.name == "online" || e.name == "offline" {
			return cannotSet(e.name)
		}
	}
	if err := c.require(besideNeeds(at.chain(c), edits)); err != nil {
		return err
	}
	return c.editBeside(at.path(), at.path(), edits)
}

// create makes a node known before it is seen, so that it can be banned or tagged.
func (nodesNode) create(c *call, at *place, keys []string, what creation) (guid.ID, error) {
	name := keys[0]
	if len(keys) > 1 || what.kind != "cluster_node" && what.kind != "map_node" {
		return guid.ID{}, errorf(codeGeneric, "Only nodes of the cluster can be created at %s, not %q", nodesPath, cutText(what.kind, 100))
	}
	if !isPlainWord(name) {
		return guid.ID{}, errorf(codeGeneric, "%q is no name of a node", cutText(name, 100))
	}
	if err := c.require(auth.Requires(auth.Write, at.chain(c))); err != nil {
		return guid.ID{}, err
	}
	edits := editsOf(what.attributes)
	err := c.server.EditNode(c.ctx, c.caller(joinPath(nodesPath, name)), name, func(s *server.NodeSettings) error { return c.editNode(s, edits) })
	return pathID(joinPath(nodesPath, name)), err
}

// clusterNode is a node of the cluster.
type clusterNode struct {
	bare
	node   *server.Node
	orchid func(c *call, node *server.Node) object
}

func (clusterNode) kind() string { return "cluster_node" }
func (clusterNode) shape() shape { return opaqueShape }

func (n clusterNode) child(c *call, key string) (object, error) {
	if key != "orchid" || n.orchid == nil {
		return nil, nil
	}
	return n.orchid(c, n.node), nil
}

func (n clusterNode) keys(*call) ([]string, error) {
	if n.orchid == nil {
		return nil, nil
	}
	return []string{"orchid"}, nil
}

// nodeAttributes are the attributes of a node of the cluster that are its own.
var nodeAttributes = []string{
	"name", "state", "banned", "ban_message", "user_tags", "tags", "resource_limits", "resource_usage", "resource_limits_overrides",
	"disable_scheduler_jobs", "decommissioned", "disable_write_sessions", "disable_tablet_cells", "pending_restart", "maintenance_requests", "rack", "data_center", "host", "addresses", "alerts", "alert_count", "flavors", "version",
	"last_seen_time", "register_time", "pool_tree", "registration_error", "draining", "cgroups",
}

func (clusterNode) attributeNames(*call) (builtin, custom []string) { return nodeAttributes, nil }

func (clusterNode) knows(name string) bool { return slices.Contains(nodeAttributes, name) }

func (n clusterNode) attribute(_ *call, _ *place, name string) (yson.Node, bool, error) {
	node := n.node
	if kind, is := flagOf(name); is {
		return yson.Boolean(node.UnderMaintenance(kind)), true, nil
	}
	switch name {
	case "name", "address":
		return yson.String(node.Name), true, nil
	case "state":
		state := "offline"
		if node.Online {
			state = "online"
		}
		return yson.String(state), true, nil
	case "ban_message":
		return yson.String(banMessage(node)), true, nil
	case "maintenance_requests":
		return maintenanceRequests(node.Maintenance), true, nil
	case "user_tags":
		return texts(node.UserTags), true, nil
	case "tags":
		return texts(node.Tags), true, nil
	case "resource_limits":
		return amounts(node.Limits), true, nil
	case "resource_usage":
		return amounts(nodeproto.FromAmounts(node.Status.GetUsage())), true, nil
	case "resource_limits_overrides":
		return partial(node.LimitOverrides), true, nil
	case "last_seen_time":
		return instant(node.LastSeen), true, nil
	case "register_time":
		return instant(node.Registered), true, nil
	}
	return n.description(name)
}

// description returns attributes that say what the node is.
func (n clusterNode) description(name string) (yson.Node, bool, error) {
	node := n.node
	host := node.Name
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	switch name {
	case "rack", "data_center":
		return yson.Entity(), false, nil
	case "host":
		return yson.String(host), true, nil
	case "addresses":
		return yson.Map(yson.Pair("default", yson.String(node.Address))), true, nil
	case "alerts":
		var list []yson.Node
		for _, message := range node.Status.GetAlerts() {
			list = append(list, errorf(codeGeneric, "%s", message).node())
		}
		if node.RegistrationError != "" {
			list = append(list, errorf(codeGeneric, "%s", node.RegistrationError).node())
		}
		return yson.List(list...), true, nil
	case "alert_count":
		return yson.Int64(int64(len(node.Status.GetAlerts()))), true, nil
	case "flavors":
		return texts([]string{"exec"}), true, nil
	case "version":
		return yson.String(node.Version), true, nil
	case "pool_tree":
		return yson.String(node.Tree), node.Tree != "", nil
	case "registration_error":
		return yson.String(node.RegistrationError), node.RegistrationError != "", nil
	case "draining":
		return yson.Boolean(node.Status.GetDraining()), true, nil
	case "cgroups":
		return yson.String(node.Cgroups), true, nil
	}
	return yson.Entity(), false, nil
}

func (n clusterNode) editAttributes(c *call, at *place, edits []attributeEdit) error {
	if err := c.require(besideNeeds(at.chain(c), edits)); err != nil {
		return err
	}
	return c.server.EditNode(c.ctx, c.caller(at.path()), n.node.Name, func(s *server.NodeSettings) error { return c.editNode(s, edits) })
}

// editNode changes what administrators say about a node.
func (c *call) editNode(s *server.NodeSettings, edits []attributeEdit) error {
	for _, e := range edits {
		if err := c.editNodeAttribute(s, e); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) editNodeAttribute(s *server.NodeSettings, e attributeEdit) error {
	var old yson.Node
	kind, isFlag := flagOf(e.name)
	switch {
	case isFlag && kind != server.PendingRestart: // which only requests set
		old = yson.Boolean(s.UnderMaintenance(kind))
	case e.name == "ban_message":
		old = yson.String(s.BanMessage)
	case e.name == "user_tags":
		old = texts(s.UserTags)
	case e.name == "resource_limits_overrides":
		old = partial(s.LimitOverrides)
	default:
		return cannotSet(e.name)
	}
	e.steps = normalSteps(e.steps)
	next, keep, err := e.on(true)(old, true)
	if err != nil {
		return err
	}
	if !keep {
		next = yson.Entity()
	}
	if isFlag {
		on, ok := next.Boolean()
		if !ok && !next.IsEntity() {
			return wrongAttribute(e.name, "boolean", next)
		}
		s.SetMaintenanceFlag(kind, on, c.who.User, c.now)
		return nil
	}
	return setNodeAttribute(s, e.name, next)
}

func wrongAttribute(name, expected string, value yson.Node) error {
	return errorf(codeGeneric, "Attribute %q has invalid type: expected %s, actual %s", name, expected, value.Kind())
}

func setNodeAttribute(s *server.NodeSettings, name string, value yson.Node) error {
	unset := value.IsEntity()
	switch name {
	case "ban_message":
		text, ok := value.Text()
		if !ok && !unset {
			return wrongAttribute(name, "string", value)
		}
		s.BanMessage = cutText(strings.ToValidUTF8(text, "?"), 1000)
	case "user_tags":
		if value.Kind() != yson.ListKind && !unset {
			return wrongAttribute(name, "list", value)
		}
		return setTags(s, value)
	case "resource_limits_overrides":
		return setOverrides(s, value)
	}
	return nil
}

// isPlainWord says whether text is short and printable, as names of nodes and tags
// are.
func isPlainWord(text string) bool {
	if text == "" || len(text) > 200 {
		return false
	}
	for _, b := range []byte(text) {
		if b <= ' ' || b >= 0x7f || b == '"' || b == '\'' || b == '\\' {
			return false
		}
	}
	return true
}

// maxTags bounds the tags of a node.
const maxTags = 1000

func setTags(s *server.NodeSettings, value yson.Node) error {
	var tags []string
	for _, item := range value.Items() {
		tag, ok := item.Text()
		if !ok || !isPlainWord(tag) || strings.ContainsAny(tag, "!&|()") {
			return errorf(codeGeneric, "Error parsing user_tags value: %s is no tag", cutText(item.String(), 100))
		}
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	if len(tags) > maxTags {
		return errorf(codeGeneric, "A node has %d tags; the most is %d", len(tags), maxTags)
	}
	s.UserTags = tags
	return nil
}

// setOverrides reads amounts by the rules of pools.
func setOverrides(s *server.NodeSettings, value yson.Node) error {
	v, err := toDocument(value)
	if err != nil {
		return err
	}
	if memory, there := v.Get("user_memory"); there {
		v = v.Without("user_memory").With("memory", memory)
	}
	var config pooltree.PoolConfig
	r := document.NewReader("")
	pooltree.PoolOptions.Read(r, document.Map(document.Pair("resource_limits", v)), &config)
	if err := r.Problems().Err(); err != nil {
		return errorf(codeGeneric, "Error parsing resource_limits_overrides value").because(err)
	}
	s.LimitOverrides = config.ResourceLimits.Value()
	return nil
}

// flagOf is the type of maintenance that an attribute of a node tells of.
func flagOf(attribute string) (server.MaintenanceType, bool) {
	switch attribute {
	case "banned":
		return server.Ban, true
	case "decommissioned":
		return server.Decommission, true
	case "disable_scheduler_jobs", "disable_write_sessions", "disable_tablet_cells", "pending_restart":
		return server.MaintenanceType(attribute), true
	}
	return "", false
}

// maintenanceRequests writes requests by their identifiers, oldest first.
func maintenanceRequests(list []server.MaintenanceRequest) yson.Node {
	entries := make([]yson.Entry, len(list))
	for i, r := range list {
		entries[i] = yson.Pair(r.ID.String(), yson.Map(
			yson.Pair("user", yson.String(r.User)), yson.Pair("comment", yson.String(r.Comment)),
			yson.Pair("timestamp", instant(r.Time)), yson.Pair("type", yson.String(string(r.Type)))))
	}
	return yson.Map(entries...)
}

// banMessage is why a node is banned: what was set, or what the first who asked for it
// said.
func banMessage(n *server.Node) string {
	if n.BanMessage != "" {
		return n.BanMessage
	}
	for _, r := range n.Maintenance {
		if r.Type == server.Ban && r.ID != server.FlagRequest(server.Ban) {
			return r.Comment
		}
	}
	return ""
}
