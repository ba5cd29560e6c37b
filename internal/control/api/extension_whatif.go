package api

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/sim/ahead"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

// whatIf runs the cluster ahead without and with changes.
func whatIf(c *call) (yson.Node, error) {
	if err := c.Live(); err != nil {
		return yson.Node{}, err
	}
	asOf, err := c.asOf()
	if err != nil {
		return yson.Node{}, err
	}
	var answer server.Answer[*ahead.Report]
	verdicts := []yson.Node{}
	if asOf.IsZero() {
		plan, problem := c.readWhatIf(c.aheadNames())
		if problem != nil {
			return yson.Node{}, problem
		}
		if verdicts, err = c.verdicts(plan); err != nil {
			return yson.Node{}, err
		}
		answer, err = c.Server.WhatIf(c.Context, c.Who.User, plan)
	} else {
		answer, err = c.Server.WhatIfAt(c.Context, c.Who.User, asOf, c.readWhatIf)
	}
	var bound *sim.BoundError
	if errors.As(err, &bound) {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "%v", err)
	}
	if err != nil {
		return yson.Node{}, err
	}
	r := answer.Value
	visible := c.visibleName(!asOf.IsZero())
	pools := make([]yson.Node, len(r.Pools))
	for i := range r.Pools {
		row := &r.Pools[i]
		pools[i] = yson.Map(
			yson.Pair("pool_tree", yson.String(row.Tree)), yson.Pair("pool", yson.String(row.Pool)),
			yson.Pair("before", poolFigures(row.Before)), yson.Pair("after", poolFigures(row.After)))
	}
	operations := make([]yson.Node, len(r.Operations))
	for i := range r.Operations {
		row := &r.Operations[i]
		operations[i] = yson.Map(
			yson.Pair("operation", yson.String(visible(row.Name))), yson.Pair("pool", yson.String(row.Pool)),
			yson.Pair("before", operationFigures(r.AsOf, row.Before)), yson.Pair("after", operationFigures(r.AsOf, row.After)))
	}
	return yson.Map(
		yson.Pair("as_of", wire.Instant(answer.Glass.AsOf)), yson.Pair("epoch", yson.Int64(int64(answer.Glass.Epoch))),
		yson.Pair("for", wire.Milliseconds(r.For)), yson.Pair("model", wire.Texts(r.Model)), yson.Pair("feasibility", yson.List(verdicts...)),
		yson.Pair("cluster", yson.Map(yson.Pair("before", clusterFigures(&r.Before)), yson.Pair("after", clusterFigures(&r.After)))),
		yson.Pair("pools", yson.List(pools...)), yson.Pair("unchanged_pool_count", yson.Int64(int64(r.UnchangedPools))),
		yson.Pair("operations", yson.List(operations...)), yson.Pair("unchanged_operation_count", yson.Int64(int64(r.UnchangedOperations)))), nil
}

// readWhatIf reads the document of changes.
func (c *call) readWhatIf(names ahead.Names) (*ahead.Plan, error) {
	n, ok := c.Parameters.Get("document")
	if !ok {
		return nil, wire.Missing("document")
	}
	file, err := c.Parameters.Text("file", "document")
	if err != nil {
		return nil, err
	}
	var v document.Value
	if text, isText := n.Text(); isText {
		if len(text) > maxScenario {
			return nil, wire.Errorf(wire.CodeGeneric, "The document has %d bytes; a server takes %d at most", len(text), maxScenario)
		}
		if v, err = notation.Parse(file, []byte(text)); v.IsNull() {
			v = document.Map()
		}
	} else {
		v, err = wire.ToDocument(n)
	}
	if err != nil {
		return nil, err
	}
	if c.Parameters.Has("for") {
		horizon, err := c.Parameters.Duration("for", 0)
		if err != nil {
			return nil, err
		}
		v = v.With("for", document.Text(document.FormatDuration(horizon)))
	}
	plan, err := ahead.Read(v, file, names)
	var horizon *ahead.HorizonError
	switch {
	case errors.As(err, &horizon):
		return nil, wire.Errorf(wire.CodeGeneric, "%v", err)
	case err != nil:
		return nil, wire.Errorf(wire.CodeGeneric, "The document is no correct question").Because(problemsIn(err)...)
	}
	return plan, nil
}

// aheadNames resolves names against the live cluster.
func (c *call) aheadNames() ahead.Names {
	trees := c.Server.Trees()
	return ahead.Names{
		User: c.Who.User, DefaultTree: trees.Default,
		Tree: func(name string) (*pooltree.Tree, bool) {
			config, there := trees.Find(name)
			if !there {
				return nil, false
			}
			return config.Tree, true
		},
		Replace: func(name string, v document.Value) (*pooltree.Tree, error) {
			config, there := trees.Find(name)
			if !there {
				return nil, fmt.Errorf("there is no pool tree %q", name)
			}
			p := &poolPlan{tree: name, before: config.Tree}
			err := p.readTree(v, pooltree.Options{KeepUnknown: true})
			return p.after, err
		},
		Node: func(name string) (resource.Amounts, []string, bool) {
			for n := range c.Server.View().Picture.Nodes() {
				if n.Name == name {
					return n.Resources, n.Tags, true
				}
			}
			return resource.Amounts{}, nil, false
		},
		Operation: func(name string) (string, error) {
			op, there := c.operationCalled(name)
			if !there {
				return "", fmt.Errorf("no operation %s runs or waits", wire.CutText(name, 100))
			}
			return c.Server.NameOf(op.Number), nil
		},
	}
}

