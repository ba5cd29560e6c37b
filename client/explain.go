package client

import (
	"context"
	"time"
)

// Explanation states why an operation's jobs wait and how its fair share was computed.
type Explanation struct {
	OperationID string        `yson:"operation_id"`
	State       State         `yson:"state"`
	Suspended   bool          `yson:"suspended"`
	Age         time.Duration `yson:"age"`
	// BlockedBy is why no job can start even on free resources, such as
	// operation_suspended or no_pending_jobs; empty if nothing blocks the operation.
	BlockedBy string `yson:"blocked_by"`
	// AsOf is the moment of the answer, on the clock of leader Epoch.
	AsOf  time.Time `yson:"as_of"`
	Epoch int64     `yson:"epoch"`
	// StartsNow is set if jobs start at the next heartbeats; then Blockers is empty. Otherwise
	// Blockers are what keeps all jobs waiting, what to fix first at the top. Then are the
	// blockers of further jobs.
	StartsNow *StartsNow `yson:"starts_at_next_heartbeat"`
	Blockers  []Blocker  `yson:"blockers"`
	Then      []Blocker  `yson:"then"`
	Kinds     []Kind     `yson:"kinds"`
	// HeldBack describes what the leader reserves in the operation's trees, and until
	// when, for nodes that have not reported since it took the lease; empty if nothing.
	HeldBack string            `yson:"held_back"`
	Trees    []TreeExplanation `yson:"pool_trees"`
	Raw      Value             `yson:"."`
}

// StartsNow are jobs that start at the next heartbeats.
type StartsNow struct {
	Jobs int64  `yson:"job_count"`
	Node string `yson:"node"` // of the first job
}

// Kind is the waiting jobs of one task in one tree.
type Kind struct {
	Tree         string     `yson:"pool_tree"`
	Pool         string     `yson:"pool"`
	Task         string     `yson:"task_name"`
	JobResources Resources  `yson:"job_resources"`
	WaitingJobs  int64      `yson:"waiting_job_count"`
	Nodes        int64      `yson:"node_count"`
	FittingNodes int64      `yson:"fitting_node_count"` // nodes with room for a job
	LastStart    time.Time  `yson:"last_start_time"`
	StartsNow    *StartsNow `yson:"starts_at_next_heartbeat"`
	Blockers     []Blocker  `yson:"blockers"`
	Then         []Blocker  `yson:"then"`
}

// Blocker is one reason why jobs wait.
type Blocker struct {
	Code  string `yson:"code"`  // such as limit or node_resources
	Class string `yson:"class"` // gate, never, state, limit, share, nodes or turn
	Text  string `yson:"text"`  // the reason in words, with amounts and holders
	Tree  string `yson:"pool_tree"`
	Task  string `yson:"task_name"` // empty if it concerns all tasks
	Pool  string `yson:"pool"`      // owns the limit or filter; empty if the operation does
	// Since is since when it blocks; SinceKind is last_start if that is the time of the last start.
	Since     time.Time `yson:"since"`
	SinceKind string    `yson:"since_kind"`
	Until     time.Time `yson:"until"`
	// Sole reports that its removal alone lets jobs start, StartsWithout how many. Both are set
	// by ExplainOperationFully only.
	Sole          bool     `yson:"sole"`
	StartsWithout int64    `yson:"starts_without_it"`
	Holders       []Holder `yson:"holders"`
	Raw           Value    `yson:"."`
}

// Holder is an operation that holds what is short.
type Holder struct {
	Operation string    `yson:"operation"` // its alias or id
	Pool      string    `yson:"pool"`
	Amount    float64   `yson:"amount"`
	Since     time.Time `yson:"since"` // the start of its oldest job
	// FirstEnd is when the first of its jobs ends at the latest, by job_time_limit; zero if unknown.
	FirstEnd time.Time `yson:"first_end"`
}

// PoolExplanation states what a pool demands and does not have, and why.
type PoolExplanation struct {
	Tree     string    `yson:"pool_tree"`
	Pool     string    `yson:"pool"`
	AsOf     time.Time `yson:"as_of"`
	Usage    Resources `yson:"usage"`
	Demand   Resources `yson:"demand"`
	Resource string    `yson:"resource"` // the dominant resource of the demand; amounts below are of it
	Gap      float64   `yson:"gap"`      // demand minus usage
	// Guarantee is what it gets of its guarantee; nil if it has none.
	Guarantee *GuaranteeNow `yson:"guarantee"`
	// Waterfall divides the gap by first blocker; the amounts sum to it.
	Waterfall []WaterfallRow     `yson:"waterfall"`
	Waiting   []WaitingOperation `yson:"waiting_operations"` // those that wait for most
	Raw       Value              `yson:"."`
}

