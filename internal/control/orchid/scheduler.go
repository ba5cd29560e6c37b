package orchid

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

// orchidPath is the path of the scheduler's live state. It is not a stable interface.
const orchidPath = "//sys/scheduler/orchid"

// Live is the part of the tree of paths that shows the scheduler's live state.
func Live() pathtree.Live {
	return pathtree.Live{
		Mounts: []pathtree.Mount{
			{Path: OperationsPath, Make: func(*pathtree.Request) pathtree.Object { return operationsNode{} }},
			{Path: orchidPath, Make: newSchedulerOrchid},
		},
		Scheduler: newSchedulerOrchid, Agent: newAgentOrchid, Node: newNodeOrchid,
	}
}

func newSchedulerOrchid(*pathtree.Request) pathtree.Object {
	return folder{opaque: true, list: []folderChild{
		childAt("scheduler", func(*pathtree.Request) pathtree.Object { return schedulerFolder() }),
		childAt("service", serviceFolder),
	}}
}

func schedulerFolder() pathtree.Object {
	return folder{list: []folderChild{
		{"pool_trees", treesOrchid(treeOrchid)},
		{"scheduling_info_per_pool_tree", treesOrchid(oldTreeOrchid)},
		childValue("default_pool_tree", func(c *pathtree.Request) (yson.Node, error) { return wire.OrEntity(c.Server.Trees().Default), nil }),
		childAt("operations", orchidOperations),
		childAt("nodes", orchidNodes),
		childValue("cluster", orchidCluster),
		childAt("allocations", orchidAllocations),
		childValue("config", orchidConfig),
		childValue("config_revision", func(c *pathtree.Request) (yson.Node, error) { return yson.Int64(c.Server.View().Revision), nil }),
		childValue("user_to_default_pool", func(c *pathtree.Request) (yson.Node, error) {
			return documentAt(c, "//sys/scheduler/user_to_default_pool")
		}),
		childAt("service", serviceFolder),
		childValue("alerts", func(c *pathtree.Request) (yson.Node, error) { return SchedulerAlerts(c.Server), nil }),
		childAt("controller_agents", func(c *pathtree.Request) pathtree.Object {
			return folder{list: []folderChild{childValue(c.Server.Address(), func(c *pathtree.Request) (yson.Node, error) {
				return yson.Map(yson.Pair("state", yson.String("registered")), yson.Pair("tags", wire.Texts([]string{"default"}))), nil
			})}}
		}),
		childValue("suspicious_jobs", func(*pathtree.Request) (yson.Node, error) { return yson.Map(), nil }),
		childValue("supported_features", func(*pathtree.Request) (yson.Node, error) { return SupportedFeatures(), nil }),
	}}
}

func serviceFolder(*pathtree.Request) pathtree.Object {
	return folder{list: []folderChild{
		childValue("connected", func(c *pathtree.Request) (yson.Node, error) { return yson.Boolean(c.Server.Leading()), nil }),
		childValue("last_connection_time", func(c *pathtree.Request) (yson.Node, error) { return wire.Instant(c.Tree.Started), nil }),
		childValue("build_version", func(c *pathtree.Request) (yson.Node, error) { return yson.String(c.Tree.Options.Version), nil }),
		childValue("version", func(c *pathtree.Request) (yson.Node, error) { return yson.String(c.Tree.Options.Version), nil }),
		childValue("hostname", func(c *pathtree.Request) (yson.Node, error) { return yson.String(c.Server.Address()), nil }),
		childValue("epoch", func(c *pathtree.Request) (yson.Node, error) { return yson.Uint64(c.Server.View().Epoch), nil }),
		childValue("reviving", func(c *pathtree.Request) (yson.Node, error) { return yson.Boolean(c.Server.View().Reviving), nil }),
	}}
}

// SchedulerAlerts are the scheduler's alerts, as errors.
func SchedulerAlerts(s *server.Server) yson.Node {
	var items []yson.Node
	for _, alert := range s.Alerts() {
		items = append(items, alertNode(alert))
	}
	return yson.List(items...)
}

// documentAt reads a document of the tree; a missing one is an empty map.
func documentAt(c *pathtree.Request, path string) (yson.Node, error) {
	p, err := parsePathText(path)
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.Walk(p, false)
	if err != nil || len(t.Missing) > 0 {
		return yson.Map(), err
	}
	n, err := t.Value(c)
	if n.IsEntity() {
		n = yson.Map()
	}
	return n, err
}

