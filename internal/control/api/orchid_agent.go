package api

import (
	"slices"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// newAgentOrchid is the inside of a controller agent. Controllers live in the
// scheduler, so that it is the scheduler's.
func newAgentOrchid(*call) object {
	return folder{opaque: true, list: []folderChild{
		childAt("controller_agent", func(*call) object {
			return folder{list: []folderChild{
				childValue("config", func(c *call) (yson.Node, error) { return c.documentAt("//sys/controller_agents/config") }),
				childValue("config_revision", func(c *call) (yson.Node, error) { return yson.Int64(c.server.View().Revision), nil }),
				childAt("operations", func(*call) object { return agentOperations{} }),
				childValue("job_tracker", func(*call) (yson.Node, error) { return yson.Map(), nil }),
				childAt("service", serviceFolder),
			}}
		}),
	}}
}

// agentOperations has the controllers of operations by their ids.
type agentOperations struct{ operationDirectory }

func (agentOperations) keys(c *call) ([]string, error) {
	return operationDirectory{of: func(*server.Operation) bool { return true }}.keys(c)
}

func (agentOperations) child(c *call, key string) (object, error) {
	live, there := c.liveByName(key)
	if !there {
		return nil, nil
	}
	return controllerOrchid(viewOfLive(live)), nil
}

// newNodeOrchid is the inside of a node, as far as the scheduler knows it.
func newNodeOrchid(_ *call, node *server.Node) object {
	return folder{opaque: true, list: []folderChild{
		childAt("exec_node", func(*call) object {
			return folder{list: []folderChild{
				childAt("job_controller", func(*call) object {
					return folder{list: []folderChild{childAt("active_jobs", func(c *call) object { return activeJobs(c, node) })}}
				}),
				childAt("job_resource_manager", func(*call) object {
					return folder{list: []folderChild{
						childValue("resource_limits", func(*call) (yson.Node, error) { return amountsNode(node.Limits), nil }),
						childValue("resource_usage", func(c *call) (yson.Node, error) {
							state, err := c.orchid()
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

func dugNode(n yson.Node, key string) yson.Node {
	value, _ := n.Get(key)
	return value
}

// activeJobs are the jobs that run on a node.
func activeJobs(c *call, node *server.Node) object {
	return lazyMap{
		list: func() (keys []string, _ error) {
			for _, job := range c.server.Jobs(core.NoOperation) {
				if job.Node == node.Name {
					keys = append(keys, job.ID.String())
				}
			}
			slices.Sort(keys)
			return keys, nil
		},
		get: func(key string) (object, error) {
			id, err := guid.Parse(key)
			if err != nil {
				return nil, nil // what is no id is not there
			}
			job, there := c.server.Job(id)
			if !there || job.Node != node.Name {
				return nil, nil
			}
			entries := []yson.Entry{
				yson.Pair("job_state", yson.String(job.State)), yson.Pair("job_phase", yson.String(job.State)), yson.Pair("job_type", yson.String(jobType)),
				yson.Pair("start_time", instant(job.Start)), yson.Pair("task_name", yson.String(job.TaskName)),
				yson.Pair("initial_resource_demand", amountsNode(job.Resources)), yson.Pair("base_resource_usage", amountsNode(job.Usage)),
				yson.Pair("brief_statistics", briefStatistics(job)),
			}
			if op, there := c.server.OperationByNumber(job.Operation); there {
				entries = append(entries, yson.Pair("operation_id", yson.String(op.ID.String())))
			}
			return valueNode(yson.Map(entries...)), nil
		},
	}
}
