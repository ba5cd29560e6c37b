package server

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/cpumonitor"
	"github.com/weirhq/weir/internal/value/document"
)

// reserveOfStarted returns how the memory reserve of a new job was computed, nil if that is unknown.
func (t *term) reserveOfStarted(s *core.Started) *operation.Reserve {
	reserve, err := t.core.ControllerOf(s.Operation).Reserve(s.JobRef)
	if err != nil {
		t.server.log.Error("the reserve of a job is unknown", "job", s.Job, "error", err)
		return nil
	}
	return &reserve
}

// usageOf returns a job's resource usage as its node measured it, or nil if it
// did not.
func usageOf(result *nodev1.JobResult, job *Job, now time.Time) *operation.Usage {
	if len(result.GetStatistics()) == 0 {
		return nil
	}
	u := &operation.Usage{Job: uint64(job.Number), Duration: now.Sub(job.Start)}
	cpu, measured := &cpumonitor.Statistics{}, false
	into := map[string]*int64{
		"user_job/max_memory":                          &u.UserMaxMemory,
		"job_proxy/max_memory":                         &u.ProxyMaxMemory,
		"user_job/tmpfs_max_usage":                     &u.TmpfsMaxUsage,
		"user_job/cumulative_memory_mb_sec":            &u.UserMemoryTime,
		"job_proxy/cumulative_memory_mb_sec":           &u.ProxyMemoryTime,
		"job_proxy/smoothed_cpu_usage_x100":            &cpu.SmoothedUsageX100,
		"job_proxy/preemptible_cpu_x100":               &cpu.PreemptibleX100,
		"job_proxy/aggregated_smoothed_cpu_usage_x100": &cpu.AggregatedSmoothedUsageX100,
		"job_proxy/aggregated_max_cpu_usage_x100":      &cpu.AggregatedMaxUsageX100,
		"job_proxy/aggregated_preemptible_cpu_x100":    &cpu.AggregatedPreemptibleX100,
		"job_proxy/aggregated_preempted_cpu_x100":      &cpu.AggregatedPreemptedX100,
	}
	for _, s := range result.GetStatistics() {
		var volume int
		at, known := into[s.GetPath()]
		switch {
		case known:
			*at = s.GetSum()
			measured = measured || at == &cpu.SmoothedUsageX100
		case isVolume(s.GetPath(), &volume):
			for len(u.TmpfsVolumes) <= volume {
				u.TmpfsVolumes = append(u.TmpfsVolumes, 0)
			}
			u.TmpfsVolumes[volume] = s.GetMax()
		default:
			u.More = append(u.More, operation.Statistic{Path: s.GetPath(), Value: s.GetSum()})
		}
	}
	if measured {
		u.CPU = cpu
	}
	return u
}

// maxVolume limits the numbers of tmpfs volumes, which come from outside.
const maxVolume = 100

func isVolume(path string, volume *int) bool {
	n, err := fmt.Sscanf(path, "user_job/tmpfs_volumes/%d/max_size", volume)
	return err == nil && n == 1 && *volume >= 0 && *volume < maxVolume
}

// controllerProgress returns what a controller reports beside job counts:
// statistics of its jobs by path and end, and the reserves of the next ones.
func controllerProgress(c *operation.Controller) document.Value {
	progress := document.Map(document.Pair("job_statistics", statisticsTree(c.JobStatistics())))
	var reserves []document.Entry
	for i := range c.Spec().Tasks {
		r := c.NextReserve(i)
		reserves = append(reserves, document.Pair(c.Spec().Tasks[i].Name, document.Map(
			document.Pair("user_job", document.Int(r.User)), document.Pair("job_proxy", document.Int(r.Proxy)),
			document.Pair("footprint", document.Int(r.Footprint)), document.Pair("job_proxy_estimate", document.Int(r.Estimate)),
			document.Pair("user_job_factor", document.Float(r.UserFactor)), document.Pair("job_proxy_factor", document.Float(r.ProxyFactor)),
		)))
	}
	progress = progress.With("memory_reserves", document.Map(reserves...))
	if alerts := c.Alerts(); len(alerts) > 0 {
		list := make([]document.Value, len(alerts))
		for i, a := range alerts {
			list[i] = document.Map(
				document.Pair("kind", document.Text(a.Kind.String())), document.Pair("task", document.Text(a.Task)),
				document.Pair("message", document.Text(a.String())))
		}
		progress = progress.With("memory_alerts", document.List(list...))
	}
	return progress
}

// statisticsTree encodes statistics as clients know them: a tree by path
// components, then $, the end of the jobs, and their type.
func statisticsTree(rows operation.JobStatistics) document.Value {
	tree := document.Map()
	for i := range rows {
		var ends []document.Entry
		for state, s := range rows[i].ByState {
			if s.Count == 0 {
				continue
			}
			ends = append(ends, document.Pair(operation.EndState(state).String(), document.Map(document.Pair("vanilla", document.Map(
				document.Pair("count", document.Int(s.Count)), document.Pair("sum", document.Int(s.Sum)),
				document.Pair("min", document.Int(s.Min)), document.Pair("max", document.Int(s.Max)))))))
		}
		tree = withPath(tree, rows[i].Path, document.Map(document.Pair("$", document.Map(ends...))))
	}
	return tree
}

// withPath sets a value deep inside a map.
func withPath(tree document.Value, path string, value document.Value) document.Value {
	first, rest, deeper := strings.Cut(path, "/")
	if !deeper {
		return tree.With(first, value)
	}
	inner, _ := tree.Get(first)
	return tree.With(first, withPath(inner, rest, value))
}