// GuaranteeNow is what a pool gets of its strong and burst guarantees now, as the ledger of
// guarantees counts it.
type GuaranteeNow struct {
	Resource string  `yson:"resource"`
	Amount   float64 `yson:"amount"` // guaranteed
	Due      float64 `yson:"due"`    // the part of that which it demands
	Got      float64 `yson:"got"`    // what its jobs hold
	Short    float64 `yson:"short"`  // what it lacks of what is due
}

// WaterfallRow is the part of a gap that has one cause.
type WaterfallRow struct {
	Code       string   `yson:"code"` // starts_now, or the code of the blocker
	Amount     float64  `yson:"amount"`
	Jobs       int64    `yson:"waiting_job_count"`
	Operations int64    `yson:"operation_count"`
	Blocker    *Blocker `yson:"blocker"` // nil for starts_now
}

// WaitingOperation is an operation that waits in a pool.
type WaitingOperation struct {
	Operation string  `yson:"operation"` // its alias or id
	Pool      string  `yson:"pool"`
	Amount    float64 `yson:"amount"`
	Jobs      int64   `yson:"waiting_job_count"`
	Code      string  `yson:"code"`
	Text      string  `yson:"text"`
}

// ClusterExplanation states what waits in all trees.
type ClusterExplanation struct {
	AsOf  time.Time         `yson:"as_of"`
	Gates []ClusterGate     `yson:"gates"`
	Nodes []GatedNode       `yson:"node_gates"`
	Trees []PoolExplanation `yson:"pool_trees"`
	Raw   Value             `yson:"."`
}

// ClusterGate keeps all nodes from getting jobs.
type ClusterGate struct {
	Code  string    `yson:"code"`
	Since time.Time `yson:"since"`
	Until time.Time `yson:"until"`
}

// GatedNode is a node that gets no jobs.
type GatedNode struct {
	Node string `yson:"node"`
	Code string `yson:"code"` // banned, draining, jobs_disabled, no_tree or awaited
}

// JobExplanation states where a job runs and what may preempt it, or how it ended.
type JobExplanation struct {
	JobID       string    `yson:"job_id"`
	OperationID string    `yson:"operation_id"`
	Running     bool      `yson:"running"`
	Task        string    `yson:"task_name"`
	Node        string    `yson:"node"`
	Pool        string    `yson:"pool"`
	Stage       string    `yson:"stage"` // the part of the heartbeat that started it
	Started     time.Time `yson:"start_time"`
	Class       string    `yson:"preemption_class"`
	Preempted   bool      `yson:"preempted"`
	// PreemptedBefore is the number of the operation's jobs that would be preempted before it.
	PreemptedBefore int64   `yson:"preempted_before_it"`
	Satisfaction    float64 `yson:"satisfaction"`
	State           string  `yson:"state"` // of a job that has ended
	Raw             Value   `yson:"."`
}

// TreeExplanation is the part of an Explanation about one of the operation's trees.
type TreeExplanation struct {
	Tree         string `yson:"pool_tree"`
	Pool         string `yson:"pool"`
	RunningJobs  int64  `yson:"running_job_count"`
	WaitingJobs  int64  `yson:"waiting_job_count"`
	Nodes        int64  `yson:"node_count"`
	FittingNodes int64  `yson:"fitting_node_count"` // nodes on which a waiting job fits now
	// WaitsFor is the pool whose limit on running operations keeps the operation in its
	// queue; nil if there is none.
	WaitsFor   *PoolQueue        `yson:"waits_for"`
	Obstacles  []Obstacle        `yson:"obstacles"`
	Tasks      []TaskExplanation `yson:"tasks"`
	Starvation Starvation        `yson:"starvation"`
	Preemption Preemption        `yson:"preemption"`
	FairShare  *FairShare        `yson:"fair_share"` // nil if the operation is not scheduled in this tree
}

// PoolQueue is the queue of a pool that runs as many operations as its limit allows.
type PoolQueue struct {
	Pool    string `yson:"pool"`
	Running int64  `yson:"running"`
	Limit   int64  `yson:"max_running_operation_count"`
	Ahead   int64  `yson:"ahead"` // number of operations that wait in front of this one
}

