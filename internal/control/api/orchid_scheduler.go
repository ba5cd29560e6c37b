package api

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

// orchidPath is where the scheduler shows its inside. It is no stable interface.
const orchidPath = "//sys/scheduler/orchid"

// liveState is the part of the tree of paths that shows what the scheduler does now.
func liveState() Live {
	return Live{
		Mounts: []Mount{
			{operationsPath, func(*call) object { return operationsNode{} }},
			{orchidPath, newSchedulerOrchid},
		},
		Scheduler: newSchedulerOrchid, Agent: newAgentOrchid, Node: newNodeOrchid,
	}
}

func newSchedulerOrchid(*call) object {
	return folder{opaque: true, list: []folderChild{
		childAt("scheduler", func(*call) object { return schedulerFolder() }),
		childAt("service", serviceFolder),
	}}
}

func schedulerFolder() object {
	return folder{list: []folderChild{
		{"pool_trees", treesOrchid(treeOrchid)},
		{"scheduling_info_per_pool_tree", treesOrchid(oldTreeOrchid)},
		childValue("default_pool_tree", func(c *call) (yson.Node, error) { return orEntity(c.server.Trees().Default), nil }),
		childAt("operations", orchidOperations),
		childAt("nodes", orchidNodes),
		childValue("cluster", orchidCluster),
		childAt("allocations", orchidAllocations),
		childValue("config", orchidConfig),
		childValue("config_revision", func(c *call) (yson.Node, error) { return yson.Int64(c.server.View().Revision), nil }),
		childValue("user_to_default_pool", func(c *call) (yson.Node, error) { return c.documentAt("//sys/scheduler/user_to_default_pool") }),
		childAt("service", serviceFolder),
		childValue("alerts", func(c *call) (yson.Node, error) { return schedulerAlerts(c.server), nil }),
		childAt("controller_agents", func(c *call) object {
			return folder{list: []folderChild{childValue(c.server.Address(), func(c *call) (yson.Node, error) {
				return yson.Map(yson.Pair("state", yson.String("registered")), yson.Pair("tags", texts([]string{"default"}))), nil
			})}}
		}),
		childValue("suspicious_jobs", func(*call) (yson.Node, error) { return yson.Map(), nil }),
		childValue("supported_features", func(*call) (yson.Node, error) { return supportedFeatures(), nil }),
	}}
}

func serviceFolder(*call) object {
	return folder{list: []folderChild{
		childValue("connected", func(c *call) (yson.Node, error) { return yson.Boolean(c.server.Leading()), nil }),
		childValue("last_connection_time", func(c *call) (yson.Node, error) { return instant(c.tree.started), nil }),
		childValue("build_version", func(c *call) (yson.Node, error) { return yson.String(c.tree.options.Version), nil }),
		childValue("version", func(c *call) (yson.Node, error) { return yson.String(c.tree.options.Version), nil }),
		childValue("hostname", func(c *call) (yson.Node, error) { return yson.String(c.server.Address()), nil }),
		childValue("epoch", func(c *call) (yson.Node, error) { return yson.Uint64(c.server.View().Epoch), nil }),
		childValue("reviving", func(c *call) (yson.Node, error) { return yson.Boolean(c.server.View().Reviving), nil }),
	}}
}

// schedulerAlerts are what people should know, as errors.
func schedulerAlerts(s *server.Server) yson.Node {
	var items []yson.Node
	for _, alert := range s.Alerts() {
		items = append(items, alertNode(alert))
	}
	return yson.List(items...)
}

// documentAt reads a document of the tree; what is not there is an empty map.
func (c *call) documentAt(path string) (yson.Node, error) {
	p, err := parsePathText(path)
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.walk(p, false)
	if err != nil || len(t.missing) > 0 {
		return yson.Map(), err
	}
	n, err := t.value(c)
	if n.IsEntity() {
		n = yson.Map()
	}
	return n, err
}