// orchidConfig is the configuration in effect: the server's settings, overridden by those set in
// the tree of paths.
func orchidConfig(c *pathtree.Request) (yson.Node, error) {
	s := c.Server.Settings()
	base := yson.Map(
		yson.Pair("fair_share_update_period", wire.Milliseconds(s.UpdatePeriod)),
		yson.Pair("snapshot_period", wire.Milliseconds(s.SnapshotPeriod)),
		yson.Pair("operations_update_period", wire.Milliseconds(s.ProgressPeriod)),
		yson.Pair("node_heartbeat_period", wire.Milliseconds(s.HeartbeatPeriod)),
		yson.Pair("node_heartbeat_timeout", wire.Milliseconds(s.Core.NodeTimeout)),
		yson.Pair("mutation_ttl", wire.Milliseconds(s.MutationTTL)),
		yson.Pair("max_operation_count", yson.Int64(int64(s.Core.MaxOperations))),
		yson.Pair("waiting_for_resources_on_node_timeout", wire.Milliseconds(s.Core.WaitTimeout)),
		yson.Pair("lease_ttl", wire.Milliseconds(s.LeaseTTL)))
	own, err := documentAt(c, "//sys/scheduler/config")
	if err != nil {
		return base, err
	}
	return wire.Merge(base, own), nil
}

// orchidOperations has the live operations by id.
func orchidOperations(*pathtree.Request) pathtree.Object {
	return operationDirectory{of: func(*server.Operation) bool { return true }}
}

// operationDirectory is a directory of live operations.
type operationDirectory struct {
	pathtree.Bare
	of func(*server.Operation) bool
}

func (operationDirectory) Kind() string { return "map_node" }

// Shape is opaque, so that reading an ancestor does not return all operations.
func (operationDirectory) Shape() pathtree.Shape { return pathtree.OpaqueShape }

func (d operationDirectory) Keys(c *pathtree.Request) ([]string, error) {
	var keys []string
	for _, o := range c.Server.Operations() {
		if d.of(o) {
			keys = append(keys, o.ID.String())
		}
	}
	slices.Sort(keys)
	return keys, nil
}

func (d operationDirectory) Child(c *pathtree.Request, key string) (pathtree.Object, error) {
	live, there := liveByName(c, key)
	if !there || !d.of(live) {
		return nil, nil
	}
	return pathtree.Computed{Get: func() (yson.Node, error) {
		entries, err := ViewOfLive(live).Describe(c, nil, false)
		return yson.Map(append(entries, yson.Pair("agent_id", yson.String(c.Server.Address())))...), err
	}}, nil
}

// orchidNodes has the nodes as the scheduler sees them.
func orchidNodes(c *pathtree.Request) pathtree.Object {
	return pathtree.LazyMap{
		List: func() (keys []string, _ error) {
			for _, n := range c.Server.Nodes() {
				keys = append(keys, n.Name)
			}
			slices.Sort(keys)
			return keys, nil
		},
		Get: func(key string) (pathtree.Object, error) {
			node, there := c.Server.Node(key)
			if !there {
				return nil, nil
			}
			state, err := Current(c)
			if err != nil {
				return nil, err
			}
			return pathtree.ValueNode(nodeInfoNode(state, node)), nil
		},
	}
}

// nodeInfoNode writes a node as the scheduler sees it.
func nodeInfoNode(state *State, node *server.Node) yson.Node {
	online := "offline"
	if node.Online {
		online = "online"
	}
	info := state.Node(node.Name)
	jobs := 0
	for _, n := range info.Jobs {
		jobs += n
	}
	return yson.Map(
		yson.Pair("scheduler_state", yson.String(online)),
		yson.Pair("master_state", yson.String(online)),
		yson.Pair("state", yson.String(online)),
		yson.Pair("resource_limits", wire.AmountsNode(node.Limits)),
		yson.Pair("resource_usage", wire.AmountsNode(info.Usage)),
		yson.Pair("disk_resources", yson.Map()),
		yson.Pair("tags", wire.Texts(node.Tags)),
		yson.Pair("data_center", yson.Entity()),
		yson.Pair("tree", wire.OrEntity(node.Tree)),
		yson.Pair("scheduling_segment", yson.String("default")),
		yson.Pair("running_job_count", yson.Int64(int64(jobs))),
		yson.Pair("running_job_statistics", runningJobStatistics(info)),
		yson.Pair("last_preemptive_heartbeat_time", wire.Instant(info.PreemptedAt)),
		yson.Pair("overcommitted_since", wire.Instant(info.Overcommitted)),
		yson.Pair("last_seen_time", wire.Instant(node.LastSeen)),
		yson.Pair("banned", yson.Boolean(node.Banned)),
		yson.Pair("jobs_disabled", yson.Boolean(node.TakesNoJobs())),
		yson.Pair("registration_error", wire.OrEntity(node.RegistrationError)))
}

