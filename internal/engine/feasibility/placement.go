package feasibility

import "github.com/weirhq/weir/internal/value/resource"

// Placement is whether and how often a job fits on the nodes of a cluster.
type Placement struct {
	Job string
	// Fits reports whether some node can hold one.
	Fits bool
	// Count is how many the empty cluster can hold at most:
	// resource.Unlimited for a job that needs nothing.
	Count int64
	// Groups has the number for one node of each group, in their order.
	Groups []int64

	need    resource.Amounts
	largest resource.Amounts // the most of each resource on any node
}

// place fills every node on its own: jobs cannot be split, so the largest
// number on a cluster is the sum over nodes.
func place(job Job, nodes []NodeGroup) Placement {
	p := Placement{Job: job.Name, need: job.Amount}
	for _, group := range nodes {
		if group.Count == 0 {
			p.Groups = append(p.Groups, 0)
			continue
		}
		each := resource.Unlimited
		for k, need := range job.Amount {
			if need > 0 {
				each = min(each, group.Each[k]/need)
			}
		}
		p.Groups = append(p.Groups, each)
		p.Count = saturatingAdd(p.Count, saturatingTimes(group.Count, each))
		p.largest = p.largest.Max(group.Each)
	}
	p.Fits = p.Count > 0
	return p
}

// finding reports a job that fits no node. Its resource is the one of which the
// largest node is short by the largest factor; if there is none, no node has
// enough of all resources at once.
func (p Placement) finding() (Finding, bool) {
	if p.Fits {
		return Finding{}, false
	}
	f := Finding{Code: JobTooLarge, Severity: Broken, Job: p.Job}
	worst := 0.0
	for _, k := range resource.Kinds {
		if p.need[k] <= p.largest[k] {
			continue
		}
		factor := float64(p.need[k]) / max(float64(p.largest[k]), 0.5)
		if factor > worst {
			if worst > 0 {
				f.Others = append(f.Others, f.Resource)
			}
			worst = factor
			f.Resource, f.Required, f.Available = k, p.need[k], p.largest[k]
		} else {
			f.Others = append(f.Others, k)
		}
	}
	return f, true
}