// operationCalled returns an operation that has not ended, by its id or alias.
func (c *call) operationCalled(name string) (*server.Operation, bool) {
	key := server.OperationKey{Alias: name}
	if !strings.HasPrefix(name, "*") {
		id, err := guid.Parse(name)
		if err != nil {
			return nil, false
		}
		key = server.OperationKey{ID: id}
	}
	return c.Server.Operation(key)
}

// visibleName returns the names of operations as the caller may see them. Whose the operations of the past
// were that have ended is not known.
func (c *call) visibleName(past bool) func(string) string {
	all := c.mayReadAt(orchid.OperationsPath) == nil
	return func(name string) string {
		op, there := c.operationCalled(name)
		if own := there && op.User == c.Who.User; !all && !own && (there || past) {
			return anotherOperation
		}
		return name
	}
}

// verdicts returns whether the nodes can keep the promises of the trees that a plan changes. A change
// that the validator refuses is an error.
func (c *call) verdicts(plan *ahead.Plan) (list []yson.Node, err error) {
	trees, changed := c.Server.Trees(), map[string]*pooltree.Tree{}
	var order []string
	for _, e := range plan.Events {
		name, next := "", (*pooltree.Tree)(nil)
		switch a := e.Action.(type) {
		case scenario.ReplaceTree:
			name, next = a.Tree, a.Config
		case scenario.EditTree:
			name = a.Tree
			if next = changed[name]; next == nil {
				config, there := trees.Find(name)
				if !there {
					return nil, wire.Errorf(wire.CodeGeneric, "%s: there is no pool tree %q", e.Where, name)
				}
				next = config.Tree
			}
			if next, _, err = next.With(a.Edits...); err != nil {
				return nil, wire.Errorf(wire.CodeGeneric, "%s: the change is refused", e.Where).Because(problemsIn(err)...)
			}
		default:
			continue
		}
		if changed[name] == nil {
			order = append(order, name)
		}
		changed[name] = next
	}
	for _, name := range order {
		verdict, err := c.feasibleTree(name, changed[name])
		if err != nil {
			return nil, err
		}
		if verdict == nil {
			continue
		}
		var findings []string
		for _, f := range verdict.Findings {
			findings = append(findings, f.String())
		}
		list = append(list, yson.Map(
			yson.Pair("pool_tree", yson.String(name)), yson.Pair("is_feasible", yson.Boolean(verdict.OK)), yson.Pair("findings", wire.Texts(findings))))
	}
	return list, nil
}

func clusterFigures(f *ahead.Cluster) yson.Node {
	used := make([]yson.Entry, 0, len(f.Utilisation))
	for _, k := range resource.Kinds {
		if f.Utilisation[k] > 0 {
			used = append(used, yson.Pair(k.String(), orchid.Number(f.Utilisation[k])))
		}
	}
	return yson.Map(
		yson.Pair("node_count", yson.Int64(int64(f.Nodes))), yson.Pair("utilisation", yson.Map(used...)),
		yson.Pair("started_job_count", yson.Int64(f.JobsStarted)), yson.Pair("completed_job_count", yson.Int64(f.JobsCompleted)),
		yson.Pair("preempted_job_count", yson.Int64(f.Preempted)), yson.Pair("lost_core_seconds", orchid.Number(f.Lost)),
		yson.Pair("completed_operation_count", yson.Int64(f.OperationsCompleted)), yson.Pair("rejected_operation_count", yson.Int64(f.Rejected)),
		yson.Pair("event_count", yson.Int64(f.Events)))
}

func poolFigures(f *ahead.PoolFigures) yson.Node {
	if f == nil {
		return yson.Entity()
	}
	kept, volume := yson.Entity(), yson.Entity()
	if f.GuaranteeDemanded {
		kept = orchid.Number(f.GuaranteeKept)
	}
	if f.Integral {
		volume = orchid.Number(f.Volume)
	}
	return yson.Map(
		yson.Pair("usage", orchid.Number(f.Usage)), yson.Pair("demand", orchid.Number(f.Demand)), yson.Pair("fair_share", orchid.Number(f.Share)),
		yson.Pair("started_job_count", yson.Int64(f.JobsStarted)),
		yson.Pair("job_wait_p50", orchid.Number(f.WaitP50)), yson.Pair("job_wait_p90", orchid.Number(f.WaitP90)),
		yson.Pair("preempted_job_count", yson.Int64(f.Preempted)), yson.Pair("caused_preemption_count", yson.Int64(f.Caused)),
		yson.Pair("lost_core_seconds", orchid.Number(f.Lost)), yson.Pair("guarantee_kept", kept),
		yson.Pair("starving_seconds", orchid.Number(f.StarvingSeconds)), yson.Pair("volume", volume))
}

func operationFigures(asOf time.Time, f *ahead.OperationFigures) yson.Node {
	if f == nil {
		return yson.Entity()
	}
	at := func(seconds float64, known bool) yson.Node {
		if !known {
			return yson.Entity()
		}
		return wire.Instant(asOf.Add(time.Duration(seconds * float64(time.Second))))
	}
	return yson.Map(
		yson.Pair("pool", yson.String(f.Pool)), yson.Pair("state", yson.String(f.State)),
		yson.Pair("first_start", at(f.Started, f.HasStarted)), yson.Pair("finish", at(f.Finished, f.HasFinished)),
		yson.Pair("started_job_count", yson.Int64(f.JobsStarted)), yson.Pair("completed_job_count", yson.Int64(f.Completed)),
		yson.Pair("preempted_job_count", yson.Int64(f.Preempted)), yson.Pair("lost_core_seconds", orchid.Number(f.Lost)),
		yson.Pair("mean_job_wait", orchid.Number(f.MeanWait)), yson.Pair("starving_seconds", orchid.Number(f.StarvingSeconds)))
}
