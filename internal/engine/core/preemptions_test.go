package core

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// preemptionBooks keeps the ledger of a world's preemptions next to a slow twin.
type preemptionBooks struct {
	*ledger.Preemptions
	w       *world
	started map[JobID]time.Time
	// rows are the preempted jobs, with what is lost once they have ended.
	rows   map[JobID]*preemptedRow
	flows  []twinFlow
	cycles []ledger.Cycle
}

type preemptedRow struct {
	held resource.Amounts
	lost resource.Amounts // × microseconds
}

// twinFlow is a preemption for a starving operation.
type twinFlow struct {
	at             time.Time
	victim, winner OperationID
	holds          bool // the premises of the proof
	shares         [2]float64
}

func keepPreemptions(w *world) *preemptionBooks {
	b := &preemptionBooks{Preemptions: ledger.NewPreemptions(), w: w, started: map[JobID]time.Time{}, rows: map[JobID]*preemptedRow{}}
	w.onTake = b.take
	return b
}

func (b *preemptionBooks) poolOf(tree string, id OperationID) string {
	for _, p := range b.w.PlacesOf(id) {
		if p.Tree == tree {
			return p.Pool
		}
	}
	return ""
}

// take enters decisions as a server does.
func (b *preemptionBooks) take() {
	w := b.w
	for i := range w.out.Stopped {
		s := &w.out.Stopped[i]
		if s.Preemption == 0 && s.For == NoOperation {
			continue
		}
		p := ledger.Preempted{
			Edge: ledger.Edge{Tree: "default", Victim: b.poolOf("default", s.Operation), Rule: ledger.RuleOf(s.Preemption, s.Class)},
			Job:  uint64(s.Job), Operation: int32(s.Operation), Started: b.started[s.Job], Held: s.Held, Balance: s.Balance,
		}
		b.rows[s.Job] = &preemptedRow{held: s.Held}
		if s.For != NoOperation {
			p.Winner, p.ForJob, p.For = b.poolOf("default", s.For), uint64(s.ForJob), int32(s.For)
			v := &s.Balance
			b.flows = append(b.flows, twinFlow{
				w.now, s.Operation, s.For, v.VictimLeft >= v.VictimTolerance-1e-9 && v.WinnerHad < v.WinnerTolerance-1e-9, [2]float64{v.VictimShare, v.WinnerShare},
			})
		}
		b.Preempt(w.now, &p)
	}
	for i := range w.out.Ended {
		e := &w.out.Ended[i]
		b.end(e.Job, ledger.End{Done: e.State == JobCompleted || e.State == JobInterrupted, NotBegun: e.NotBegun})
	}
	for i := range w.out.Stopped {
		if s := &w.out.Stopped[i]; s.Timeout == 0 {
			b.end(s.Job, ledger.End{})
		}
	}
	for _, s := range w.out.Started {
		b.started[s.Job] = w.now
	}
	b.cycles = append(b.cycles, b.Check(w.now, func(tree string, id int32) string { return b.poolOf(tree, OperationID(id)) })...)
}

func (b *preemptionBooks) end(id JobID, end ledger.End) {
	started, known := b.started[id]
	if !known {
		started = b.w.now // an adopted job
	}
	if row := b.rows[id]; row != nil && !end.Done && row.lost.IsZero() {
		for k := range row.lost {
			row.lost[k] = row.held[k] * b.w.now.Sub(started).Microseconds()
		}
	}
	end.Job, end.Started = uint64(id), started
	b.End(b.w.now, &end)
}

