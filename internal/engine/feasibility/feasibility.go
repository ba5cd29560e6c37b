// Package feasibility answers one question: do the promises made to the pools
// of a tree fit a cluster? It is the analysis behind `weir check`.
//
// # What is promised
//
// Two promises hold at every moment. A strong guarantee is a constant amount. A
// burst guarantee is an amount that a burst pool gets whenever it demands it, as
// long as it has saved volume. So at every moment
//
//	Σ strong + Σ burst ≤ cluster                                          (1)
//
// The other promises hold over time. Every integral pool receives volume at the
// rate of its flow, and may save it up to k × flow (k is the capacity saturation
// period, a day by default). So on average
//
//	Σ strong + Σ flow ≤ cluster                                           (2)
//
// A relaxed pool is promised that it gets its volume "in the end, within a day".
// We read this as: a relaxed pool that always demands more gets every unit of
// volume at most k after it was credited. For a constant flow this is equivalent
// to its bucket never overflowing: at time t all volume credited before t−k has
// been spent exactly when what is saved is at most k × flow. Volume that
// overflows is lost, not late, so this is the line between a promise kept and a
// promise broken:
//
//	worst delay of relaxed pools ≤ k                                      (3)
//
// Not promised: that a relaxed pool gets k × flow in every window of length k
// (burst pools with full buckets may starve it for longer than that), and that
// a relaxed pool which stayed idle keeps what it would have saved above k × flow.
//
// # The worst case
//
// A burst pool with peak b and flow f that starts a window with a full bucket
// can take at most min(b·t, k·f + f·t) in a window of length t: the arrival
// curve of a token bucket. Strong pools take their guarantees all the time.
// Relaxed pools get what is left, at most multiplier × flow at a moment. The file
// curve.go derives the delay that follows, and shows why it is enough to look at
// the windows in which some bucket just runs empty, t = k·f/(b−f).
//
// The documents' example: production with burst 2000 and flow 1000, research
// relaxed with flow 1000, on 2000 cores. Production starts with 1000·k saved and
// takes all 2000 cores for k seconds; research has then saved 1000·k, which is
// exactly its bucket. From then on production gets its flow and research its
// own. The delay is k: it fits, and not one core could be spared.
//
// With burst 1500, flow 1000 and research 500 on 1500 cores, (1) and (2) hold
// too, but production can take all 1500 cores for 2·k seconds, and research
// loses half of what it was promised in that time. (3) refuses that.
//
// # How sure the answer is
//
// Smoothing (a pool may spend at most all it has saved in one smooth period)
// adds about one smooth period to a delay, and is left out. The delay is exact
// when all relaxed pools have one multiplier, else it is an upper bound: "fits"
// can be trusted, "does not fit" is marked as not proved if the conflicting
// pools have different multipliers. Pools with limits are judged each on its
// own: for a relaxed pool that is short both of the cluster and of an ancestor's
// limits the two delays are not combined.
//
// The answer cannot get worse when the whole cluster grows by one factor. It may
// when resources grow by different factors, because guarantees that name only
// some resources are completed in proportion to the cluster.
//
// The package is pure: a value in, a value out. It must not import any package of
// this module but resource.
package feasibility

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// Root, as a parent or a place, is the whole tree.
const Root = -1

// Cluster is the resources that can be promised.
type Cluster struct {
	// Total is what all nodes have together. Zero means the sum over Nodes.
	Total resource.Amounts
	// Nodes are needed only to place jobs.
	Nodes []NodeGroup
}

// NodeGroup is a number of equal nodes.
type NodeGroup struct {
	Name  string
	Count int64
	Each  resource.Amounts
}

// GuaranteeType is the kind of integral guarantee of a pool.
type GuaranteeType uint8

const (
	NoIntegral GuaranteeType = iota
	Burst
	Relaxed
)

