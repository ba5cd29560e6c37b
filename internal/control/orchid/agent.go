package orchid

import (
	"slices"

	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

// newAgentOrchid is the orchid of a controller agent. Controllers run in the scheduler, so it shows
// the scheduler's state.
func newAgentOrchid(*pathtree.Request) pathtree.Object {
	return folder{opaque: true, list: []folderChild{
		childAt("controller_agent", func(*pathtree.Request) pathtree.Object {
			return folder{list: []folderChild{
				childValue("config", func(c *pathtree.Request) (yson.Node, error) { return documentAt(c, "//sys/controller_agents/config") }),
				childValue("config_revision", func(c *pathtree.Request) (yson.Node, error) { return yson.Int64(c.Server.View().Revision), nil }),
				childAt("operations", func(*pathtree.Request) pathtree.Object { return agentOperations{} }),
				childValue("job_tracker", func(*pathtree.Request) (yson.Node, error) { return yson.Map(), nil }),
				childAt("service", serviceFolder),
			}}
		}),
	}}
}

// agentOperations has the operations' controllers by id.
type agentOperations struct{ operationDirectory }

func (agentOperations) Keys(c *pathtree.Request) ([]string, error) {
	return operationDirectory{of: func(*server.Operation) bool { return true }}.Keys(c)
}

func (agentOperations) Child(c *pathtree.Request, key string) (pathtree.Object, error) {
	live, there := liveByName(c, key)
	if !there {
		return nil, nil
	}
	return controllerOrchid(ViewOfLive(live)), nil
}

// newNodeOrchid is the orchid of a node, as far as the scheduler knows its state.
func newNodeOrchid(_ *pathtree.Request, node *server.Node) pathtree.Object {
	return folder{opaque: true, list: []folderChild{
		childAt("exec_node", func(*pathtree.Request) pathtree.Object {
			return folder{list: []folderChild{
				childAt("job_controller", func(*pathtree.Request) pathtree.Object {
					return folder{list: []folderChild{childAt("active_jobs", func(c *pathtree.Request) pathtree.Object { return activeJobs(c, node) })}}
				}),
				childAt("job_resource_manager", func(*pathtree.Request) pathtree.Object {
					return folder{list: []folderChild{
						childValue("resource_limits", func(*pathtree.Request) (yson.Node, error) { return wire.AmountsNode(usableLimits(node)), nil }),
						childValue("resource_usage", func(c *pathtree.Request) (yson.Node, error) {
							state, err := Current(c)
							if err != nil {
								return yson.Node{}, err
							}
							return dugNode(nodeInfoNode(state, node), "resource_usage"), nil
						}),
					}}
				}),
			}}
		}),
	}}
}

// usableLimits are the resources of a node for jobs. A node that gets no new jobs has no slots.
func usableLimits(node *server.Node) resource.Amounts {
	limits := node.Limits
	if node.TakesNoJobs() || node.Status.JobsDisabled {
		limits[resource.UserSlots] = 0
	}
	return limits
}

func dugNode(n yson.Node, key string) yson.Node {
	value, _ := n.Get(key)
	return value
}

// activeJobs are the jobs running on a node.
func activeJobs(c *pathtree.Request, node *server.Node) pathtree.Object {
	return pathtree.LazyMap{
		List: func() (keys []string, _ error) {
			for _, job := range c.Server.Jobs(core.NoOperation) {
				if job.Node == node.Name {
					keys = append(keys, job.ID.String())
				}
			}
			slices.Sort(keys)
			return keys, nil
		},
		Get: func(key string) (pathtree.Object, error) {
			id, err := guid.Parse(key)
			if err != nil {
				return nil, nil // a name that is no id matches nothing
			}
			job, there := c.Server.Job(id)
			if !there || job.Node != node.Name {
				return nil, nil
			}
			entries := []yson.Entry{
				yson.Pair("job_state", yson.String(job.State)), yson.Pair("job_phase", yson.String(job.State)), yson.Pair("job_type", yson.String(JobType)),
				yson.Pair("start_time", wire.Instant(job.Start)), yson.Pair("task_name", yson.String(job.TaskName)),
				yson.Pair("initial_resource_demand", wire.AmountsNode(job.Resources)), yson.Pair("base_resource_usage", wire.AmountsNode(job.Usage)),
				yson.Pair("brief_statistics", briefStatistics(job)), yson.Pair("statistics", statisticsNode(job.Statistics)),
			}
			if op, there := c.Server.OperationByNumber(job.Operation); there {
				entries = append(entries, yson.Pair("operation_id", yson.String(op.ID.String())))
			}
			return pathtree.ValueNode(yson.Map(entries...)), nil
		},
	}
}