// TestPropertyPreemptionsAddUpAndCirclesAreNamed is L4 and L6 on default histories.
func TestPropertyPreemptionsAddUpAndCirclesAreNamed(t *testing.T) {
	expected.Tenth(t)
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(r, threePools)
		b := keepPreemptions(w)
		for id := range NodeID(rapid.IntRange(1, 2).Draw(r, "nodes")) {
			w.addNode(id, rapid.Int64Range(4, 10).Draw(r, "cpu"))
		}
		w.pass(time.Second)
		for range rapid.IntRange(5, 20).Draw(r, "steps") {
			w.step(r)
			w.pass(20 * time.Second)
			for id := range NodeID(2) {
				if w.nodes[id] {
					w.beat(id)
				}
			}
		}
		w.pass(time.Minute)
		b.checkLosses()
		b.checkCircles()
	})
}

// checkLosses compares the sums of all edges with those of the preempted jobs.
func (b *preemptionBooks) checkLosses() {
	var lost [resource.KindCount]big.Int
	for _, row := range b.rows {
		for k := range row.lost {
			lost[k].Add(&lost[k], big.NewInt(row.lost[k]))
		}
	}
	var hours []ledger.TallyRow
	for _, row := range b.Edges.Flush(b.w.now) {
		if row.Level == ledger.Hour {
			hours = append(hours, row)
		}
	}
	edges, lines, err := b.Edges.Total(hours)
	if err != nil {
		b.w.tb.Fatal(err)
	}
	var sums [resource.KindCount]ledger.Sum
	jobs := int64(0)
	for _, e := range edges {
		jobs += lines[e].Jobs
		for k := range sums {
			sums[k].Add(lines[e].Lost[k])
		}
	}
	if jobs != int64(len(b.rows)) {
		b.w.tb.Fatalf("the edges have %d jobs, %d were preempted", jobs, len(b.rows))
	}
	for k := range sums {
		if sums[k].String() != lost[k].String() {
			b.w.tb.Fatalf("%v: the edges lost %s, the jobs %s", resource.Kind(k), sums[k], &lost[k])
		}
	}
}

