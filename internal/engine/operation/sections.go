package operation

import (
	"math"
	"time"

	"github.com/weirhq/weir/internal/value/cpumonitor"
	"github.com/weirhq/weir/internal/value/document"
)

// CPUMonitor is the section job_cpu_monitor: how the CPU limit of a running
// job follows its usage.
type CPUMonitor struct {
	EnableReclaim         document.Optional[bool]
	CheckPeriod           document.Optional[time.Duration]
	StartDelay            document.Optional[time.Duration]
	SmoothingFactor       document.Optional[float64]
	RelativeUpperBound    document.Optional[float64]
	RelativeLowerBound    document.Optional[float64]
	IncreaseCoefficient   document.Optional[float64]
	DecreaseCoefficient   document.Optional[float64]
	VoteWindowSize        document.Optional[int]
	VoteDecisionThreshold document.Optional[int]
	MinCPULimit           document.Optional[float64]

	unrecognized document.Extras
}

var cpuMonitorTable = document.NewTable(
	document.Maybe("enable_cpu_reclaim", "Whether to apply the computed limit. If false, it is only computed and shown.",
		func(c *CPUMonitor) *opt[bool] { return &c.EnableReclaim }, switched.Default(false)),
	document.Maybe("check_period", "How often the CPU time of a job is measured.",
		func(c *CPUMonitor) *opt[time.Duration] { return &c.CheckPeriod },
		document.Above(document.Durations, 0).Default(time.Second)),
	document.Maybe("start_delay", "How long after the job's start the first measurement is taken.",
		func(c *CPUMonitor) *opt[time.Duration] { return &c.StartDelay }, document.Durations.Default(0)),
	document.Maybe("smoothing_factor", "Weight of the newest measurement in the smoothed usage.",
		func(c *CPUMonitor) *opt[float64] { return &c.SmoothingFactor }, ratio.Default(0.1)),
	document.Maybe("relative_upper_bound", "Usage above this fraction of the limit is a vote to increase it.",
		func(c *CPUMonitor) *opt[float64] { return &c.RelativeUpperBound }, ratio.Default(0.9)),
	document.Maybe("relative_lower_bound", "Usage below this fraction of the limit is a vote to decrease it. Must not exceed relative_upper_bound.",
		func(c *CPUMonitor) *opt[float64] { return &c.RelativeLowerBound }, ratio.Default(0.6)),
	document.Maybe("increase_coefficient", "The factor by which the votes increase the limit.",
		func(c *CPUMonitor) *opt[float64] { return &c.IncreaseCoefficient },
		document.Between(document.Numbers, 1, 2).Default(1.45)),
	document.Maybe("decrease_coefficient", "The factor by which the votes decrease the limit.",
		func(c *CPUMonitor) *opt[float64] { return &c.DecreaseCoefficient }, ratio.Default(0.97)),
	document.Maybe("vote_window_size", "How many recent votes are counted.",
		func(c *CPUMonitor) *opt[int] { return &c.VoteWindowSize }, document.AtLeast(document.Ints, 1).Default(5)),
	document.Maybe("vote_decision_threshold", "The limit changes when the sum of the votes is beyond this, up or down.",
		func(c *CPUMonitor) *opt[int] { return &c.VoteDecisionThreshold }, document.AtLeast(document.Ints, 1).Default(3)).
		Alias("votes_decision_threshold"),
	document.Maybe("min_cpu_limit", "The lowest limit.",
		func(c *CPUMonitor) *opt[float64] { return &c.MinCPULimit }, ratio.Default(1)),
).KeepingUnknown(func(c *CPUMonitor) *document.Extras { return &c.unrecognized })

// Options returns the section, with every default filled in, for the monitor
// of a job.
func (c *CPUMonitor) Options() cpumonitor.Options {
	return cpumonitor.Options{
		EnableReclaim: c.EnableReclaim.Value(), CheckPeriod: c.CheckPeriod.Value(), StartDelay: c.StartDelay.Value(),
		SmoothingFactor:    c.SmoothingFactor.Value(),
		RelativeUpperBound: c.RelativeUpperBound.Value(), RelativeLowerBound: c.RelativeLowerBound.Value(),
		IncreaseCoefficient: c.IncreaseCoefficient.Value(), DecreaseCoefficient: c.DecreaseCoefficient.Value(),
		VoteWindowSize: c.VoteWindowSize.Value(), VoteDecisionThreshold: c.VoteDecisionThreshold.Value(),
		MinCPULimit: c.MinCPULimit.Value(),
	}
}

