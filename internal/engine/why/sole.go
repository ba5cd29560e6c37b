package why

import (
	"github.com/weirhq/weir/internal/engine/core"
)

// mostSole is the number of blockers for which Sole finds out whether they are sole.
const mostSole = 8

// Sole finds out, for the first blockers of an operation, whether the removal of
// each alone lets its jobs start: on a fork without the blocker it runs a round.
// Then it ranks the list again. It stops when proceed returns false; proceed may wait.
func (s *Scene) Sole(list []Blocker, proceed func() bool) {
	tried := 0
	for i := range list {
		b := &list[i]
		if b.Sole != SoleUnknown || tried == mostSole || !proceed() {
			continue
		}
		starts, ok := s.without(b, proceed)
		if !ok {
			continue
		}
		tried++
		b.Sole, b.Starts = SoleNo, starts
		if starts > 0 {
			b.Sole = SoleYes
		}
	}
	rank(list)
}

// without counts the jobs of a blocker's kind that start in a round on a fork
// without it. ok is false if there is no change that removes it.
func (s *Scene) without(b *Blocker, pace func() bool) (starts int, ok bool) {
	gates := s.gates
	var inputs []core.Input
	lift := core.LiftInput{
		Operation: b.owner, Tree: b.tree, Pool: b.Pool, Resource: b.Resource, Option: b.Option, Task: b.task,
	}
	switch b.Code {
	case SchedulerReviving, SchedulerOverloaded, StoreUnavailable:
		gates.Cluster = nil
		for _, g := range s.gates.Cluster {
			if g.Code != b.Code {
				gates.Cluster = append(gates.Cluster, g)
			}
		}
	case Limit, JobLargerThanLimit:
		lift.Lift = core.LiftLimit
		inputs = append(inputs, &lift)
	case OperationSuspended:
		inputs = append(inputs, &core.ResumeInput{Operation: b.owner})
	case CountLimit:
		lift.Lift, lift.Pool = core.LiftCount, ""
		inputs = append(inputs, &lift)
	case AboveShareGraceful:
		lift.Lift = core.LiftGrace
		inputs = append(inputs, &lift)
	case NodeFilter:
		lift.Lift = core.LiftFilter
		inputs = append(inputs, &lift)
	case NodeBan:
		lift.Lift = core.LiftBans
		inputs = append(inputs, &lift)
	case NodeGated:
		gates.Nodes = nil
		for i := range s.gates.Nodes {
			g := &s.gates.Nodes[i]
			inputs = append(inputs, &core.NodeInput{Node: g.Node, Name: g.Name, Resources: g.Resources, Tags: g.Tags}, &core.SeenInput{Node: g.Node})
		}
	case NodeResources:
		if len(b.at) == 0 {
			return 0, false
		}
		like := s.core.NodeAt(b.tree, b.at[0])
		inputs = append(inputs, &core.NodeInput{Node: s.core.NextNode(), Name: "", Resources: b.need, Tags: s.core.NodeTags(like)})
	case Packing:
		lift.Lift = core.LiftPacking
		inputs = append(inputs, &lift)
	case TurnFIFO, TurnSatisfaction:
		lift.Lift, lift.Pool = core.LiftRivals, ""
		inputs = append(inputs, &lift)
	default:
		return 0, false
	}
	fork := s.before.Fork()
	var out core.Decisions
	for _, input := range inputs {
		if err := fork.Apply(s.now, input, &out); err != nil {
			return 0, false
		}
	}
	out.Reset()
	update(fork, s.now, &out)
	round(fork, s.now, &gates, &out, pace)
	anyTask := b.Code.Class() == ClassState || b.Code.Class() == ClassGate
	for _, start := range out.Started {
		if start.Operation == b.owner && (anyTask || start.Tree == b.tree && start.Task == b.task) {
			starts++
		}
	}
	return starts, true
}