// checkCircles checks that operations are named that took resources from each other within ten minutes while the
// premises of the proof did not all hold; if nothing but shares changed, one of them must have come twice. It returns how
// often one took from another that had taken from it.
func (b *preemptionBooks) checkCircles() (back int) {
	named := map[OperationID]bool{}
	for i := range b.cycles {
		for _, id := range b.cycles[i].Operations {
			named[OperationID(id)] = true
		}
	}
	for i, first := range b.flows {
		for _, second := range b.flows[i+1:] {
			// Windows begin with a minute: what is less than nine minutes apart is in one.
			if second.at.Sub(first.at) > 9*time.Minute || second.victim != first.winner || second.winner != first.victim {
				continue
			}
			back++
			held := first.holds && second.holds && near(first.shares[0], second.shares[1]) && near(first.shares[1], second.shares[0])
			again := slices.ContainsFunc(b.flows[i+1:], func(third twinFlow) bool {
				return third.victim == first.victim && third.winner == first.winner && !third.at.Before(second.at) && third.at.Sub(first.at) <= 9*time.Minute
			})
			if first.holds && second.holds && !again {
				continue // a handover
			}
			if !held && !(named[first.victim] && named[first.winner]) {
				b.w.tb.Fatalf("operations %d and %d preempted each other at %v and %v and are not named", first.victim, first.winner, first.at, second.at)
			}
		}
	}
	return back
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

// TestNoCircleOfDefaultHistoriesIsUnnamed is L6 in numbers: with default options, operations that take resources from
// each other are named unless the proof holds that they cannot go on. It tries ten times as many histories as properties do, in make long a
// million.
func TestNoCircleOfDefaultHistoriesIsUnnamed(t *testing.T) {
	count, stream := 10*expected.Cases(t), expected.Seed()
	pools := parseTree(t, "pools: {a: {weight: 2}, b: {min_share_resources: {cpu: 3}}, c: {pools: {d: {}, e: {mode: fifo}}}}")
	trees := &TreesInput{[]document.Named[*pooltree.Tree]{{Name: "default", Value: pools}}, "default"}
	var specs []*operation.Spec
	for _, pool := range []string{"a", "b", "d", "e"} {
		for cpu := 1; cpu <= 3; cpu++ {
			text := fmt.Sprintf("{pool: %s, tasks: {a: {job_count: 20, cpu_limit: %d, memory_limit: 1GiB}}}", pool, cpu)
			s, err := operation.Read(expected.Document(t, text), operation.ReadOptions{CommandOptional: true})
			if err != nil {
				t.Fatal(err)
			}
			specs = append(specs, s.Spec)
		}
	}
	preempted, back, named, seed := 0, 0, 0, 0
	defer func() {
		if t.Failed() {
			t.Logf("history %d with RAPID_SEED=%d", seed, stream)
		}
	}()
	for ; seed < count; seed++ {
		random := rand.New(rand.NewPCG(uint64(seed), stream))
		w := emptyWorld(t)
		w.bare = true
		b := keepPreemptions(w)
		_ = w.do(trees)
		nodes := NodeID(1 + random.IntN(2))
		for id := range nodes {
			w.addNode(id, 3+random.Int64N(6))
		}
		for range 4 + random.IntN(12) {
			if random.IntN(3) == 0 || w.next == 0 {
				if w.do(&StartInput{w.next, "anna", specs[random.IntN(len(specs))]}) == nil {
					w.next++
				}
				w.take()
			}
			w.pass(time.Duration(1+random.IntN(60)) * time.Second)
			for id := range nodes {
				var ended []Finished
				if job, found := w.some(JobID(random.IntN(30))); found && w.jobs[job].Node == id && random.IntN(4) == 0 {
					ended = append(ended, Finished{Job: job})
				}
				w.beat(id, ended...)
			}
		}
		w.pass(time.Minute)
		preempted, back, named = preempted+len(b.rows), back+b.checkCircles(), named+len(b.cycles)
	}
	t.Logf("%d histories: %d jobs were preempted, %d times by an operation that they had preempted, %d circles are named", count, preempted, back, named)
	if preempted < count/10 {
		t.Errorf("only %d jobs were preempted", preempted)
	}
}

// TestABuiltLoopIsNamedWithinAMinute is L6 on a tree whose thresholds are forced: of three places, each of two
// operations always wants the third, and may take it from the other.
func TestABuiltLoopIsNamedWithinAMinute(t *testing.T) {
	w := newWorld(t, `
preemption_satisfaction_threshold: 0.1
aggressive_preemption_satisfaction_threshold: 0.05
fair_share_starvation_tolerance: 1
fair_share_preemption_timeout: 5s
preemptive_scheduling_backoff: 0s
pools: {a: {}, b: {}}
`)
	b := keepPreemptions(w)
	w.addNode(0, 6)
	w.pass(time.Second)
	w.mustStart(`{pool: a, tasks: {main: {job_count: 100, cpu_limit: 2, memory_limit: 1GiB}}}`)
	w.mustStart(`{pool: b, tasks: {main: {job_count: 100, cpu_limit: 2, memory_limit: 1GiB}}}`)
	var back time.Time // when the second operation first loses what it took
	for range 600 {
		w.pass(time.Second)
		w.beat(0)
		for _, f := range b.flows {
			if back.IsZero() && f.victim == 1 {
				back = f.at
			}
		}
		if len(b.cycles) > 0 {
			break
		}
	}
	if back.IsZero() {
		t.Fatal("there is no loop")
	}
	if len(b.cycles) == 0 || w.now.Sub(back) > time.Minute+time.Second {
		t.Fatalf("the loop of %v is named at %v: %+v", back, w.now, b.cycles)
	}
	c := &b.cycles[0]
	if !slices.Equal(c.Operations, []int32{0, 1}) || !slices.Equal(c.Pools, []string{"a", "b"}) || c.Jobs == 0 || c.Premises == 0 || c.Lost[resource.CPU].IsZero() {
		t.Errorf("named %+v", c)
	}
}
