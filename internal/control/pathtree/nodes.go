package pathtree

import (
	"net"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// NodesPath is the path of the cluster nodes.
const NodesPath = "//sys/cluster_nodes"

// fixedLink is a permanent link to another node.
type fixedLink struct {
	Bare
	to string
}

func (fixedLink) Kind() string                            { return "link" }
func (fixedLink) Shape() Shape                            { return LinkShape }
func (l fixedLink) Value(*Request) (yson.Node, error)     { return yson.String(l.to), nil }
func (fixedLink) AttributeNames(*Request) (_, _ []string) { return []string{"target_path"}, nil }

func (l fixedLink) Attribute(_ *Request, _ *Place, name string) (yson.Node, bool, error) {
	return yson.String(l.to), name == "target_path", nil
}

// nodesNode is //sys/cluster_nodes.
type nodesNode struct {
	Bare
	orchid func(c *Request, node *server.Node) Object
}

func (nodesNode) Kind() string { return "cluster_node_map" }

func (nodesNode) Keys(c *Request) ([]string, error) {
	var names []string
	for _, node := range c.Server.Nodes() {
		names = append(names, node.Name)
	}
	slices.Sort(names)
	return names, nil
}

func (n nodesNode) Child(c *Request, key string) (Object, error) {
	node, there := c.Server.Node(key)
	if !there {
		return nil, nil
	}
	return clusterNode{node: node, orchid: n.orchid}, nil
}

func (nodesNode) Attribute(c *Request, at *Place, name string) (yson.Node, bool, error) {
	switch name {
	case "online", "offline":
		n := 0
		for _, node := range c.Server.Nodes() {
			if node.Online == (name == "online") {
				n++
			}
		}
		return yson.Int64(int64(n)), true, nil
	}
	return c.customBeside(at.Path(), name)
}

func (nodesNode) AttributeNames(c *Request) (builtin, custom []string) {
	return []string{"offline", "online"}, c.customNames(NodesPath)
}

func (nodesNode) EditAttributes(c *Request, at *Place, edits []AttributeEdit) error {
	for _, e := range edits {
		if isFixed(e.Name) || e.Name == "online" || e.Name == "offline" {
			return cannotSet(e.Name)
		}
	}
	if err := c.Require(besideNeeds(at.Chain(c), edits)); err != nil {
		return err
	}
	return c.editBeside(at.Path(), at.Path(), edits)
}

// Create registers a node before it first reports, so that it can be banned or tagged.
func (nodesNode) Create(c *Request, at *Place, keys []string, what Creation) (guid.ID, error) {
	name := keys[0]
	if len(keys) > 1 || what.Kind != "cluster_node" && what.Kind != "map_node" {
		return guid.ID{}, wire.Errorf(wire.CodeGeneric, "Only cluster nodes can be created at %s, not %q", NodesPath, wire.CutText(what.Kind, 100))
	}
	if !isPlainWord(name) {
		return guid.ID{}, wire.Errorf(wire.CodeGeneric, "%q is not a valid node name", wire.CutText(name, 100))
	}
	if err := c.Require(auth.Requires(auth.Write, at.Chain(c))); err != nil {
		return guid.ID{}, err
	}
	edits := EditsOf(what.Attributes)
	err := c.Server.EditNode(c.Context, c.Caller(JoinPath(NodesPath, name)), name, func(s *server.NodeSettings) error { return c.editNode(s, edits) })
	return pathID(JoinPath(NodesPath, name)), err
}

// clusterNode is one cluster node.
type clusterNode struct {
	Bare
	node   *server.Node
	orchid func(c *Request, node *server.Node) Object
}

func (clusterNode) Kind() string { return "cluster_node" }
func (clusterNode) Shape() Shape { return OpaqueShape }

func (n clusterNode) Child(c *Request, key string) (Object, error) {
	if key != "orchid" || n.orchid == nil {
		return nil, nil
	}
	return n.orchid(c, n.node), nil
}

func (n clusterNode) Keys(*Request) ([]string, error) {
	if n.orchid == nil {
		return nil, nil
	}
	return []string{"orchid"}, nil
}

// Isolation is how far a node keeps jobs apart, and why not further; an entity if its agent does not say.
func Isolation(node *server.Node) yson.Node {
	i := node.Isolation
	if i == nil {
		return yson.Entity()
	}
	return yson.Map(
		yson.Pair("level", yson.String(i.Level)), yson.Pair("run_as", yson.String(i.RunAs)),
		yson.Pair("cause", wire.OrEntity(i.Cause)), yson.Pair("detail", wire.OrEntity(i.Detail)))
}

// GPUs lists the devices of a node as its agent last read them. Utilization is a number from 0 to 1.
func GPUs(node *server.Node) yson.Node {
	list := []yson.Node{}
	for _, g := range node.Status.GPUs {
		utilization := yson.Entity()
		if g.Utilization >= 0 {
			utilization = yson.Double(float64(g.Utilization) / 100)
		}
		list = append(list, yson.Map(
			yson.Pair("id", yson.String(g.ID)), yson.Pair("model", yson.String(g.Model)),
			yson.Pair("memory", yson.Int64(g.Memory)), yson.Pair("memory_in_use", yson.Int64(g.MemoryInUse)),
			yson.Pair("utilization", utilization), yson.Pair("job_id", wire.OrEntity(g.JobID)), yson.Pair("fault", wire.OrEntity(g.Fault))))
	}
	return yson.List(list...)
}

// Images lists the container images that a node has, those that jobs used last first.
func Images(node *server.Node) yson.Node {
	list := []yson.Node{}
	for _, i := range node.Status.Images {
		used := yson.Entity()
		if !i.LastUse.IsZero() {
			used = wire.Instant(i.LastUse)
		}
		list = append(list, yson.Map(
			yson.Pair("name", wire.OrEntity(i.Name)), yson.Pair("digest", yson.String(i.Digest)), yson.Pair("size", yson.Int64(i.Size)),
			yson.Pair("last_use_time", used), yson.Pair("job_count", yson.Int64(i.Jobs))))
	}
	return yson.List(list...)
}

// nodeAttributes are the attributes that only cluster nodes have.
var nodeAttributes = []string{
	"name", "state", "banned", "ban_message", "user_tags", "tags", "resource_limits", "resource_usage", "resource_limits_overrides",
	"disable_scheduler_jobs", "decommissioned", "disable_write_sessions", "disable_tablet_cells", "pending_restart", "maintenance_requests", "rack", "data_center", "host", "addresses", "alerts", "alert_count", "flavors", "version",
	"last_seen_time", "register_time", "pool_tree", "registration_error", "draining", "cgroups", "disk_quota", "gpus", "images", "isolation",
}

func (clusterNode) AttributeNames(*Request) (builtin, custom []string) { return nodeAttributes, nil }

func (clusterNode) knows(name string) bool { return slices.Contains(nodeAttributes, name) }

func (n clusterNode) Attribute(_ *Request, _ *Place, name string) (yson.Node, bool, error) {
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
		return MaintenanceRequests(node.Maintenance), true, nil
	case "user_tags":
		return wire.Texts(node.UserTags), true, nil
	case "tags":
		return wire.Texts(node.Tags), true, nil
	case "resource_limits":
		return wire.Amounts(node.Limits), true, nil
	case "resource_usage":
		return wire.Amounts(node.Status.Usage), true, nil
	case "resource_limits_overrides":
		return wire.Partial(node.LimitOverrides), true, nil
	case "last_seen_time":
		return wire.Instant(node.LastSeen), true, nil
	case "register_time":
		return wire.Instant(node.Registered), true, nil
	}
	return n.description(name)
}

