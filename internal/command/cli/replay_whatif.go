package cli

import (
	"context"
	"time"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/control/recorder"
	"github.com/weirhq/weir/internal/sim/ahead"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
)

func parseDocument(label string, data []byte) (document.Value, error) {
	v, err := notation.Parse(label, data)
	if err == nil && v.IsNull() {
		v = document.Map()
	}
	return v, err
}

// whatIf runs the cluster of the last moment ahead, without and with changes.
func (r *replay) whatIf(ctx context.Context, file string) error {
	v, label, err := documentOf(r.cmd, file)
	if err != nil {
		return err
	}
	plan, err := ahead.Read(v, label, r.aheadNames())
	if err != nil {
		return err
	}
	update, heartbeat := periodsOf(r.player.Header)
	report, err := ahead.Run(ctx, ahead.Base{
		Core: r.player.Core, Now: r.player.Now, Gates: recorder.GatesOf(r.player), UpdatePeriod: update, HeartbeatPeriod: heartbeat, Name: r.name,
	}, plan)
	if err != nil {
		return err
	}
	return writeWhatIf(r.out, effectsOf(report))
}

// aheadNames resolves the names in a document of changes.
func (r *replay) aheadNames() ahead.Names {
	names := ahead.NamesOf(r.player.Core, "root", nil)
	names.Operation = func(name string) (string, error) {
		id, err := r.find(name)
		return r.name(id), err
	}
	return names
}

// effectsOf is a report in the form that the API has.
func effectsOf(x *ahead.Report) *client.WhatIf {
	w := &client.WhatIf{
		AsOf: x.AsOf, For: x.For, Model: x.Model, Before: clusterEffects(&x.Before), After: clusterEffects(&x.After),
		UnchangedPools: int64(x.UnchangedPools), UnchangedOperations: int64(x.UnchangedOperations),
	}
	for i := range x.Pools {
		p := &x.Pools[i]
		w.Pools = append(w.Pools, client.PoolEffect{Tree: p.Tree, Pool: p.Pool, Before: poolEffects(p.Before), After: poolEffects(p.After)})
	}
	for i := range x.Operations {
		o := &x.Operations[i]
		w.Operations = append(w.Operations, client.OperationEffect{
			Operation: o.Name, Pool: o.Pool, Before: operationEffects(x.AsOf, o.Before), After: operationEffects(x.AsOf, o.After),
		})
	}
	return w
}

func clusterEffects(f *ahead.Cluster) client.ClusterFigures {
	return client.ClusterFigures{
		Nodes: int64(f.Nodes), StartedJobs: f.JobsStarted, CompletedJobs: f.JobsCompleted, PreemptedJobs: f.Preempted, LostCoreSeconds: f.Lost,
		CompletedOperations: f.OperationsCompleted,
	}
}

func poolEffects(f *ahead.PoolFigures) *client.PoolFigures {
	if f == nil {
		return nil
	}
	x := &client.PoolFigures{
		Usage: f.Usage, Demand: f.Demand, FairShare: f.Share, StartedJobs: f.JobsStarted, WaitP50: f.WaitP50, WaitP90: f.WaitP90,
		PreemptedJobs: f.Preempted, LostCoreSeconds: f.Lost,
	}
	if f.GuaranteeDemanded {
		x.GuaranteeKept = &f.GuaranteeKept
	}
	return x
}

func operationEffects(asOf time.Time, f *ahead.OperationFigures) *client.OperationFigures {
	if f == nil {
		return nil
	}
	at := func(seconds float64, known bool) time.Time {
		if !known {
			return time.Time{}
		}
		return asOf.Add(time.Duration(seconds * float64(time.Second)))
	}
	return &client.OperationFigures{
		Pool: f.Pool, FirstStart: at(f.Started, f.HasStarted), Finish: at(f.Finished, f.HasFinished), StartedJobs: f.JobsStarted,
		State: f.State, CompletedJobs: f.Completed, PreemptedJobs: f.Preempted,
	}
}