// orchidConfig is the configuration that holds: the settings of the server, and
// over them what was set in the tree of paths.
func orchidConfig(c *call) (yson.Node, error) {
	s := c.server.Settings()
	base := yson.Map(
		yson.Pair("fair_share_update_period", milliseconds(s.UpdatePeriod)),
		yson.Pair("snapshot_period", milliseconds(s.SnapshotPeriod)),
		yson.Pair("operations_update_period", milliseconds(s.ProgressPeriod)),
		yson.Pair("node_heartbeat_period", milliseconds(s.HeartbeatPeriod)),
		yson.Pair("node_heartbeat_timeout", milliseconds(s.Core.NodeTimeout)),
		yson.Pair("mutation_ttl", milliseconds(s.MutationTTL)),
		yson.Pair("max_operation_count", yson.Int64(int64(s.Core.MaxOperations))),
		yson.Pair("waiting_for_resources_on_node_timeout", milliseconds(s.Core.WaitTimeout)),
		yson.Pair("lease_ttl", milliseconds(s.LeaseTTL)))
	own, err := c.documentAt("//sys/scheduler/config")
	if err != nil {
		return base, err
	}
	return merge(base, own), nil
}

// orchidOperations has the operations that have not ended, by id.
func orchidOperations(*call) object {
	return operationDirectory{of: func(*server.Operation) bool { return true }}
}

// operationDirectory is a directory of operations that have not ended.
type operationDirectory struct {
	bare
	of func(*server.Operation) bool
}

func (operationDirectory) kind() string { return "map_node" }

// shape keeps whoever reads something above from getting all operations.
func (operationDirectory) shape() shape { return opaqueShape }

func (d operationDirectory) keys(c *call) ([]string, error) {
	var keys []string
	for _, o := range c.server.Operations() {
		if d.of(o) {
			keys = append(keys, o.ID.String())
		}
	}
	slices.Sort(keys)
	return keys, nil
}

func (d operationDirectory) child(c *call, key string) (object, error) {
	live, there := c.liveByName(key)
	if !there || !d.of(live) {
		return nil, nil
	}
	return computed{get: func() (yson.Node, error) {
		entries, err := viewOfLive(live).describe(c, nil, false)
		return yson.Map(append(entries, yson.Pair("agent_id", yson.String(c.server.Address())))...), err
	}}, nil
}

// orchidNodes has the nodes as the scheduler sees them.
func orchidNodes(c *call) object {
	return lazyMap{
		list: func() (keys []string, _ error) {
			for _, n := range c.server.Nodes() {
				keys = append(keys, n.Name)
			}
			slices.Sort(keys)
			return keys, nil
		},
		get: func(key string) (object, error) {
			node, there := c.server.Node(key)
			if !there {
				return nil, nil
			}
			state, err := c.orchid()
			if err != nil {
				return nil, err
			}
			return valueNode(nodeInfoNode(state, node)), nil
		},
	}
}

// nodeInfoNode writes a node as the scheduler sees it.
func nodeInfoNode(state *orchidState, node *server.Node) yson.Node {
	online := "offline"
	if node.Online {
		online = "online"
	}
	var info core.NodeInfo
	if at, there := state.nodes[node.Name]; there {
		info = state.snapshot.Nodes[at]
	}
	jobs := 0
	for _, n := range info.Jobs {
		jobs += n
	}
	return yson.Map(
		yson.Pair("scheduler_state", yson.String(online)),
		yson.Pair("master_state", yson.String(online)),
		yson.Pair("state", yson.String(online)),
		yson.Pair("resource_limits", amountsNode(node.Limits)),
		yson.Pair("resource_usage", amountsNode(info.Usage)),
		yson.Pair("disk_resources", yson.Map()),
		yson.Pair("tags", texts(node.Tags)),
		yson.Pair("data_center", yson.Entity()),
		yson.Pair("tree", orEntity(node.Tree)),
		yson.Pair("scheduling_segment", yson.String("default")),
		yson.Pair("running_job_count", yson.Int64(int64(jobs))),
		yson.Pair("running_job_statistics", runningJobStatistics(&info)),
		yson.Pair("last_preemptive_heartbeat_time", instant(info.PreemptedAt)),
		yson.Pair("overcommitted_since", instant(info.Overcommitted)),
		yson.Pair("last_seen_time", instant(node.LastSeen)),
		yson.Pair("banned", yson.Boolean(node.Banned)),
		yson.Pair("jobs_disabled", yson.Boolean(node.TakesNoJobs())),
		yson.Pair("registration_error", orEntity(node.RegistrationError)))
}