// description returns attributes that describe the node.
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
		for _, message := range node.Status.Alerts {
			list = append(list, wire.Errorf(wire.CodeGeneric, "%s", message).Node())
		}
		if node.RegistrationError != "" {
			list = append(list, wire.Errorf(wire.CodeGeneric, "%s", node.RegistrationError).Node())
		}
		return yson.List(list...), true, nil
	case "alert_count":
		return yson.Int64(int64(len(node.Status.Alerts))), true, nil
	case "flavors":
		return wire.Texts([]string{"exec"}), true, nil
	case "version":
		return yson.String(node.Version), true, nil
	case "pool_tree":
		return yson.String(node.Tree), node.Tree != "", nil
	case "registration_error":
		return yson.String(node.RegistrationError), node.RegistrationError != "", nil
	case "draining":
		return yson.Boolean(node.Status.Draining), true, nil
	case "gpus":
		return GPUs(node), true, nil
	case "images":
		return Images(node), true, nil
	case "isolation":
		return Isolation(node), true, nil
	case "cgroups":
		return yson.String(node.Cgroups), true, nil
	case "disk_quota":
		return wire.OrEntity(node.DiskQuota), true, nil
	}
	return yson.Entity(), false, nil
}

func (n clusterNode) EditAttributes(c *Request, at *Place, edits []AttributeEdit) error {
	if err := c.Require(besideNeeds(at.Chain(c), edits)); err != nil {
		return err
	}
	return c.Server.EditNode(c.Context, c.Caller(at.Path()), n.node.Name, func(s *server.NodeSettings) error { return c.editNode(s, edits) })
}