// Pool has the promises made to a pool and the limits set on it.
type Pool struct {
	Name string
	// Parent is the index of the parent in the list of pools, which must be
	// smaller than the pool's own, or Root.
	Parent int
	// Strong is the strong guarantee. Absent components are completed through
	// the main resource.
	Strong resource.Partial
	// Limits are resource_limits; absent components are unlimited.
	Limits resource.Partial
	// MaxShareRatio limits the pool to this fraction of its parent's limits.
	// Zero means unset.
	MaxShareRatio float64
	// Type, Flow and Burst are the integral guarantee. Flow and Burst of a pool
	// without one are ignored: they are a quota for its children.
	Type  GuaranteeType
	Flow  resource.Amounts
	Burst resource.Amounts
	// RelaxedMultiplier overrides Options.RelaxedMultiplier; zero means unset.
	RelaxedMultiplier float64
}

// Job is a job size that should be placeable.
type Job struct {
	Name   string
	Amount resource.Amounts
}

// Options are the settings of the tree.
type Options struct {
	MainResource resource.Kind
	// SaturationPeriod is the k of the documents.
	SaturationPeriod time.Duration
	// RelaxedMultiplier caps the speed at which a relaxed pool spends, in units
	// of its flow.
	RelaxedMultiplier float64
}

// DefaultOptions returns the defaults of the documents.
func DefaultOptions() Options {
	return Options{MainResource: resource.CPU, SaturationPeriod: 24 * time.Hour, RelaxedMultiplier: 3}
}

// Verdict is the answer.
type Verdict struct {
	// OK reports whether every promise can be kept and every job can be placed:
	// no finding is Broken.
	OK bool
	// Findings are ordered: what is broken first, then warnings, then notes;
	// within that in the order of the checks.
	Findings []Finding
	// Needs is the smallest cluster of the same proportions that fits the
	// promises. Jobs are not considered.
	Needs Needs
	// Proof has the sums behind the answer, whatever it is.
	Proof Proof
	// Placements has an entry for every job in order.
	Placements []Placement
}

// Needs is a cluster size.
type Needs struct {
	// Known is false when no size helps, for instance because a pool's limits
	// are below its guarantees, or when the cluster has nothing of the main
	// resource.
	Known bool
	Main  resource.Kind
	Total resource.Amounts
}

// String returns the size in the main resource: "2000 cpu".
func (n Needs) String() string {
	if !n.Known {
		return "no cluster of these proportions is large enough"
	}
	return quantity(n.Main, n.Total[n.Main])
}

// Check analyses the promises made to pools on a cluster, and whether jobs can be
// placed on its nodes. The error, if any, lists everything that is malformed in
// the input; promises that do not fit are findings, not errors.
func Check(cluster Cluster, pools []Pool, jobs []Job, options Options) (Verdict, error) {
	if err := validate(cluster, pools, jobs, options); err != nil {
		return Verdict{}, err
	}
	var clusterFindings []Finding
	fromNodes := cluster.nodesTotal()
	if cluster.Total.IsZero() {
		cluster.Total = fromNodes
	} else if len(cluster.Nodes) > 0 && cluster.Total != fromNodes {
		clusterFindings = append(clusterFindings, totalDiffers(cluster.Total, fromNodes))
	}

	m := newModel(cluster.Total, pools, options)
	verdict := Verdict{
		Findings: append(clusterFindings, m.findings()...),
		Needs:    needs(m),
		Proof:    m.proof(),
	}
	for _, job := range jobs {
		placement := place(job, cluster.Nodes)
		verdict.Placements = append(verdict.Placements, placement)
		if finding, short := placement.finding(); short {
			verdict.Findings = append(verdict.Findings, finding)
		}
	}
	sortFindings(verdict.Findings)
	verdict.OK = !hasBroken(verdict.Findings)
	return verdict, nil
}

func (c Cluster) nodesTotal() (total resource.Amounts) {
	for _, group := range c.Nodes {
		for k, each := range group.Each {
			total[k] = saturatingAdd(total[k], saturatingTimes(group.Count, each))
		}
	}
	return total
}

