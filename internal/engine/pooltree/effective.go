package pooltree

import (
	"fmt"
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
	// PatienceLimits bound what subpools and operations of the pool may set.
	PatienceLimits PatienceLimits

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

// PatienceLimits are the …_limit options: how far below them may go. Unset ones
// do not bind.
type PatienceLimits struct {
	// FairShareTimeout and MinShareTimeout are the shortest timeouts, Tolerance is
	// the largest tolerance.
	FairShareTimeout, MinShareTimeout document.Optional[time.Duration]
	Tolerance                         document.Optional[float64]
}

// below returns the limits for what is below a pool with these limits of its
// own: the stricter of both.
func (l PatienceLimits) below(own PatienceLimits) PatienceLimits {
	return PatienceLimits{
		FairShareTimeout: stricter(l.FairShareTimeout, own.FairShareTimeout, longest),
		MinShareTimeout:  stricter(l.MinShareTimeout, own.MinShareTimeout, longest),
		Tolerance:        stricter(l.Tolerance, own.Tolerance, least),
	}
}

func longest(a, b time.Duration) time.Duration { return max(a, b) }
func least(a, b float64) float64               { return min(a, b) }

// stricter combines two values of which either may be unset.
func stricter[F any](a, b document.Optional[F], choose func(F, F) F) document.Optional[F] {
	if x, ok := a.Get(); ok && b.IsSet() {
		return document.Some(choose(x, b.Value()))
	}
	return a.OrElse(b)
}

// override applies the values that a pool or an operation sets itself to those
// that it inherits. Only limits from above change them.
func (s *Starvation) override(timeout, minShare document.Optional[time.Duration], tolerance document.Optional[float64], l PatienceLimits) {
	if v, ok := tolerance.Get(); ok {
		s.Tolerance = stricter(document.Some(v), l.Tolerance, least).Value()
	}
	if v, ok := timeout.Get(); ok {
		s.FairShareTimeout = stricter(document.Some(v), l.FairShareTimeout, longest).Value()
	}
	if minShare.IsSet() {
		s.minShare = stricter(minShare, l.MinShareTimeout, longest)
	}
	s.MinShareTimeout = min(s.minShare.Or(s.FairShareTimeout), s.FairShareTimeout)
}

// Clamp is an option of an operation whose value a …_limit from above replaces.
type Clamp struct {
	Option        string
	Wanted, Limit document.Value
}

// String says what happened, for users.
func (c Clamp) String() string {
	return fmt.Sprintf("%s is %v in the specification, but %s_limit of the pool or of a pool above makes it %v", c.Option, c.Wanted, c.Option, c.Limit)
}

// Clamped returns the options of an operation that limits have changed. s must
// be the operation's own values, from ForOperation.
func (s *Starvation) Clamped(o *SchedulingOptions) (list []Clamp) {
	if v, ok := o.FairSharePreemptionTimeout.Get(); ok && v != s.FairShareTimeout {
		list = append(list, Clamp{"fair_share_preemption_timeout", durationValue(v), durationValue(s.FairShareTimeout)})
	}
	if v, ok := o.MinSharePreemptionTimeout.Get(); ok && v != s.minShare.Value() {
		list = append(list, Clamp{"min_share_preemption_timeout", durationValue(v), durationValue(s.minShare.Value())})
	}
	if v, ok := o.FairShareStarvationTolerance.Get(); ok && v != s.Tolerance {
		list = append(list, Clamp{"fair_share_starvation_tolerance", document.Number(v), document.Number(s.Tolerance)})
	}
	return list
}

func durationValue(d time.Duration) document.Value { return document.Text(document.FormatDuration(d)) }

// ForOperation returns the values for an operation of the pool. Its own
// timeouts and tolerance replace the pool's, within the limits that are
// configured. Its protection from preemption can only be less than the pool's.
func (e *Effective) ForOperation(o *SchedulingOptions) Starvation {
	s := e.Starvation
	s.override(o.FairSharePreemptionTimeout, o.MinSharePreemptionTimeout, o.FairShareStarvationTolerance, e.PatienceLimits)
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

// withJobCount fills the user_slots of a threshold that does not have them. The
// threshold is usage that nothing is taken from, so it is one job less than the
// number below which an operation is not preempted.
func withJobCount(threshold resource.Partial, jobs document.Optional[int]) resource.Partial {
	if n, ok := jobs.Get(); ok && !threshold.Has(resource.UserSlots) {
		return threshold.With(resource.UserSlots, int64(max(n-1, 0)))
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
			merged := t.settings.withPresets(p.config)
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
			Aggressive:        s.Preemption.EnableAggressiveStarvation.Value(),
			AggressiveTimeout: s.Preemption.AggressiveStarvationTimeout.Value(),
			Threshold:         withJobCount(in.threshold, in.jobs),
		},
		PatienceLimits:             s.Preemption.Limits,
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
	root.override(s.Preemption.FairSharePreemptionTimeout, s.Preemption.MinSharePreemptionTimeout, s.Preemption.FairShareStarvationTolerance, PatienceLimits{})
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
			Tolerance:         parent.Tolerance,
			FairShareTimeout:  parent.FairShareTimeout,
			minShare:          parent.minShare,
			Aggressive:        own.EnableAggressiveStarvation.Or(parent.Aggressive),
			AggressiveTimeout: parent.AggressiveTimeout,
			Threshold:         withJobCount(in.threshold, in.jobs),
		},
		PatienceLimits:             parent.PatienceLimits.below(own.Limits),
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
	e.override(own.FairSharePreemptionTimeout, own.MinSharePreemptionTimeout, own.FairShareStarvationTolerance, parent.PatienceLimits)
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