// editNode changes a node's settings, which administrators make.
func (c *Request) editNode(s *server.NodeSettings, edits []AttributeEdit) error {
	for _, e := range edits {
		if err := c.editNodeAttribute(s, e); err != nil {
			return err
		}
	}
	return nil
}

func (c *Request) editNodeAttribute(s *server.NodeSettings, e AttributeEdit) error {
	var old yson.Node
	kind, isFlag := flagOf(e.Name)
	switch {
	case isFlag && kind != server.PendingRestart: // only maintenance requests set it
		old = yson.Boolean(s.UnderMaintenance(kind))
	case e.Name == "ban_message":
		old = yson.String(s.BanMessage)
	case e.Name == "user_tags":
		old = wire.Texts(s.UserTags)
	case e.Name == "resource_limits_overrides":
		old = wire.Partial(s.LimitOverrides)
	default:
		return cannotSet(e.Name)
	}
	e.Steps = normalSteps(e.Steps)
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
			return wrongAttribute(e.Name, "boolean", next)
		}
		s.SetMaintenanceFlag(kind, on, c.Who.User, c.Now)
		return nil
	}
	return setNodeAttribute(s, e.Name, next)
}

func wrongAttribute(name, expected string, value yson.Node) error {
	return wire.Errorf(wire.CodeGeneric, "Attribute %q has invalid type: expected %s, actual %s", name, expected, value.Kind())
}

func setNodeAttribute(s *server.NodeSettings, name string, value yson.Node) error {
	unset := value.IsEntity()
	switch name {
	case "ban_message":
		text, ok := value.Text()
		if !ok && !unset {
			return wrongAttribute(name, "string", value)
		}
		s.BanMessage = wire.CutText(strings.ToValidUTF8(text, "?"), 1000)
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

// isPlainWord reports whether text is short and printable, as names of nodes and tags are.
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
			return wire.Errorf(wire.CodeGeneric, "Error parsing user_tags value: %s is not a tag", wire.CutText(item.String(), 100))
		}
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	if len(tags) > maxTags {
		return wire.Errorf(wire.CodeGeneric, "A node has %d tags; the limit is %d", len(tags), maxTags)
	}
	s.UserTags = tags
	return nil
}

// setOverrides reads amounts by the rules of pools.
func setOverrides(s *server.NodeSettings, value yson.Node) error {
	v, err := wire.ToDocument(value)
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
		return wire.Errorf(wire.CodeGeneric, "Error parsing resource_limits_overrides value").Because(err)
	}
	s.LimitOverrides = config.ResourceLimits.Value()
	return nil
}

// flagOf is the type of maintenance that a node's attribute shows.
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

// MaintenanceRequests writes requests by their identifiers, oldest first.
func MaintenanceRequests(list []server.MaintenanceRequest) yson.Node {
	entries := make([]yson.Entry, len(list))
	for i, r := range list {
		entries[i] = yson.Pair(r.ID.String(), yson.Map(
			yson.Pair("user", yson.String(r.User)), yson.Pair("comment", yson.String(r.Comment)),
			yson.Pair("timestamp", wire.Instant(r.Time)), yson.Pair("type", yson.String(string(r.Type)))))
	}
	return yson.Map(entries...)
}

// banMessage is why a node is banned: the message that was set, or the comment of the first ban
// request.
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