func validate(cluster Cluster, pools []Pool, jobs []Job, options Options) error {
	var problems []error
	report := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	amounts := func(owner, what string, a resource.Amounts) {
		for _, k := range resource.Kinds {
			if a[k] < 0 {
				report("%s: %s of %v is negative", owner, what, k)
			} else if a[k] >= resource.Unlimited {
				report("%s: %s of %v is unlimited", owner, what, k)
			}
		}
	}
	amounts("cluster", "total", cluster.Total)
	for i, group := range cluster.Nodes {
		amounts(fmt.Sprintf("node group %d", i), "amount", group.Each)
		if group.Count < 0 {
			report("node group %d: count is negative", i)
		}
	}
	for i, pool := range pools {
		name := fmt.Sprintf("pool %q", pool.Name)
		if pool.Parent < Root || pool.Parent >= i {
			report("%s: parent %d is not an earlier pool", name, pool.Parent)
		}
		amounts(name, "strong guarantee", pool.Strong.OrZero())
		amounts(name, "flow", pool.Flow)
		amounts(name, "burst guarantee", pool.Burst)
		if !pool.Limits.OrZero().IsNonNegative() {
			report("%s: a limit is negative", name)
		}
		if !(pool.MaxShareRatio >= 0 && pool.MaxShareRatio <= 1) {
			report("%s: max_share_ratio %g is not between 0 and 1", name, pool.MaxShareRatio)
		}
		if pool.RelaxedMultiplier != 0 && !isMultiplier(pool.RelaxedMultiplier) {
			report("%s: relaxed multiplier %g is not a number of at least 1", name, pool.RelaxedMultiplier)
		}
	}
	if len(jobs) > 0 && len(cluster.Nodes) == 0 {
		report("cluster: jobs cannot be placed without nodes")
	}
	for _, job := range jobs {
		amounts(fmt.Sprintf("job %q", job.Name), "amount", job.Amount)
	}
	if options.SaturationPeriod <= 0 {
		report("options: saturation period %v is not positive", options.SaturationPeriod)
	}
	if !isMultiplier(options.RelaxedMultiplier) {
		report("options: relaxed multiplier %g is not a number of at least 1", options.RelaxedMultiplier)
	}
	if options.MainResource >= resource.KindCount {
		report("options: there is no resource %v", options.MainResource)
	}
	return errors.Join(problems...)
}

func isMultiplier(v float64) bool { return v >= 1 && !math.IsInf(v, 0) }

// needs finds the smallest amount of the main resource, in storage units, with
// which the promises fit, other resources following in proportion. It relies on
// the verdict being monotone in that amount.
func needs(m *model) Needs {
	main := m.options.MainResource
	if m.total[main] <= 0 {
		return Needs{Main: main}
	}
	fits := func(amount int64) bool {
		return !hasBroken(newModel(m.scaled(amount), m.pools, m.options).broken(true))
	}
	const largest = resource.Unlimited / 8
	low, high := int64(-1), m.total[main] // low does not fit, high does
	for !fits(high) {
		if size := m.scaled(high); slices.Max(size[:]) > largest {
			return Needs{Main: main}
		}
		low, high = high, 2*high
	}
	for high-low > 1 {
		if middle := low + (high-low)/2; fits(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return Needs{Known: true, Main: main, Total: m.scaled(high)}
}

// scaled returns the cluster of the same proportions that has amount of the
// main resource. Others are rounded up.
func (m *model) scaled(amount int64) resource.Amounts {
	main, total := m.options.MainResource, m.total
	factor := float64(amount) / float64(total[main])
	for k := range total {
		total[k] = int64(min(math.Ceil(float64(total[k])*factor), float64(resource.Unlimited/2)))
	}
	total[main] = amount
	return total
}

func saturatingAdd(a, b int64) int64 { return min(a+b, resource.Unlimited) }

func saturatingTimes(a, b int64) int64 {
	if a != 0 && b > resource.Unlimited/a {
		return resource.Unlimited
	}
	return a * b
}
