package feasibility

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// Code names what was found.
type Code string

// What is broken.
const (
	// ResourceMissing: a pool is promised a resource that the cluster lacks.
	ResourceMissing Code = "resource_missing"
	// StrongOverParent: children are promised more than their parent.
	StrongOverParent Code = "strong_over_parent"
	// StrongOverCluster: strong guarantees exceed the cluster.
	StrongOverCluster Code = "strong_over_cluster"
	// FlowOverCluster: strong guarantees and flows exceed the cluster.
	FlowOverCluster Code = "flow_over_cluster"
	// BurstOverCluster: strong and burst guarantees exceed the cluster.
	BurstOverCluster Code = "burst_over_cluster"
	// LimitsBelowStrong: limits of a pool are below its strong guarantee. A
	// warning where the component of the guarantee is completed, not written.
	LimitsBelowStrong Code = "limits_below_strong"
	// LimitsBelowFlow: limits of a pool are below its strong guarantee and the
	// flows in it.
	LimitsBelowFlow Code = "limits_below_flow"
	// LimitsBelowBurst: limits of a pool are below its strong guarantee and the
	// burst guarantees in it.
	LimitsBelowBurst Code = "limits_below_burst"
	// RelaxedVolumeLost: averages fit, but while burst pools spend what they
	// saved, relaxed pools wait longer than k and lose volume.
	RelaxedVolumeLost Code = "relaxed_volume_lost"
	// RelaxedNeverCatchesUp: averages fit, but the cap on the speed of relaxed
	// pools is too low to make up for the times when burst pools spend.
	RelaxedNeverCatchesUp Code = "relaxed_never_catches_up"
	// JobTooLarge: no node can hold the job.
	JobTooLarge Code = "job_too_large"
)

// Warnings and notes.
const (
	// BurstBelowFlow: a burst pool receives volume faster than it may spend it.
	BurstBelowFlow Code = "burst_below_flow"
	// TotalDiffersFromNodes: the stated total is not the sum over nodes.
	TotalDiffersFromNodes Code = "total_differs_from_nodes"
	// MultiplierOverLimits: limits keep a relaxed pool below multiplier × flow.
	MultiplierOverLimits Code = "multiplier_over_limits"
	// MultiplierOverCluster: multiplier × flow of a relaxed pool is more than
	// the cluster has, so the cap never binds.
	MultiplierOverCluster Code = "multiplier_over_cluster"
)

// Severity is what a finding means for the verdict.
type Severity uint8

const (
	// Broken findings are promises that cannot be kept.
	Broken Severity = iota
	// Warning findings are probably mistakes.
	Warning
	// Note findings are worth knowing.
	Note
)

// String returns the severity in lower case.
func (s Severity) String() string {
	return [...]string{"broken", "warning", "note"}[min(s, Note)]
}

// Finding is one thing that was found, with its figures.
type Finding struct {
	Code     Code
	Severity Severity
	// Pool is where it happens: the parent, or the pool with the limits. Empty
	// means the cluster.
	Pool string
	// Job is the job that does not fit.
	Job string
	// Resource is the resource that is short; if several are, the one that is
	// short by the largest factor. Others are the rest.
	Resource resource.Kind
	Others   []resource.Kind
	// Required and Available are amounts of Resource in storage units: what
	// would be enough for all pools, and what there is. For a job they are what
	// it needs and what the largest node has.
	Required  int64
	Available int64
	// Conflict is the set of pools that conflict even without the others. If
	// Smallest is set, no set with fewer pools conflicts; otherwise no pool can
	// be removed from it.
	Conflict []Claim
	Smallest bool
	// ConflictRequired is what would be enough for the pools in the conflict
	// alone; it is above Available too.
	ConflictRequired int64
	// Starvation has figures about relaxed pools, for findings about them.
	Starvation *Starvation
}

// Claim is what one pool in a conflict is promised, in storage units of the
// finding's resource.
type Claim struct {
	Pool   string
	Strong int64
	Flow   int64
	Burst  int64
}

// Pools returns the names of the pools in the conflict.
func (f Finding) Pools() []string {
	names := make([]string, len(f.Conflict))
	for i, c := range f.Conflict {
		names[i] = c.Pool
	}
	return names
}

// quantity writes an amount with the name of its resource: "2000 cpu".
func quantity(k resource.Kind, v int64) string {
	return resource.FormatAmount(k, v) + " " + k.String()
}