// runningJobStatistics is the resources of a node's jobs, by how easily they can be preempted.
func runningJobStatistics(info *core.Node) yson.Node {
	var entries []yson.Entry
	for class := range info.ClassUsage {
		name := classNames[class]
		entries = append(entries,
			yson.Pair(name+"_job_count", yson.Int64(int64(info.Jobs[class]))),
			yson.Pair(name+"_resource_usage", wire.AmountsNode(info.ClassUsage[class])))
	}
	return yson.Map(append(entries, yson.Pair("preempted_job_count", yson.Int64(int64(info.Preempted))))...)
}

// orchidCluster sums up all trees.
func orchidCluster(c *pathtree.Request) (yson.Node, error) {
	state, err := Current(c)
	if err != nil {
		return yson.Node{}, err
	}
	var limits, usage resource.Amounts
	for _, t := range state.Trees {
		limits, usage = limits.Add(t.Info.Total), usage.Add(t.Info.Root().Usage)
	}
	online, all := 0, 0
	for _, n := range c.Server.Nodes() {
		all++
		if n.Online {
			online++
		}
	}
	return yson.Map(
		yson.Pair("resource_limits", wire.AmountsNode(limits)),
		yson.Pair("resource_usage", wire.AmountsNode(usage)),
		yson.Pair("exec_node_count", yson.Int64(int64(online))),
		yson.Pair("total_node_count", yson.Int64(int64(all)))), nil
}

// orchidAllocations has the running jobs by the id of their allocation.
func orchidAllocations(c *pathtree.Request) pathtree.Object {
	return pathtree.LazyMap{
		Opaque: true,
		List: func() (keys []string, _ error) {
			jobs := c.Server.Jobs(core.NoOperation)
			slices.SortFunc(jobs, func(a, b *server.Job) int { return cmp.Compare(a.Number, b.Number) })
			for _, job := range jobs {
				keys = append(keys, allocationOf(job.ID).String())
			}
			return keys, nil
		},
		Get: func(key string) (pathtree.Object, error) {
			id, err := guid.Parse(key)
			if err != nil {
				return nil, nil // a name that is no id matches nothing
			}
			id[3] = id[3]&0xffffff | 1<<24
			job, there := c.Server.Job(id)
			if !there {
				return nil, nil
			}
			return pathtree.ValueNode(allocationNode(c.Server, job)), nil
		},
	}
}

func allocationNode(s *server.Server, job *server.Job) yson.Node {
	operation := yson.Entity()
	if record, there := s.OperationByNumber(job.Operation); there {
		operation = yson.String(record.ID.String())
	}
	return yson.Map(
		yson.Pair("operation_id", operation),
		yson.Pair("job_id", yson.String(job.ID.String())),
		yson.Pair("node_address", yson.String(job.Node)),
		yson.Pair("node_id", yson.String(job.Node)),
		yson.Pair("start_time", wire.Instant(job.Start)),
		yson.Pair("state", yson.String(job.State)),
		yson.Pair("tree_id", yson.String(job.Tree)),
		yson.Pair("task_name", yson.String(job.TaskName)),
		yson.Pair("resource_usage", wire.AmountsNode(job.Usage)),
		yson.Pair("preempted", yson.Boolean(strings.Contains(job.Stopping, "preemption"))),
		yson.Pair("preemption_reason", wire.OrEntity(job.Stopping)),
		yson.Pair("preemption_timeout", yson.Entity()))
}

// classNames are the names of the preemption classes of jobs.
var classNames = [...]string{
	scheduling.NonPreemptible: scheduling.NonPreemptible.String(), scheduling.AggressivelyPreemptible: scheduling.AggressivelyPreemptible.String(),
	scheduling.Preemptible: scheduling.Preemptible.String(),
}

// SupportedFeatures lists the features that clients check for before they use them.
func SupportedFeatures() yson.Node {
	return yson.Map(
		yson.Pair("primitive_types", wire.Texts([]string{"int64", "uint64", "double", "boolean", "string", "any", "null"})),
		yson.Pair("compression_codecs", wire.Texts([]string{"none"})),
		yson.Pair("erasure_codecs", wire.Texts([]string{"none"})),
		yson.Pair("require_password_in_authentication_commands", yson.Boolean(false)),
		yson.Pair("user_tokens_metadata", yson.Boolean(true)))
}