// check applies the rules between the options of the section.
func (c *CPUMonitor) check(r *document.Reader, v document.Value) {
	filled := *c
	cpuMonitorTable.FillDefaults(&filled)
	if filled.RelativeLowerBound.Value() > filled.RelativeUpperBound.Value() {
		refuseOption(r, cpuMonitorTable, v, "relative_lower_bound", RuleBoundOrder, "must not be above relative_upper_bound",
			document.Pair("relative_lower_bound", document.Float(filled.RelativeLowerBound.Value())),
			document.Pair("relative_upper_bound", document.Float(filled.RelativeUpperBound.Value())))
	}
	if filled.VoteDecisionThreshold.Value() >= filled.VoteWindowSize.Value() {
		warnOption(r, cpuMonitorTable, v, "vote_decision_threshold", RuleIneffective,
			"the sum of vote_window_size votes never exceeds it, so the limit will never change")
	}
}

// Digest bounds the factors that a memory digest may choose.
type Digest struct {
	LowerBound        document.Optional[float64]
	UpperBound        document.Optional[float64]
	DefaultValue      document.Optional[float64]
	RelativePrecision document.Optional[float64]

	unrecognized document.Extras
}

// maxDigestBuckets bounds the memory of a digest.
const maxDigestBuckets = 1000

var digestTable = document.NewTable(
	document.Maybe("lower_bound", "The smallest factor.",
		func(c *Digest) *opt[float64] { return &c.LowerBound }, document.Above(document.Numbers, 0).Default(0.5)),
	document.Maybe("upper_bound", "The largest factor.",
		func(c *Digest) *opt[float64] { return &c.UpperBound }, document.Above(document.Numbers, 0).Default(2)),
	document.Maybe("default_value", "The initial factor, within the bounds.",
		func(c *Digest) *opt[float64] { return &c.DefaultValue }, document.Above(document.Numbers, 0).Default(1)),
	document.Maybe("relative_precision", "Relative error of the digest. A smaller one takes more memory.",
		func(c *Digest) *opt[float64] { return &c.RelativePrecision }, factor.Default(0.01)),
).KeepingUnknown(func(c *Digest) *document.Extras { return &c.unrecognized })

// check applies the rules between the options of the section.
func (c *Digest) check(r *document.Reader, v document.Value) {
	filled := *c
	digestTable.FillDefaults(&filled)
	lower, value, upper := filled.LowerBound.Value(), filled.DefaultValue.Value(), filled.UpperBound.Value()
	facts := []document.Entry{
		document.Pair("lower_bound", document.Float(lower)), document.Pair("default_value", document.Float(value)),
		document.Pair("upper_bound", document.Float(upper)),
	}
	if !(lower <= value && value <= upper) {
		r.Refuse(v.Position(), RuleBoundOrder, "must have lower_bound ≤ default_value ≤ upper_bound", facts...)
		return
	}
	if buckets := math.Log(upper/lower) / math.Log1p(filled.RelativePrecision.Value()); buckets > maxDigestBuckets {
		r.Refuse(v.Position(), document.RuleOutOfRange,
			"the bounds are too far apart for relative_precision; the digest would have more than 1000 buckets", facts...)
	}
}

// MemoryOptions control how the memory reserve of a job is chosen. They are
// set on a task, or at the root of the specification for all tasks.
type MemoryOptions struct {
	DigestDefaultValue       document.Optional[float64]
	DigestLowerBound         document.Optional[float64]
	ReserveFactor            document.Optional[float64]
	IgnoreFactorBelowOne     document.Optional[bool]
	OverdraftMultiplier      document.Optional[float64]
	ProxyOverdraftMultiplier document.Optional[float64]
	ProxyDigest              Digest
	ProxyOvercommitLimit     document.Optional[int64]
}

