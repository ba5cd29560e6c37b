package client

import (
	"context"
	"time"
)

// WhatIf compares the cluster ahead on virtual time without and with changes.
type WhatIf struct {
	AsOf  time.Time     `yson:"as_of"`
	Epoch int64         `yson:"epoch"`
	For   time.Duration `yson:"for"`
	// Model states what the runs assume, in words.
	Model    []string         `yson:"model"`
	Promises []PromiseVerdict `yson:"feasibility"`
	Before   ClusterFigures   `yson:"cluster/before"`
	After    ClusterFigures   `yson:"cluster/after"`
	// Pools and Operations are those that differ, largest differences first.
	Pools               []PoolEffect      `yson:"pools"`
	UnchangedPools      int64             `yson:"unchanged_pool_count"`
	Operations          []OperationEffect `yson:"operations"`
	UnchangedOperations int64             `yson:"unchanged_operation_count"`
	Raw                 Value             `yson:"."`
}

// PromiseVerdict states whether the nodes can keep the promises of a changed tree.
type PromiseVerdict struct {
	Tree     string   `yson:"pool_tree"`
	Feasible bool     `yson:"is_feasible"`
	Findings []string `yson:"findings"`
}

// ClusterFigures are of one run.
type ClusterFigures struct {
	Nodes               int64   `yson:"node_count"`
	StartedJobs         int64   `yson:"started_job_count"`
	CompletedJobs       int64   `yson:"completed_job_count"`
	PreemptedJobs       int64   `yson:"preempted_job_count"`
	LostCoreSeconds     float64 `yson:"lost_core_seconds"`
	CompletedOperations int64   `yson:"completed_operation_count"`
	Raw                 Value   `yson:"."`
}

// PoolEffect is a pool without and with the changes; nil if it does not exist there.
type PoolEffect struct {
	Tree   string       `yson:"pool_tree"`
	Pool   string       `yson:"pool"`
	Before *PoolFigures `yson:"before"`
	After  *PoolFigures `yson:"after"`
}

// PoolFigures are of one pool and one run. Usage, demand and fair share are averages, as parts of the
// cluster.
type PoolFigures struct {
	Usage           float64 `yson:"usage"`
	Demand          float64 `yson:"demand"`
	FairShare       float64 `yson:"fair_share"`
	StartedJobs     int64   `yson:"started_job_count"`
	WaitP50         float64 `yson:"job_wait_p50"` // seconds
	WaitP90         float64 `yson:"job_wait_p90"`
	PreemptedJobs   int64   `yson:"preempted_job_count"`
	LostCoreSeconds float64 `yson:"lost_core_seconds"`
	// GuaranteeKept is the part of the time in which its guarantee was kept; nil if it was not demanded.
	GuaranteeKept *float64 `yson:"guarantee_kept"`
}

// OperationEffect is an operation without and with the changes; nil if it does not exist there.
type OperationEffect struct {
	Operation string            `yson:"operation"`
	Pool      string            `yson:"pool"`
	Before    *OperationFigures `yson:"before"`
	After     *OperationFigures `yson:"after"`
}

// OperationFigures are of one operation and one run. Times are zero if they are after its end.
type OperationFigures struct {
	Pool          string    `yson:"pool"`
	State         string    `yson:"state"`
	FirstStart    time.Time `yson:"first_start"`
	Finish        time.Time `yson:"finish"`
	StartedJobs   int64     `yson:"started_job_count"`
	CompletedJobs int64     `yson:"completed_job_count"`
	PreemptedJobs int64     `yson:"preempted_job_count"`
}

// WhatIf runs the cluster ahead without and with the changes of a document, which is YAML, JSON or a
// value. file names it in messages. A positive horizon overrides the document's. It changes nothing.
func (c *Client) WhatIf(ctx context.Context, document any, file string, horizon time.Duration) (*WhatIf, error) {
	parameters := map[string]any{"document": document}
	if file != "" {
		parameters["file"] = file
	}
	if horizon != 0 {
		parameters["for"] = horizon.Milliseconds()
	}
	return ask[WhatIf](ctx, c, "what_if", parameters)
}
