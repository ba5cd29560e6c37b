package sim

import (
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/value/resource"
)

// number returns a numeric figure; false if the subject has none, for example
// because it has not arrived.
func (s subject) number(c scenario.Check, from time.Duration, since map[scenario.Figure]outcome.Vector) (float64, bool) {
	if s.missing != "" {
		return 0, false
	}
	if slices.Contains(averages, c.Figure) {
		now, ok := s.integral(c.Figure)
		seconds := (s.run.now - max(from, s.run.from)).Seconds()
		if !ok || seconds <= 0 {
			return 0, false
		}
		return (now[c.Kind] - since[c.Figure][c.Kind]) / seconds, true
	}
	switch c.Figure {
	case scenario.FairShare, scenario.Demand, scenario.PendingJobs, scenario.JobClasses:
		return s.observed(c)
	case scenario.Usage, scenario.RunningJobs:
		return s.inUse(c)
	case scenario.VolumeNow:
		return s.pool.state.volume, s.pool.there
	case scenario.Operations:
		return s.operationsNow()
	case scenario.GuaranteeBelow:
		return s.pool.compliance.LongestSeconds, true
	case scenario.StartedBy, scenario.StartedAfter:
		return s.operation.started.Seconds(), s.operation.started != never
	case scenario.FinishedBy:
		return s.operation.finished.Seconds(), s.operation.state == operation.Completed
	case scenario.Waits:
		w := s.waits()
		return w.figures().Get(c.Key)
	}
	return s.counted(c)
}

// observed returns what the core reports about an element.
func (s subject) observed(c scenario.Check) (float64, bool) {
	if s.pool == nil && s.operation == nil {
		return float64(s.run.books.clusterNow.waitingJobs), c.Figure == scenario.PendingJobs
	}
	v, ok := s.view()
	switch c.Figure {
	case scenario.FairShare:
		return v.fairShare[c.Kind], ok
	case scenario.Demand:
		return v.demand[c.Kind], ok
	case scenario.PendingJobs:
		return float64(v.pendingJobs), ok
	}
	for class, count := range v.classes {
		if scheduling.Class(class).String() == c.Key {
			return float64(count), ok
		}
	}
	return 0, false
}

// inUse returns what runs, according to the books.
func (s subject) inUse(c scenario.Check) (float64, bool) {
	var usage resource.Amounts
	jobs := int32(0)
	switch {
	case s.operation != nil:
		usage, jobs = s.operation.usage, s.operation.account.running
	case s.node != nil:
		usage, jobs = s.node.usage, s.node.running
	case s.pool != nil:
		s.run.books.below(s.pool, func(p *poolAccount) {
			usage = usage.Add(p.usage)
			jobs += p.account.running
		})
	default:
		usage, jobs = s.run.books.cluster.usage, s.run.books.cluster.running
	}
	if c.Figure == scenario.RunningJobs {
		return float64(jobs), true
	}
	return usage.Float(c.Kind), true
}

// below visits a pool and everything below it.
func (b *books) below(top *poolAccount, visit func(*poolAccount)) {
	for i := range b.pools {
		for at := int32(i); at >= 0; at = b.pools[at].parent {
			if &b.pools[at] == top {
				visit(&b.pools[i])
				break
			}
		}
	}
}

func (s subject) operationsNow() (float64, bool) {
	if s.pool != nil {
		return float64(s.pool.state.runningOperations), s.pool.there
	}
	running := 0
	for i := range s.run.operations {
		if s.run.operations[i].state == operation.Running {
			running++
		}
	}
	return float64(running), true
}

func (s subject) waits() waits {
	switch {
	case s.operation != nil && s.operation.allWaits != nil:
		return slices.Clone(*s.operation.allWaits)
	case s.pool != nil:
		var all waits
		s.run.books.below(s.pool, func(p *poolAccount) { all = append(all, p.waits...) })
		return all
	case s.operation == nil:
		return slices.Clone(s.run.books.waits)
	}
	return nil
}

// counted returns figures about what has happened so far.
func (s subject) counted(c scenario.Check) (float64, bool) {
	b := &s.run.books
	var jobs outcome.Jobs
	var lost outcome.Vector
	var caused int64
	take := func(a *account) {
		jobs = addJobs(jobs, a.jobs)
		add(&lost, &a.lost, 1)
		caused += a.caused
	}
	stages, reasons := b.stageCounts, b.reasonCounts
	switch {
	case s.operation != nil:
		take(&s.operation.account)
		stages, reasons = s.operation.stages, s.operation.reasons
	case s.pool != nil:
		b.below(s.pool, func(p *poolAccount) { take(&p.account) })
	default:
		take(&b.cluster)
	}
	switch c.Figure {
	case scenario.StartedJobs:
		return float64(jobs.Started), true
	case scenario.CompletedJobs:
		return float64(jobs.Completed), true
	case scenario.Preemptions:
		return float64(jobs.Preempted), true
	case scenario.PreemptionsCaused:
		return float64(caused), true
	case scenario.LostResources:
		return lost[c.Kind], true
	case scenario.StartStages:
		return float64(countNamed(&b.stages, stages, c.Key)), true
	case scenario.PreemptionReasons:
		return float64(countNamed(&b.reasons, reasons, c.Key)), true
	case scenario.PreemptedFor:
		total := int64(0)
		for _, v := range s.operation.victims {
			if o := &s.run.operations[v.key]; o.name == c.Key || o.template == c.Key {
				total += v.count
			}
		}
		return float64(total), true
	}
	return 0, false
}

func countNamed(n *names, list []int32Count, name string) int64 {
	if i, ok := n.number[name]; ok {
		return countOf(list, i)
	}
	return 0
}

func addJobs(a, b outcome.Jobs) outcome.Jobs {
	return outcome.Jobs{
		Started: a.Started + b.Started, Completed: a.Completed + b.Completed, Preempted: a.Preempted + b.Preempted,
		LostWithNodes: a.LostWithNodes + b.LostWithNodes, Ended: a.Ended + b.Ended,
	}
}
