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
	Tree  string   `yson:"pool_tree"` // empty if the node belongs to no tree
	Tags  []string `yson:"tags"`
	// Limits is what the node offers, Usage what its jobs hold.
	Limits      Resources `yson:"resource_limits"`
	Usage       Resources `yson:"resource_usage"`
	RunningJobs int64     `yson:"running_job_count"`
	// JobsDisabled reports whether the node gets no new jobs, Draining whether its agent
	// is shutting down.
	JobsDisabled bool          `yson:"jobs_disabled"`
	Draining     bool          `yson:"draining"`
	Maintenance  []Maintenance `yson:"maintenance_requests"`
	Version      string        `yson:"version"`
	Registered   time.Time     `yson:"registered_time"`
	LastSeen     time.Time     `yson:"last_seen_time"`
	Alerts       []string      `yson:"alerts"`
	GPUs         []GPU         `yson:"gpus"`
	Images       []Image       `yson:"images"` // those that jobs used last first
	Isolation    Isolation     `yson:"isolation"`
	// DiskQuota is how the files of jobs are held to their limits: project (by the file system), watch or none.
	// It is empty if the agent is too old to say.
	DiskQuota string `yson:"disk_quota"`
	Raw       Value  `yson:"."`
}

// Isolation is how far a node keeps jobs apart from itself and from each other; empty if its agent is too old to say.
type Isolation struct {
	Level string `yson:"level"`  // full, shared_files or none
	RunAs string `yson:"run_as"` // job, user or agent
	// Cause is why jobs are not isolated fully: configured, not_root, or what the machine refuses, such as
	// no_namespaces. It is empty if they are.
	Cause  string `yson:"cause"`
	Detail string `yson:"detail"` // the machine's answer
}

// GPU is a device of a node.
type GPU struct {
	ID          string   `yson:"id"`
	Model       string   `yson:"model"`
	Memory      int64    `yson:"memory"` // zero if not known
	MemoryInUse int64    `yson:"memory_in_use"`
	Utilization *float64 `yson:"utilization"` // from 0 to 1; nil if not known
	Job         string   `yson:"job_id"`      // empty if the device is free
	Fault       string   `yson:"fault"`       // why it gets no jobs; empty if it is well
}

// Image is a container image of a node.
type Image struct {
	Name    string    `yson:"name"` // empty if it has none
	Digest  string    `yson:"digest"`
	Size    int64     `yson:"size"`          // unpacked; zero if it has not been unpacked
	LastUse time.Time `yson:"last_use_time"` // zero if no job has used it
	Jobs    int64     `yson:"job_count"`     // that use it now
}

// Maintenance is a maintenance request: it restricts a node until it is removed.
type Maintenance struct {
	ID      string          `yson:"#"`
	Type    MaintenanceType `yson:"type"`
	User    string          `yson:"user"`
	Comment string          `yson:"comment"`
	Time    time.Time       `yson:"timestamp"`
}

// MaintenanceType is the restriction that a maintenance request puts on a node.
type MaintenanceType string

// Types of maintenance that the scheduler acts on. It stores requests of other types, and
// they have no effect.
const (
	Ban          MaintenanceType = "ban"                    // the node's jobs are aborted; it gets no new ones
	DisableJobs  MaintenanceType = "disable_scheduler_jobs" // the node gets no new jobs
	Decommission MaintenanceType = "decommission"           // like DisableJobs, before the node is removed
)

// NodeFilter selects nodes. A node must match every non-zero field.
type NodeFilter struct {
	Tree  string `yson:"pool_tree"`
	Tag   string `yson:"tag"`
	State string `yson:"state"`
	// Text is a part of the node's name.
	Text string `yson:"filter"`
	// Limit is the greatest number of nodes to return; zero means 10000.
	Limit int64 `yson:"limit"`
}

// NodeList is a list of nodes.
type NodeList struct {
	Nodes []Node `yson:"nodes"`
	Total int64  `yson:"total"` // number of matching nodes, regardless of the limit
	Raw   Value  `yson:"."`
}

// ListNodes returns the nodes that match f, sorted by name.
func (c *Client) ListNodes(ctx context.Context, f NodeFilter) (*NodeList, error) {
	return ask[NodeList](ctx, c, "list_nodes", f)
}

// GetNode returns a node. The error is CodeResolve if there is no such node.
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

// PruneImages makes a node delete the images that none of its jobs uses.
func (c *Client) PruneImages(ctx context.Context, node string) error {
	return c.tell(ctx, "prune_images", maintenanceOf{"cluster_node", node})
}

type maintenanceOf struct {
	Component string `yson:"component"`
	Node      string `yson:"address"`
}

// AddMaintenance adds a maintenance request to a node and returns the id of the request.
// The comment states the reason to other people.
func (c *Client) AddMaintenance(ctx context.Context, node string, kind MaintenanceType, comment string) (id string, err error) {
	answer, err := c.Do(ctx, "add_maintenance", merged(maintenanceOf{"cluster_node", node}, struct {
		Type    MaintenanceType `yson:"type"`
		Comment Value           `yson:"comment"` // sent even if empty
	}{kind, Value{yson.String(comment)}}))
	return firstText(answer), err
}

// Drain keeps new jobs from a node and lets its running jobs end. It adds a maintenance
// request of type DisableJobs and returns its id.
func (c *Client) Drain(ctx context.Context, node, comment string) (id string, err error) {
	return c.AddMaintenance(ctx, node, DisableJobs, comment)
}

// MaintenanceFilter selects maintenance requests. A request must match every non-zero
// field; All selects all requests.
type MaintenanceFilter struct {
	Type MaintenanceType `yson:"type"`
	User string          `yson:"user"`
	IDs  []string        `yson:"ids"`
	Mine bool            `yson:"mine"`
	All  bool            `yson:"all"`
}

// MaintenanceCount is the number of removed requests of one type.
type MaintenanceCount struct {
	Type  MaintenanceType `yson:"#"`
	Count int64           `yson:"."`
}

// RemoveMaintenance removes the requests that match f and returns their numbers by type. A
// node gets jobs again once no request that prevents it remains.
func (c *Client) RemoveMaintenance(ctx context.Context, node string, f MaintenanceFilter) ([]MaintenanceCount, error) {
	answer, err := c.Do(ctx, "remove_maintenance", merged(maintenanceOf{"cluster_node", node}, f))
	return *decode[[]MaintenanceCount](answer), err
}