// Obstacle is a reason why jobs do not start.
type Obstacle struct {
	// Reason is a keyword, such as resource_limits_exceeded or bad_packing.
	Reason string `yson:"reason"`
	Pool   string `yson:"pool"` // owns the limit or filter; empty if the operation does
	// Resource is the resource in short supply, Needed what a job needs of it, Available
	// what there is. Resource is empty if the obstacle is not about one resource.
	Resource  string  `yson:"resource"`
	Needed    float64 `yson:"needed"`
	Available float64 `yson:"available"`
	// Nodes is the number of nodes that the obstacle concerns. TooSmallNodes of them are
	// too small even when empty.
	Nodes         int64 `yson:"node_count"`
	TooSmallNodes int64 `yson:"too_small_node_count"`
}

// TaskExplanation is the part of a TreeExplanation about one of the operation's tasks.
type TaskExplanation struct {
	Task         string     `yson:"task_name"`
	JobResources Resources  `yson:"job_resources"`
	WaitingJobs  int64      `yson:"waiting_job_count"`
	FittingNodes int64      `yson:"fitting_node_count"`
	Obstacles    []Obstacle `yson:"obstacles"`
}

// Starvation states whether the operation has been below its fair share for too long.
type Starvation struct {
	Scheduling string    `yson:"scheduling_status"` // below_fair_share, normal, …
	Status     string    `yson:"starvation_status"` // non_starving, starving, aggressively_starving
	BelowSince time.Time `yson:"below_fair_share_since"`
	Since      time.Time `yson:"starving_since"`
	// Timeout is how long the operation must be below its fair share until it starves.
	Timeout time.Duration `yson:"timeout"`
	// Tolerance is the part of its fair share with which it does not starve.
	// WithinTolerance reports that it has less than its fair share, but that much
	// of it; FairShareCoversDemand that its fair share is all that it demands.
	Tolerance             float64 `yson:"tolerance"`
	WithinTolerance       bool    `yson:"within_tolerance"`
	FairShareCoversDemand bool    `yson:"fair_share_covers_demand"`
	// LimitedOptions says which options of the operation limits of its pools replace.
	LimitedOptions []string `yson:"limited_options"`
}

// Preemption states what preemption could do for the operation.
type Preemption struct {
	BecauseOf string `yson:"because_of"` // the starving pool; empty if only the operation starves, or nothing does
	// The numbers of nodes on which normal and aggressive preemption would make room.
	Nodes             int64 `yson:"fitting_node_count"`
	NodesAggressively int64 `yson:"fitting_node_count_aggressively"`
}

// FairShare states how a fair share was computed.
type FairShare struct {
	// The share of the dominant resource: the total and its parts by source.
	Total    float64 `yson:"detailed_dominant_fair_share/total"`
	Strong   float64 `yson:"detailed_dominant_fair_share/strong_guarantee"`
	Integral float64 `yson:"detailed_dominant_fair_share/integral_guarantee"`
	ByWeight float64 `yson:"detailed_dominant_fair_share/weight_proportional"`
	// Bound is why the share is not larger: demand, limit, ancestor_limit, cluster, fifo,
	// gang or step. BoundBy is the pool that sets the bound; empty if it is the operation.
	Bound   string `yson:"bound"`
	BoundBy string `yson:"bound_by_pool"`
	// Scarce is the exhausted resource; empty if demand is the bound.
	Scarce string `yson:"scarce_resource"`
	// Chain lists the operation and its pools up to the root.
	Chain []FairShareLink `yson:"chain"`
}

// FairShareLink is one step from an operation to the root. Its Resources are shares.
type FairShareLink struct {
	Pool      string    `yson:"pool"` // empty for the operation
	Weight    float64   `yson:"weight"`
	Demand    Resources `yson:"demand"`
	Guarantee Resources `yson:"guarantee"`
	Limits    Resources `yson:"limits"`
	FairShare Resources `yson:"fair_share"`
}

// ExplainOperation explains why jobs of an operation wait. The operation is given by its
// id or alias.
func (c *Client) ExplainOperation(ctx context.Context, name string) (*Explanation, error) {
	return ask[Explanation](ctx, c, "explain_operation", operationNamed(name))
}

// ExplainOperationFully is ExplainOperation that also finds out which blockers alone keep jobs from
// starting. It costs more.
func (c *Client) ExplainOperationFully(ctx context.Context, name string) (*Explanation, error) {
	key := operationNamed(name)
	return ask[Explanation](ctx, c, "explain_operation", struct {
		ID    string `yson:"operation_id"`
		Alias string `yson:"operation_alias"`
		Sole  bool   `yson:"sole"`
	}{key.ID, key.Alias, true})
}

