package client

import (
	"context"
	"time"
)

// Explanation says why jobs of an operation wait, and where its fair share comes from.
type Explanation struct {
	OperationID string        `yson:"operation_id"`
	State       State         `yson:"state"`
	Suspended   bool          `yson:"suspended"`
	Age         time.Duration `yson:"age"`
	// BlockedBy is why no job can start whatever is free, such as operation_suspended or
	// no_pending_jobs; empty if nothing blocks it.
	BlockedBy string `yson:"blocked_by"`
	// HeldBack says what is held back in its trees for nodes that have not reported since the
	// lead changed, and until when; empty if nothing is.
	HeldBack string            `yson:"held_back"`
	Trees    []TreeExplanation `yson:"pool_trees"`
	Raw      Value             `yson:"."`
}

// TreeExplanation is about one tree of the operation.
type TreeExplanation struct {
	Tree         string `yson:"pool_tree"`
	Pool         string `yson:"pool"`
	RunningJobs  int64  `yson:"running_job_count"`
	WaitingJobs  int64  `yson:"waiting_job_count"`
	Nodes        int64  `yson:"node_count"`
	FittingNodes int64  `yson:"fitting_node_count"` // where a waiting job fits right now
	// WaitsFor is the pool that lets no more operations run; nil if none does.
	WaitsFor   *PoolQueue        `yson:"waits_for"`
	Obstacles  []Obstacle        `yson:"obstacles"`
	Tasks      []TaskExplanation `yson:"tasks"`
	Starvation Starvation        `yson:"starvation"`
	Preemption Preemption        `yson:"preemption"`
	FairShare  *FairShare        `yson:"fair_share"` // nil if it takes no part
}

// PoolQueue is a pool in which operations wait for each other.
type PoolQueue struct {
	Pool    string `yson:"pool"`
	Running int64  `yson:"running"`
	Limit   int64  `yson:"max_running_operation_count"`
	Ahead   int64  `yson:"ahead"` // how many wait before this one
}

// Obstacle is a reason why jobs do not start.
type Obstacle struct {
	// Reason is a word, such as resource_limits_exceeded or bad_packing.
	Reason string `yson:"reason"`
	Pool   string `yson:"pool"` // whose limit or filter it is; empty for the operation's
	// Resource that is short, with what a job needs and what there is; empty if it is not
	// about one.
	Resource  string  `yson:"resource"`
	Needed    float64 `yson:"needed"`
	Available float64 `yson:"available"`
	// Nodes are how many it concerns, of which some are too small even when empty.
	Nodes         int64 `yson:"node_count"`
	TooSmallNodes int64 `yson:"too_small_node_count"`
}

// TaskExplanation is about one task of the operation.
type TaskExplanation struct {
	Task         string     `yson:"task_name"`
	JobResources Resources  `yson:"job_resources"`
	WaitingJobs  int64      `yson:"waiting_job_count"`
	FittingNodes int64      `yson:"fitting_node_count"`
	Obstacles    []Obstacle `yson:"obstacles"`
}

// Starvation is whether the operation has had too little for too long.
type Starvation struct {
	Scheduling string    `yson:"scheduling_status"` // below_fair_share, normal, …
	Status     string    `yson:"starvation_status"` // non_starving, starving, aggressively_starving
	BelowSince time.Time `yson:"below_fair_share_since"`
	Since      time.Time `yson:"starving_since"`
	// Timeout is after how long below its fair share it starves.
	Timeout time.Duration `yson:"timeout"`
}

// Preemption is what preemption can do for the operation.
type Preemption struct {
	BecauseOf string `yson:"because_of"` // the pool that starves; empty if none does
	// On how many nodes preemption would make room, and the aggressive one.
	Nodes             int64 `yson:"fitting_node_count"`
	NodesAggressively int64 `yson:"fitting_node_count_aggressively"`
}

// FairShare derives a fair share.
type FairShare struct {
	// The share of the dominant resource, as a whole and by where it comes from.
	Total    float64 `yson:"detailed_dominant_fair_share/total"`
	Strong   float64 `yson:"detailed_dominant_fair_share/strong_guarantee"`
	Integral float64 `yson:"detailed_dominant_fair_share/integral_guarantee"`
	ByWeight float64 `yson:"detailed_dominant_fair_share/weight_proportional"`
	// Bound is what keeps it from being larger: demand, limit, ancestor_limit, cluster,
	// fifo, gang or step.
	Bound   string `yson:"bound"`
	BoundBy string `yson:"bound_by_pool"`
	// Scarce is the resource that there is no more of; empty if demand is the bound.
	Scarce string `yson:"scarce_resource"`
	// Chain goes from the operation up to the root.
	Chain []FairShareLink `yson:"chain"`
}

// FairShareLink is one step from an operation to the root; all but Weight are shares.
type FairShareLink struct {
	Pool      string    `yson:"pool"` // empty for the operation
	Weight    float64   `yson:"weight"`
	Demand    Resources `yson:"demand"`
	Guarantee Resources `yson:"guarantee"`
	Limits    Resources `yson:"limits"`
	FairShare Resources `yson:"fair_share"`
}

// ExplainOperation says why jobs of an operation wait.
func (c *Client) ExplainOperation(ctx context.Context, name string) (*Explanation, error) {
	return ask[Explanation](ctx, c, "explain_operation", operationNamed(name))
}