var memoryOptions = []document.Option[MemoryOptions]{
	document.Maybe("user_job_memory_digest_default_value", "The fraction of memory_limit to reserve before any job's usage is known.",
		func(c *MemoryOptions) *opt[float64] { return &c.DigestDefaultValue }, factor.Default(0.5)),
	document.Maybe("user_job_memory_digest_lower_bound", "The smallest reserve, as a fraction of memory_limit.",
		func(c *MemoryOptions) *opt[float64] { return &c.DigestLowerBound }, factor.Default(0.05)),
	document.Maybe("memory_reserve_factor", "Sets user_job_memory_digest_default_value and user_job_memory_digest_lower_bound at once.",
		func(c *MemoryOptions) *opt[float64] { return &c.ReserveFactor }, factor),
	document.Maybe("ignore_memory_reserve_factor_less_than_one", "Ignore a memory_reserve_factor other than 1.",
		func(c *MemoryOptions) *opt[bool] { return &c.IgnoreFactorBelowOne }, switched.Default(false)),
	document.Maybe("user_job_resource_overdraft_memory_multiplier", "The factor by which the reserve grows for the first retry after an overdraft. Unset: the retry reserves memory_limit.",
		func(c *MemoryOptions) *opt[float64] { return &c.OverdraftMultiplier }, multiplier).
		Alias("resource_overdraft_memory_reserve_multiplier"),
	document.Maybe("job_proxy_resource_overdraft_memory_multiplier", "The same for the job proxy.",
		func(c *MemoryOptions) *opt[float64] { return &c.ProxyOverdraftMultiplier }, multiplier),
	document.Section("job_proxy_memory_digest", "Bounds of the factor that corrects the memory estimate of the job proxy.",
		func(c *MemoryOptions) *Digest { return &c.ProxyDigest }, digestTable),
	document.Maybe("job_proxy_memory_overcommit_limit", "How far the job proxy may exceed its reserve before it exits. Unset: without limit.",
		func(c *MemoryOptions) *opt[int64] { return &c.ProxyOvercommitLimit }, memoryAmount),
}

var memoryTable = document.NewTable(memoryOptions...)

// settle replaces memory_reserve_factor by the options it is short for.
func (m *MemoryOptions) settle() {
	f, ok := m.ReserveFactor.Get()
	if ok && (f == 1 || !m.IgnoreFactorBelowOne.Value()) {
		m.DigestDefaultValue, m.DigestLowerBound = m.ReserveFactor, m.ReserveFactor
	}
}

// complete fills in unset options from the options given for all tasks, then
// from the defaults, and raises both factors to the part that tmpfs needs:
// memory in tmpfs cannot be reclaimed and must not be overcommitted.
func (m *MemoryOptions) complete(all *MemoryOptions, tmpfsPart float64) {
	m.IgnoreFactorBelowOne = m.IgnoreFactorBelowOne.OrElse(all.IgnoreFactorBelowOne)
	m.settle()
	inherited := *all
	inherited.settle()
	inherited.ReserveFactor = opt[float64]{} // it has already been applied
	memoryTable.Fill(m, &inherited)
	memoryTable.FillDefaults(m)
	lower := min(1, max(m.DigestLowerBound.Value(), tmpfsPart))
	m.DigestLowerBound = document.Some(lower)
	m.DigestDefaultValue = document.Some(min(1, max(m.DigestDefaultValue.Value(), lower)))
}

// TmpfsVolume is a file system in memory inside the sandbox of a job.
type TmpfsVolume struct {
	Path string
	Size int64
}

// DiskRequest is the section disk_request: what the files of a job may take.
type DiskRequest struct {
	Space  document.Optional[int64] // bytes
	Inodes document.Optional[int]
	// Extras holds options that are known but not supported.
	Extras document.Extras
}

var diskTable = document.NewTable(concat(
	[]document.Option[DiskRequest]{
		document.Maybe("disk_space", "Bytes in the sandbox and the temporary directory. Unset: what the node allows.",
			func(c *DiskRequest) *opt[int64] { return &c.Space }, someMemory).Alias("disk_space_limit"),
		document.Maybe("inode_count", "Files and directories. Unset: any number.",
			func(c *DiskRequest) *opt[int] { return &c.Inodes }, document.AtLeast(document.Ints, 1)).Alias("inode_limit"),
	},
	kept(func(c *DiskRequest) *document.Extras { return &c.Extras }, []unsupported{{"a node has one disk for jobs", []string{"medium_name", "account"}}}),
)...)

var tmpfsTable = document.NewTable(
	document.Plain("path", "Its path, relative to the sandbox.",
		func(c *TmpfsVolume) *string { return &c.Path }, document.Words),
	document.Plain("size", "Its largest size. It counts as the job's memory.",
		func(c *TmpfsVolume) *int64 { return &c.Size }, someMemory),
)