// Advice is the least changes that let an operation start jobs now.
type Advice struct {
	OperationID string    `yson:"operation_id"`
	AsOf        time.Time `yson:"as_of"`
	Epoch       int64     `yson:"epoch"`
	// Outcome is starts_now, found, wait, never or none_within_bounds.
	Outcome string `yson:"outcome"`
	// Jobs is how many jobs must start, Starts how many start without a change.
	Jobs   int64 `yson:"job_count"`
	Starts int64 `yson:"starts_without_change"`
	// First is when the first job starts without a change, if AdviseOptions.By is set and one does.
	First time.Time `yson:"first_start_without_change"`
	// Forecast is when the operation starts and finishes without a change, if that is known.
	Forecast *Forecast `yson:"forecast"`
	// Gates must open before anything starts; the fixes assume that they have.
	Gates    []ClusterGate `yson:"gates"`
	Blockers []Blocker     `yson:"blockers"`
	// Fixes are in order: who must act, harm to others, size of the change. Further counts those that
	// were found and are not listed.
	Fixes   []Fix `yson:"fixes"`
	Further int64 `yson:"further_fix_count"`
	// Tried are changes that do not help, NotTried those for which there was no time.
	Tried    []Attempt `yson:"tried"`
	NotTried []string  `yson:"not_tried"`
	Tests    int64     `yson:"test_count"`
	Raw      Value     `yson:"."`
}

// Fix is a set of changes that lets jobs start.
type Fix struct {
	Text   string `yson:"text"`   // what to do
	Effect string `yson:"effect"` // what then happens, with the harm to others
	Who    string `yson:"who"`    // user, owner, administrator or nobody
	// Minimal reports that less of the change is not enough.
	Minimal bool       `yson:"minimal"`
	Starts  *StartsNow `yson:"starts"`
	// Commands make the changes, in this order; empty if no command does.
	Commands []string `yson:"commands"`
	// First is when the first job starts; zero means now.
	First time.Time `yson:"first_start"`
	// Until is when a wait ends at the latest; zero if unknown.
	Until time.Time `yson:"changes/0/until"`
	Raw   Value     `yson:"."`
}

// Attempt is a change that does not help.
type Attempt struct {
	Knob    string `yson:"knob"`
	Text    string `yson:"text"`
	Refused string `yson:"refused"` // the validator's sentence, empty if it was not refused
}

// AdviseOptions narrow the search of AdviseOperation. The zero value asks for one job, or all of a gang.
type AdviseOptions struct {
	Jobs  int           `yson:"jobs"`  // how many must start; -1: all that wait
	By    time.Duration `yson:"by"`    // how long they may take to start; zero: now
	Upto  string        `yson:"upto"`  // who may have to act: user, owner or administrator; empty: all
	Knobs []string      `yson:"knobs"` // the only kinds of change to try; empty: all
}

// AdviseOperation finds the least changes that let an operation start jobs now. It changes nothing.
func (c *Client) AdviseOperation(ctx context.Context, name string, options AdviseOptions) (*Advice, error) {
	parameters := map[string]any{"jobs": options.Jobs}
	if key := operationNamed(name); key.Alias != "" {
		parameters["operation_alias"] = key.Alias
	} else {
		parameters["operation_id"] = key.ID
	}
	if options.By != 0 {
		parameters["by"] = options.By.Milliseconds()
	}
	if options.Upto != "" {
		parameters["upto"] = options.Upto
	}
	if len(options.Knobs) > 0 {
		parameters["knobs"] = options.Knobs
	}
	return ask[Advice](ctx, c, "advise_operation", parameters)
}

// ExplainPool explains what a pool demands and does not have. An empty tree is the default one.
func (c *Client) ExplainPool(ctx context.Context, tree, pool string) (*PoolExplanation, error) {
	parameters := map[string]any{"pool": pool}
	if tree != "" {
		parameters["pool_tree"] = tree
	}
	return ask[PoolExplanation](ctx, c, "explain_pool", parameters)
}

// ExplainCluster explains what waits in all trees.
func (c *Client) ExplainCluster(ctx context.Context) (*ClusterExplanation, error) {
	return ask[ClusterExplanation](ctx, c, "explain_cluster", map[string]any{})
}

// ExplainJob explains where a job runs and what may preempt it, or how it ended.
func (c *Client) ExplainJob(ctx context.Context, id string) (*JobExplanation, error) {
	return ask[JobExplanation](ctx, c, "explain_job", map[string]any{"job_id": id})
}