// String returns the finding as one line of English.
func (f Finding) String() string {
	required, available := quantity(f.Resource, f.Required), quantity(f.Resource, f.Available)
	var text string
	switch f.Code {
	case ResourceMissing:
		return fmt.Sprintf("pool %s is promised %s, but the cluster has none", f.Pool, required)
	case StrongOverParent:
		text = fmt.Sprintf("children of pool %s are guaranteed %s, the pool itself %s", f.Pool, required, available)
	case StrongOverCluster:
		text = fmt.Sprintf("strong guarantees need %s, the cluster has %s", required, available)
	case FlowOverCluster:
		text = fmt.Sprintf("strong guarantees and flows need %s, the cluster has %s", required, available)
	case BurstOverCluster:
		text = fmt.Sprintf("strong and burst guarantees need %s, the cluster has %s", required, available)
	case LimitsBelowStrong:
		return fmt.Sprintf("the strong guarantee of pool %s is %s, its limits are %s", f.Pool, required, available)
	case LimitsBelowFlow:
		text = fmt.Sprintf("the strong guarantee and flows in pool %s need %s, its limits are %s", f.Pool, required, available)
	case LimitsBelowBurst:
		text = fmt.Sprintf("strong and burst guarantees in pool %s need %s, its limits are %s", f.Pool, required, available)
	case RelaxedVolumeLost, RelaxedNeverCatchesUp:
		text = f.describeStarvation(required, available)
	case JobTooLarge:
		return f.describeJob(required, available)
	case BurstBelowFlow:
		return fmt.Sprintf("burst pool %s receives %s but may spend only %s at a moment", f.Pool, required, available)
	case TotalDiffersFromNodes:
		return fmt.Sprintf("the cluster is said to have %s, its nodes have %s", required, available)
	case MultiplierOverLimits:
		return fmt.Sprintf("relaxed pool %s may spend up to %s at a moment, but limits leave it %s", f.Pool, required, available)
	case MultiplierOverCluster:
		return fmt.Sprintf("relaxed pool %s may spend up to %s at a moment, more than the cluster's %s", f.Pool, required, available)
	default:
		return string(f.Code)
	}
	return text + f.describeConflict()
}

func (f Finding) describeStarvation(required, available string) string {
	where := "the cluster"
	if f.Pool != "" {
		where = "pool " + f.Pool
	}
	s := f.Starvation
	if f.Code == RelaxedNeverCatchesUp {
		return fmt.Sprintf("averages fit %s, but relaxed pools may spend only %.3g × flow at a moment and never catch up with what burst pools take from them; %s would be enough, there is %s",
			where, s.Multiplier, required, available)
	}
	return fmt.Sprintf("averages fit %s, but when burst pools spend what they saved, relaxed pools wait %v for volume that they can keep for %v, and lose %s; %s would be enough, there is %s",
		where, s.Delay.Round(time.Second), s.Period, resource.FormatVolume(s.Resource, s.Backlog-s.Capacity), required, available)
}

func (f Finding) describeJob(required, available string) string {
	if f.Required <= f.Available {
		return fmt.Sprintf("job %s fits no node: no single node has enough of every resource", f.Job)
	}
	return fmt.Sprintf("job %s needs %s, the largest node has %s", f.Job, required, available)
}

func (f Finding) describeConflict() string {
	if len(f.Conflict) == 0 {
		return ""
	}
	parts := make([]string, len(f.Conflict))
	for i, c := range f.Conflict {
		var claims []string
		for _, part := range []struct {
			name   string
			amount int64
		}{{"strong", c.Strong}, {"burst", c.Burst}, {"flow", c.Flow}} {
			if part.amount != 0 {
				claims = append(claims, part.name+" "+resource.FormatAmount(f.Resource, part.amount))
			}
		}
		parts[i] = fmt.Sprintf("%s (%s)", c.Pool, strings.Join(claims, ", "))
	}
	return "; in conflict: " + strings.Join(parts, ", ")
}

func sortFindings(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int { return cmp.Compare(a.Severity, b.Severity) })
}

func hasBroken(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Broken })
}

func totalDiffers(total, nodes resource.Amounts) Finding {
	for _, k := range resource.Kinds {
		if total[k] != nodes[k] {
			return Finding{Code: TotalDiffersFromNodes, Severity: Warning, Resource: k, Required: total[k], Available: nodes[k]}
		}
	}
	return Finding{Code: TotalDiffersFromNodes, Severity: Warning}
}
