package api

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// maxMaintenanceComment is YTsaurus's limit on comments, in characters.
const maxMaintenanceComment = 512

// nodeComponent is the only component that can be under maintenance here.
const nodeComponent = "cluster_node"

// mayMaintain finds the node of a request. A user who may write to the node may also put it under
// maintenance.
func (c *call) mayMaintain() error {
	component, err := c.Parameters.NeedText("component")
	if err != nil {
		return err
	}
	if strings.ReplaceAll(component, "-", "_") != nodeComponent {
		return wire.Errorf(wire.CodeGeneric, "Maintenance component %q is not supported; supported is %s", wire.CutText(component, 100), nodeComponent).
			With("component", yson.String(component)).With("supported_components", wire.Texts([]string{nodeComponent}))
	}
	address, err := c.Parameters.NeedText("address")
	if err != nil {
		return err
	}
	chain, err := c.ChainAt(pathtree.NodesPath)
	if err != nil {
		return err
	}
	node, there := c.Server.Node(address)
	if there {
		if chain, err = c.ChainAt(pathtree.JoinPath(pathtree.NodesPath, address)); err != nil {
			return err
		}
	}
	if err := c.Require(auth.Requires(auth.Write, chain)); err != nil {
		return err
	}
	if !there {
		return wire.Errorf(wire.CodeGeneric, "No such node %q", wire.CutText(address, 200)).With("address", yson.String(address))
	}
	c.node = node
	return nil
}

// maintenanceType reads a type; empty if the request has none.
func maintenanceType(p wire.Parameters) (server.MaintenanceType, error) {
	text, err := p.Text("type", "")
	kind := server.MaintenanceType(strings.ReplaceAll(text, "-", "_"))
	if err != nil || text == "" || slices.Contains(server.MaintenanceTypes, kind) {
		return kind, err
	}
	names := make([]string, len(server.MaintenanceTypes))
	for i, known := range server.MaintenanceTypes {
		names[i] = string(known)
	}
	return "", wire.Errorf(wire.CodeGeneric, "Error parsing parameter /type: it must be one of %s, not %q", strings.Join(names, ", "), wire.CutText(text, 100)).
		With("supported_types", wire.Texts(names))
}

// addMaintenance adds a maintenance request to a node. It is in effect until it is removed.
// pruneImages makes a node delete images that its jobs do not use.
func pruneImages(c *call) (yson.Node, error) {
	return nothing(c.Server.PruneImages(c.Context, c.Caller(pathtree.JoinPath(pathtree.NodesPath, c.node.Name)), c.node.Name))
}

func addMaintenance(c *call) (yson.Node, error) {
	kind, err := maintenanceType(c.Parameters)
	switch {
	case err != nil:
		return yson.Node{}, err
	case kind == "":
		return yson.Node{}, wire.Missing("type")
	}
	comment, err := c.Parameters.NeedText("comment")
	if err != nil {
		return yson.Node{}, err
	}
	comment = strings.ToValidUTF8(comment, "?")
	if n := utf8.RuneCountInString(comment); n > maxMaintenanceComment {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /comment: it has %d characters, the limit is %d", n, maxMaintenanceComment)
	}
	request := server.MaintenanceRequest{ID: pathtree.NewID(guid.Object), Type: kind, Comment: comment, User: c.Who.User, Time: c.Now}
	err = c.Server.EditNodeWithAnswer(c.Context, c.Caller(pathtree.JoinPath(pathtree.NodesPath, c.node.Name)), c.node.Name, func(s *server.NodeSettings) ([]byte, error) {
		return []byte(request.ID.String()), s.AddMaintenance(request)
	})
	if err != nil {
		return yson.Node{}, err
	}
	return replayAddMaintenance(c, []byte(request.ID.String()))
}

// replayAddMaintenance answers with the identifier: keyed by address for clients that declare
// support for this, else in the older form for a single target.
func replayAddMaintenance(c *call, id []byte) (yson.Node, error) {
	by, err := c.perTarget()
	switch {
	case err != nil:
		return yson.Node{}, err
	case by != "":
		return yson.Map(yson.Pair(by, yson.String(string(id)))), nil
	case c.version == 3:
		return yson.String(string(id)), nil
	}
	return yson.Map(yson.Pair("id", yson.String(string(id)))), nil
}

