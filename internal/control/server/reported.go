package server

import (
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
)

// NodeStatus is the state of a node as it last reported it.
type NodeStatus struct {
	// Limits is what jobs may use; nil if the node reports nothing other than its resources.
	Limits *resource.Amounts
	// Usage is what jobs hold.
	Usage resource.Amounts
	// Draining nodes accept no new jobs; with JobsDisabled the node cannot run any, and Alerts state why.
	Draining, JobsDisabled bool
	Alerts                 []string
	GPUs                   []GPU
	Images                 []CachedImage
}

// GPU is the state of one device of a node.
type GPU struct {
	ID, Model           string
	Memory, MemoryInUse int64
	Utilization         int64  // percent; negative if it is not known
	Fault               string // why it gets no jobs; empty if it works
	JobID               string // of the job that has it; empty if it is free
}

// CachedImage is a container image that a node has.
type CachedImage struct {
	Name, Digest string
	Size         int64
	LastUse      time.Time // zero if no job has used it
	Jobs         int64     // that use it now
}

// Isolation is how far a node keeps jobs apart from itself and from each other.
type Isolation struct {
	Level, RunAs string
	// Cause is why jobs are not isolated fully, Detail the machine's answer, for people.
	Cause, Detail string
}

// Statistic summarises the samples of one path of a job's statistics.
type Statistic struct {
	Path                       string
	Sum, Count, Min, Max, Last int64
}

// nodeStatusOf returns the plain form of a node's report.
func nodeStatusOf(s *nodev1.NodeStatus) NodeStatus {
	status := NodeStatus{
		Usage: nodeproto.FromAmounts(s.GetUsage()), Draining: s.GetDraining(), JobsDisabled: s.GetJobsDisabled(), Alerts: s.GetAlerts(),
	}
	if s.GetLimits() != nil {
		limits := nodeproto.FromAmounts(s.GetLimits())
		status.Limits = &limits
	}
	for _, g := range s.GetGpus() {
		status.GPUs = append(status.GPUs, GPU{
			ID: g.GetId(), Model: g.GetModel(), Memory: g.GetMemory(), MemoryInUse: g.GetMemoryInUse(),
			Utilization: g.GetUtilization(), Fault: g.GetFault(), JobID: g.GetJobId(),
		})
	}
	for _, i := range s.GetImages() {
		status.Images = append(status.Images, CachedImage{
			Name: i.GetName(), Digest: i.GetDigest(), Size: i.GetSize(), LastUse: nodeproto.FromMicros(i.GetLastUseUs()), Jobs: int64(i.GetJobs()),
		})
	}
	return status
}

// isolationOf returns the plain form of a node's isolation, nil if its agent is too old to report it.
func isolationOf(i *nodev1.Isolation) *Isolation {
	if i == nil {
		return nil
	}
	return &Isolation{Level: i.GetLevel(), RunAs: i.GetRunAs(), Cause: i.GetCause(), Detail: i.GetDetail()}
}

// reserveOf returns how the memory of a job was computed, nil if its identity does not state it.
func reserveOf(r *nodev1.MemoryReserve) *operation.Reserve {
	if r == nil {
		return nil
	}
	return &operation.Reserve{
		User: r.GetUserJob(), Proxy: r.GetJobProxy(), Footprint: r.GetFootprint(), Estimate: r.GetJobProxyEstimate(),
		UserFactor: r.GetUserJobFactor(), ProxyFactor: r.GetJobProxyFactor(),
	}
}

// reserveMessage is the inverse of reserveOf.
func reserveMessage(r *operation.Reserve) *nodev1.MemoryReserve {
	return &nodev1.MemoryReserve{
		UserJob: r.User, JobProxy: r.Proxy, Footprint: r.Footprint, JobProxyEstimate: r.Estimate,
		UserJobFactor: r.UserFactor, JobProxyFactor: r.ProxyFactor,
	}
}

// statisticsOf returns the plain form of a job's statistics.
func statisticsOf(list []*nodev1.Statistic) []Statistic {
	out := make([]Statistic, len(list))
	for i, s := range list {
		out[i] = Statistic{Path: s.GetPath(), Sum: s.GetSum(), Count: s.GetCount(), Min: s.GetMin(), Max: s.GetMax(), Last: s.GetLast()}
	}
	return out
}
