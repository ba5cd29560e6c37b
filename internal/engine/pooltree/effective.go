package pooltree

import (
	"time"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Effective are the values that hold for a pool after presets, inheritance and
// defaults.
type Effective struct {
	Mode               Mode
	FIFOSortParameters []SortKey // must not be modified

	MaxRunningOperationCount int
	MaxOperationCount        int

	Starvation

	// AllowAggressivePreemption is the value of the nearest pool that sets it.
	AllowAggressivePreemption bool
	// AllowNormalPreemption is false if it is false on the pool or anywhere
	// above it.
	AllowNormalPreemption bool
	// WaitingForResourcesTimeout is unset if nothing from this pool up to the
	// tree sets it.
	WaitingForResourcesTimeout document.Optional[time.Duration]

	// Guarantees over time.
	RelaxedMultiplier    float64
	DistributeFreeVolume bool
	CanAcceptFreeVolume  bool

	GangSteps    bool
	TruncateFIFO bool
	// AllowGangOperations reports whether gang operations may run here.
	AllowGangOperations bool
	// ForbidImmediateOperations reports whether operations may run in subpools
	// only.
	ForbidImmediateOperations bool
}

// Starvation holds the values that decide about starvation and preemption.
type Starvation struct {
	Tolerance float64
	// FairShareTimeout and MinShareTimeout are how long an element may be below
	// its fair share, and below its strong guarantee, until it starves. The
	// second is never longer than the first.
	FairShareTimeout time.Duration
	MinShareTimeout  time.Duration
	minShare         document.Optional[time.Duration] // the configured value
	// Aggressive reports whether AggressiveTimeout applies.
	Aggressive        bool
	AggressiveTimeout time.Duration
	// Threshold is the usage within which nothing may be preempted.
	Threshold resource.Partial
}

// For returns the values for an operation of the pool. An operation can only be
// more patient and less protected than its pool.
func (s Starvation) For(o SchedulingOptions) Starvation {
	s.Tolerance = min(s.Tolerance, o.FairShareStarvationTolerance.Or(s.Tolerance))
	s.FairShareTimeout = max(s.FairShareTimeout, o.FairSharePreemptionTimeout.Value())
	s.setMinShare(lengthen(s.minShare, o.MinSharePreemptionTimeout))
	own := withJobCount(o.NonPreemptibleThreshold.Value(), o.MaxUnpreemptableRunningJobCount)
	for _, k := range resource.Kinds {
		v, ok := own.Get(k)
		if inherited, has := s.Threshold.Get(k); ok && has {
			v = min(v, inherited)
		}
		if ok {
			s.Threshold = s.Threshold.With(k, v)
		}
	}
	return s
}

// setMinShare sets the timeout of the strong guarantee: that of the fair share
// unless a shorter one is configured.
func (s *Starvation) setMinShare(minShare document.Optional[time.Duration]) {
	s.minShare = minShare
	s.MinShareTimeout = min(minShare.Or(s.FairShareTimeout), s.FairShareTimeout)
}

// lengthen applies a timeout to an inherited one, which it can only lengthen.
func lengthen(inherited, own document.Optional[time.Duration]) document.Optional[time.Duration] {
	if !own.IsSet() {
		return inherited
	}
	return document.Some(max(own.Value(), inherited.Value()))
}

// withJobCount fills the user_slots of a threshold that does not have them.
func withJobCount(threshold resource.Partial, jobs document.Optional[int]) resource.Partial {
	if n, ok := jobs.Get(); ok && !threshold.Has(resource.UserSlots) {
		return threshold.With(resource.UserSlots, int64(n))
	}
	return threshold
}

// inherited is what a pool passes to its children besides Effective. The
// threshold and the number of jobs are inherited separately, because the number
// only fills in what the threshold omits.
type inherited struct {
	threshold resource.Partial
	jobs      document.Optional[int]
}

// inherit computes the effective values of all pools, parents first.
func (t *Tree) inherit() {
	s := &t.settings
	passed := make([]inherited, len(t.pools))
	for i := range t.pools {
		p := &t.pools[i]
		if p.IsRoot() {
			p.effective, passed[i] = rootEffective(s)
			continue
		}
		parent := &t.pools[p.parent]
		own := &p.config.Preemption
		if p.config.Presets.IsSet() {
			merged := t.config.withPresets(p.config)
			own = &merged
		}
		passed[i] = passed[p.parent].below(own)
		p.effective = p.effectiveBelow(&parent.effective, own, passed[i], s)
	}
}

func rootEffective(s *TreeConfig) (Effective, inherited) {
	in := inherited{
		threshold: s.Preemption.NonPreemptibleThreshold.Value(),
		jobs:      s.Preemption.MaxUnpreemptableRunningJobCount,
	}
	root := Effective{
		Mode:                     FairShare,
		FIFOSortParameters:       DefaultFIFOSort,
		MaxRunningOperationCount: s.MaxRunningOperationCount.Value(),
		MaxOperationCount:        s.MaxOperationCount.Value(),
		Starvation: Starvation{
			Tolerance:         s.Preemption.FairShareStarvationTolerance.Value(),
			FairShareTimeout:  s.Preemption.FairSharePreemptionTimeout.Value(),
			Aggressive:        s.Preemption.EnableAggressiveStarvation.Value(),
			AggressiveTimeout: s.Preemption.AggressiveStarvationTimeout.Value(),
			Threshold:         withJobCount(in.threshold, in.jobs),
		},
		AllowAggressivePreemption:  true,
		AllowNormalPreemption:      true,
		WaitingForResourcesTimeout: s.Preemption.WaitingForResourcesTimeout,
		RelaxedMultiplier:          s.Integral.RelaxedMultiplier.Value(),
		DistributeFreeVolume:       s.DistributeFreeVolume.Value(),
		CanAcceptFreeVolume:        true,
		GangSteps:                  s.GangSteps.Value(),
		TruncateFIFO:               s.TruncateFIFO.Value(),
		AllowGangOperations:        !s.GangOnlyInFIFOPools.Value(),
		ForbidImmediateOperations:  s.ForbidImmediateOperationsInRoot.Value(),
	}
	root.setMinShare(s.Preemption.MinSharePreemptionTimeout)
	return root, in
}

// below returns what a child with these options passes on.
func (in inherited) below(own *PoolPreemption) inherited {
	in.threshold = own.NonPreemptibleThreshold.Or(in.threshold)
	in.jobs = own.MaxUnpreemptableRunningJobCount.OrElse(in.jobs)
	return in
}

func (p *Pool) effectiveBelow(parent *Effective, own *PoolPreemption, in inherited, s *TreeConfig) Effective {
	c := p.config
	mode := c.Mode.Or(FairShare)
	e := Effective{
		Mode:                     mode,
		FIFOSortParameters:       c.FIFOSortParameters.Or(DefaultFIFOSort),
		MaxRunningOperationCount: c.MaxRunningOperationCount.Or(s.MaxRunningOperationCountPerPool.Value()),
		MaxOperationCount:        c.MaxOperationCount.Or(s.MaxOperationCountPerPool.Value()),
		Starvation: Starvation{
			Tolerance:         own.FairShareStarvationTolerance.Or(parent.Tolerance),
			FairShareTimeout:  own.FairSharePreemptionTimeout.Or(parent.FairShareTimeout),
			Aggressive:        own.EnableAggressiveStarvation.Or(parent.Aggressive),
			AggressiveTimeout: parent.AggressiveTimeout,
			Threshold:         withJobCount(in.threshold, in.jobs),
		},
		AllowAggressivePreemption:  own.AllowAggressivePreemption.Or(parent.AllowAggressivePreemption),
		AllowNormalPreemption:      own.AllowNormalPreemption.Or(true) && parent.AllowNormalPreemption,
		WaitingForResourcesTimeout: own.WaitingForResourcesTimeout.OrElse(parent.WaitingForResourcesTimeout),
		RelaxedMultiplier:          c.Integral.RelaxedMultiplier.Or(s.Integral.RelaxedMultiplier.Value()),
		DistributeFreeVolume:       c.Integral.DistributeFreeVolume.Or(s.DistributeFreeVolume.Value()),
		CanAcceptFreeVolume:        c.Integral.CanAcceptFreeVolume.Or(true),
		GangSteps:                  s.GangSteps.Value() && c.GangSteps.Or(true),
		TruncateFIFO:               c.TruncateFIFO.Or(s.TruncateFIFO.Value()),
		AllowGangOperations:        !s.GangOnlyInFIFOPools.Value() || mode == FIFO || c.AlwaysAllowGangOperations.Value(),
		ForbidImmediateOperations:  c.ForbidImmediateOperations.Value(),
	}
	e.setMinShare(lengthen(parent.minShare, own.MinSharePreemptionTimeout))
	return e
}

// EphemeralPool returns the configuration of a subpool that is made in p for a
// user.
func (p *Pool) EphemeralPool() PoolConfig {
	own := p.config.EphemeralSubpoolConfig.Value()
	return PoolConfig{
		Mode:                     own.Mode,
		MaxRunningOperationCount: own.MaxRunningOperationCount,
		MaxOperationCount:        own.MaxOperationCount,
		ResourceLimits:           own.ResourceLimits,
	}
}