// perTarget is the address that keys the answer, or empty.
func (c *call) perTarget() (string, error) {
	wanted, err := c.Parameters.Boolean("supports_per_target_response", false)
	if err != nil || !wanted {
		return "", err
	}
	return c.Parameters.NeedText("address")
}

// removeMaintenance removes the requests that pass all filters.
func removeMaintenance(c *call) (yson.Node, error) {
	doomed, err := c.maintenanceFilter()
	if err != nil {
		return yson.Node{}, err
	}
	var answer []byte
	err = c.Server.EditNodeWithAnswer(c.Context, c.Caller(pathtree.JoinPath(pathtree.NodesPath, c.node.Name)), c.node.Name, func(s *server.NodeSettings) ([]byte, error) {
		answer, err = json.Marshal(s.RemoveMaintenance(doomed))
		return answer, err
	})
	if err != nil {
		return yson.Node{}, err
	}
	return replayRemoveMaintenance(c, answer)
}

// maintenanceFilter reads which requests to remove.
func (c *call) maintenanceFilter() (func(server.MaintenanceRequest) bool, error) {
	p := c.Parameters
	kind, err := maintenanceType(p)
	if err != nil {
		return nil, err
	}
	user, err := p.Text("user", "")
	if err != nil {
		return nil, err
	}
	mine, err := p.Boolean("mine", false)
	if err != nil {
		return nil, err
	}
	all, err := p.Boolean("all", false)
	if err != nil {
		return nil, err
	}
	ids, err := maintenanceIDs(p)
	chosen := kind != "" || user != "" || mine || ids != nil
	switch {
	case err != nil:
		return nil, err
	case mine && user != "":
		return nil, wire.Errorf(wire.CodeGeneric, `Cannot specify both "user" and "mine"`)
	case all && chosen:
		return nil, wire.Errorf(wire.CodeGeneric, `"all" cannot be used with other options`)
	case !all && !chosen:
		return nil, wire.Errorf(wire.CodeGeneric, `"all" must be specified explicitly, or some of "id", "ids", "type", "user", "mine"`)
	case mine:
		user = c.Who.User
	}
	return func(r server.MaintenanceRequest) bool {
		return (kind == "" || r.Type == kind) && (user == "" || r.User == user) && (ids == nil || slices.Contains(ids, r.ID))
	}, nil
}

// maintenanceIDs reads "id" or "ids"; nil if the request has neither.
func maintenanceIDs(p wire.Parameters) ([]guid.ID, error) {
	name := "ids"
	if p.Has("id") {
		if name = "id"; p.Has("ids") {
			return nil, wire.Errorf(wire.CodeGeneric, `At most one of "id" and "ids" can be specified at the same time`)
		}
	}
	list, err := p.TextList(name)
	if err != nil || list == nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, wire.Errorf(wire.CodeGeneric, `"ids" must not be empty if specified`)
	}
	ids := make([]guid.ID, len(list))
	for i, text := range list {
		if ids[i], err = guid.Parse(text); err != nil {
			return nil, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /%s", name).Because(err)
		}
	}
	return ids, nil
}

// replayRemoveMaintenance answers how many requests of each type were removed.
func replayRemoveMaintenance(c *call, answer []byte) (yson.Node, error) {
	var removed map[server.MaintenanceType]int64
	if err := json.Unmarshal(answer, &removed); err != nil {
		return yson.Node{}, err
	}
	var counts []yson.Entry
	for _, kind := range server.MaintenanceTypes {
		if n := removed[kind]; n > 0 {
			counts = append(counts, yson.Pair(string(kind), yson.Int64(n)))
		}
	}
	by, err := c.perTarget()
	if err != nil || by == "" {
		return yson.Map(counts...), err
	}
	return yson.Map(yson.Pair(by, yson.Map(counts...))), nil
}
