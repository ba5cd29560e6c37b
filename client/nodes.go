package client

import (
	"context"
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/value/yson"
)

// Node is a machine of the cluster.
type Node struct {
	Name string `yson:"address"`
	// State is online, offline, banned or refused.
	State string   `yson:"state"`
	Tree  string   `yson:"pool_tree"` // empty if no tree takes it
	Tags  []string `yson:"tags"`
	// Limits is what it has, Usage what jobs have of it.
	Limits      Resources `yson:"resource_limits"`
	Usage       Resources `yson:"resource_usage"`
	RunningJobs int64     `yson:"running_job_count"`
	// JobsDisabled says that it gets no new jobs, Draining that it is about to stop.
	JobsDisabled bool          `yson:"jobs_disabled"`
	Draining     bool          `yson:"draining"`
	Maintenance  []Maintenance `yson:"maintenance_requests"`
	Version      string        `yson:"version"`
	Registered   time.Time     `yson:"registered_time"`
	LastSeen     time.Time     `yson:"last_seen_time"`
	Alerts       []string      `yson:"alerts"`
	Raw          Value         `yson:"."`
}

// Maintenance is a request that keeps a node from something.
type Maintenance struct {
	ID      string          `yson:"#"`
	Type    MaintenanceType `yson:"type"`
	User    string          `yson:"user"`
	Comment string          `yson:"comment"`
	Time    time.Time       `yson:"timestamp"`
}

// MaintenanceType is what a node is kept from.
type MaintenanceType string

// Types of maintenance that the scheduler acts on; others are only noted.
const (
	Ban          MaintenanceType = "ban"                    // its jobs are aborted, it gets no others
	DisableJobs  MaintenanceType = "disable_scheduler_jobs" // it gets no new jobs
	Decommission MaintenanceType = "decommission"           // the same, since it is to go
)

// NodeFilter says which nodes a list has: those that all fields choose which are not zero.
type NodeFilter struct {
	Tree  string `yson:"pool_tree"`
	Tag   string `yson:"tag"`
	State string `yson:"state"`
	// Text must be in the name.
	Text string `yson:"filter"`
	// Limit is the most nodes, 10000 if it is zero.
	Limit int64 `yson:"limit"`
}

// NodeList is a list of nodes.
type NodeList struct {
	Nodes []Node `yson:"nodes"`
	Total int64  `yson:"total"` // how many there are, whatever the limit
	Raw   Value  `yson:"."`
}

// ListNodes returns nodes by name.
func (c *Client) ListNodes(ctx context.Context, f NodeFilter) (*NodeList, error) {
	return ask[NodeList](ctx, c, "list_nodes", f)
}

// GetNode returns a node.
func (c *Client) GetNode(ctx context.Context, name string) (*Node, error) {
	list, err := c.ListNodes(ctx, NodeFilter{Text: name})
	if err != nil {
		return nil, err
	}
	for i := range list.Nodes {
		if list.Nodes[i].Name == name {
			return &list.Nodes[i], nil
		}
	}
	return nil, &Error{Code: CodeResolve, Message: fmt.Sprintf("There is no node %q", name)}
}

type maintenanceOf struct {
	Component string `yson:"component"`
	Node      string `yson:"address"`
}

// AddMaintenance keeps a node from something until the request is removed, and returns the
// id of the request. The comment says why.
func (c *Client) AddMaintenance(ctx context.Context, node string, kind MaintenanceType, comment string) (id string, err error) {
	answer, err := c.Do(ctx, "add_maintenance", merged(maintenanceOf{"cluster_node", node}, struct {
		Type    MaintenanceType `yson:"type"`
		Comment Value           `yson:"comment"` // an empty one is sent too
	}{kind, Value{yson.String(comment)}}))
	return firstText(answer), err
}

// Drain gives a node no new jobs; those that run there end as they would.
func (c *Client) Drain(ctx context.Context, node, comment string) (id string, err error) {
	return c.AddMaintenance(ctx, node, DisableJobs, comment)
}

// MaintenanceFilter says which requests to remove: those that all fields choose which are
// not zero, or all.
type MaintenanceFilter struct {
	Type MaintenanceType `yson:"type"`
	User string          `yson:"user"`
	IDs  []string        `yson:"ids"`
	Mine bool            `yson:"mine"`
	All  bool            `yson:"all"`
}

// MaintenanceCount is how many requests of a type there were.
type MaintenanceCount struct {
	Type  MaintenanceType `yson:"#"`
	Count int64           `yson:"."`
}

// RemoveMaintenance takes requests back and says how many there were. A node gets jobs
// again when the last request that keeps it from them is gone.
func (c *Client) RemoveMaintenance(ctx context.Context, node string, f MaintenanceFilter) ([]MaintenanceCount, error) {
	answer, err := c.Do(ctx, "remove_maintenance", merged(maintenanceOf{"cluster_node", node}, f))
	return *decode[[]MaintenanceCount](answer), err
}
