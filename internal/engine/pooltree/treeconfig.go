package pooltree

import (
	"time"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

// TreeConfig is what was explicitly set on a tree. [Tree.Settings] returns it
// with the defaults filled in. Slices in it must not be modified.
type TreeConfig struct {
	NodesFilter  document.Optional[nodefilter.Filter]
	MainResource document.Optional[resource.Kind]

	MaxOperationCount               document.Optional[int]
	MaxRunningOperationCount        document.Optional[int]
	MaxOperationCountPerPool        document.Optional[int]
	MaxRunningOperationCountPerPool document.Optional[int]

	DefaultParentPool               document.Optional[string]
	UseUserDefaultParentPoolMap     document.Optional[bool]
	ForbidImmediateOperationsInRoot document.Optional[bool]
	MaxEphemeralPoolPerUser         document.Optional[int]

	InferWeightMultiplier       document.Optional[float64]
	Integral                    TreeIntegral
	DistributeFreeVolume        document.Optional[bool]
	GangSteps                   document.Optional[bool]
	SingleJobVanillaIsGang      document.Optional[bool]
	GangOnlyInFIFOPools         document.Optional[bool]
	ImprovedFairShare           document.Optional[bool]
	ImprovedDistributionGap     document.Optional[bool]
	TruncateFIFO                document.Optional[bool]
	BestAllocationPeriod        document.Optional[time.Duration]
	NodeReconnectionTimeout     document.Optional[time.Duration]
	MaxSchedulableInFIFOPool    document.Optional[int]
	FIFOOrder                   document.Optional[FIFOOrder]
	GuaranteePriorityScheduling document.Optional[bool]
	PreliminaryLimitsCheck      document.Optional[bool]
	LimitingAncestorCheck       document.Optional[bool]
	MinSpareResources           document.Optional[resource.Partial]
	MinJobResources             document.Optional[resource.Partial]
	MaxJobResources             document.Optional[resource.Partial]
	GuaranteedJobResources      document.Optional[resource.Partial]
	Batch                       document.Optional[BatchScheduling]
	Packing                     Packing
	GangAssemblyTimeout         document.Optional[time.Duration]

	Preemption TreePreemption

	PoolConfigPresets []document.Named[PresetConfig]
	// Extras holds options that are known but not supported, under their
	// primary names, and unknown ones where they are kept.
	Extras document.Extras
	// Spelling has the names that the user wrote.
	Spelling document.Spelling
}

// TreeIntegral is the integral_guarantees of a tree.
type TreeIntegral struct {
	SmoothPeriod             document.Optional[time.Duration]
	CapacitySaturationPeriod document.Optional[time.Duration]
	RelaxedMultiplier        document.Optional[float64]
}

// BatchScheduling divides the operations of a stage into slices.
type BatchScheduling struct {
	BatchSize              document.Optional[int]
	FallbackSpareResources document.Optional[resource.Partial]
}

// Packing makes jobs wait for a node whose free resources suit them.
type Packing struct {
	Enable                 document.Optional[bool]
	Metric                 document.Optional[PackingMetric]
	MaxBetterPastSnapshots document.Optional[int]
	AbsoluteTolerance      document.Optional[float64]
	RelativeTolerance      document.Optional[float64]
	MinWindowSize          document.Optional[int]
	MaxWindowSize          document.Optional[int]
	MaxHeartbeatAge        document.Optional[time.Duration]
}

// TreePreemption has the options of a tree that decide when operations starve
// and what may be preempted for them.
type TreePreemption struct {
	EnablePoolStarvation            document.Optional[bool]
	FairSharePreemptionTimeout      document.Optional[time.Duration]
	MinSharePreemptionTimeout       document.Optional[time.Duration]
	AggressiveStarvationTimeout     document.Optional[time.Duration]
	FairShareStarvationTolerance    document.Optional[float64]
	AbsoluteStarvationTolerance     document.Optional[bool]
	ToleranceEndsAtDemand           document.Optional[bool]
	EnableAggressiveStarvation      document.Optional[bool]
	MaxUnpreemptableRunningJobCount document.Optional[int]
	NonPreemptibleThreshold         document.Optional[resource.Partial]
	SatisfactionThreshold           document.Optional[float64]
	AggressiveSatisfactionThreshold document.Optional[float64]
	JobCountTimeoutCoefficient      document.Optional[float64]
	BoundaryJobIsPreemptible        document.Optional[bool]
	FromStarvingOperations          document.Optional[bool]
	Conditional                     document.Optional[bool]
	CheckStarvation                 document.Optional[bool]
	CheckSatisfaction               document.Optional[bool]
	PriorityScope                   document.Optional[PreemptionScope]
	AggressiveForGangOperations     document.Optional[bool]
	Backoff                         document.Optional[time.Duration]
	MinimizePreemptedSet            document.Optional[bool]
	PreemptionTimeout               document.Optional[time.Duration]
	GracefulPreemptionTimeout       document.Optional[time.Duration]
	UsePrecommit                    document.Optional[bool]
	InfiniteLimitsOvercommit        document.Optional[bool]
	WaitingForResourcesTimeout      document.Optional[time.Duration]
	Limits                          PatienceLimits
}

// Settings returns the configuration with every default filled in. Options that
// are still unset have no default: without them the rule does not apply.
func (c TreeConfig) Settings() TreeConfig {
	TreeOptions.FillDefaults(&c)
	return c
}