// runningJobStatistics is what jobs of a node hold, by how easily it is taken from
// them.
func runningJobStatistics(info *core.NodeInfo) yson.Node {
	var entries []yson.Entry
	for class := range info.ClassUsage {
		name := classNames[class]
		entries = append(entries,
			yson.Pair(name+"_job_count", yson.Int64(int64(info.Jobs[class]))),
			yson.Pair(name+"_resource_usage", amountsNode(info.ClassUsage[class])))
	}
	return yson.Map(append(entries, yson.Pair("preempted_job_count", yson.Int64(int64(info.Preempted))))...)
}

// orchidCluster is all trees together.
func orchidCluster(c *call) (yson.Node, error) {
	state, err := c.orchid()
	if err != nil {
		return yson.Node{}, err
	}
	var limits, usage resource.Amounts
	for _, t := range state.trees {
		limits, usage = limits.Add(t.info.Limits), usage.Add(t.info.Usage)
	}
	online, all := 0, 0
	for _, n := range c.server.Nodes() {
		all++
		if n.Online {
			online++
		}
	}
	return yson.Map(
		yson.Pair("resource_limits", amountsNode(limits)),
		yson.Pair("resource_usage", amountsNode(usage)),
		yson.Pair("exec_node_count", yson.Int64(int64(online))),
		yson.Pair("total_node_count", yson.Int64(int64(all)))), nil
}

// orchidAllocations has the running jobs under the names of their allocations.
func orchidAllocations(c *call) object {
	return lazyMap{
		opaque: true,
		list: func() (keys []string, _ error) {
			jobs := c.server.Jobs(core.NoOperation)
			slices.SortFunc(jobs, func(a, b *server.Job) int { return cmp.Compare(a.Number, b.Number) })
			for _, job := range jobs {
				keys = append(keys, allocationOf(job.ID).String())
			}
			return keys, nil
		},
		get: func(key string) (object, error) {
			id, err := guid.Parse(key)
			if err != nil {
				return nil, nil // what is no id is not there
			}
			id[3] = id[3]&0xffffff | 1<<24
			job, there := c.server.Job(id)
			if !there {
				return nil, nil
			}
			return valueNode(allocationNode(c.server, job)), nil
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
		yson.Pair("start_time", instant(job.Start)),
		yson.Pair("state", yson.String(job.State)),
		yson.Pair("tree_id", yson.String(job.Tree)),
		yson.Pair("task_name", yson.String(job.TaskName)),
		yson.Pair("resource_usage", amountsNode(job.Usage)),
		yson.Pair("preempted", yson.Boolean(strings.Contains(job.Stopping, "preemption"))),
		yson.Pair("preemption_reason", orEntity(job.Stopping)),
		yson.Pair("preemption_timeout", yson.Entity()))
}

// classNames are the names of how easily jobs are preempted, by class.
var classNames = [...]string{
	scheduling.NonPreemptible: scheduling.NonPreemptible.String(), scheduling.AggressivelyPreemptible: scheduling.AggressivelyPreemptible.String(),
	scheduling.Preemptible: scheduling.Preemptible.String(),
}

// supportedFeatures tells what clients ask about before they use it.
func supportedFeatures() yson.Node {
	return yson.Map(
		yson.Pair("primitive_types", texts([]string{"int64", "uint64", "double", "boolean", "string", "any", "null"})),
		yson.Pair("compression_codecs", texts([]string{"none"})),
		yson.Pair("erasure_codecs", texts([]string{"none"})),
		yson.Pair("require_password_in_authentication_commands", yson.Boolean(false)),
		yson.Pair("user_tokens_metadata", yson.Boolean(true)))
}
