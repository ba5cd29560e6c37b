package why_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/why"
)

// fixes returns the fixes in words.
func fixes(a *why.Advice) string {
	var list []string
	for i := range a.Fixes {
		list = append(list, a.Fixes[i].Text(named))
	}
	return strings.Join(list, "\n")
}

// fixOf returns the first fix that turns a knob.
func fixOf(t *testing.T, a *why.Advice, knob why.Knob) *why.Fix {
	t.Helper()
	for i := range a.Fixes {
		if a.Fixes[i].Changes[0].Knob == knob {
			return &a.Fixes[i]
		}
	}
	t.Fatalf("no fix turns %v:\n%s", knob, fixes(a))
	return nil
}

// limited is a pool with a limit of six cores, all in use, and a waiting operation.
func limited(t *testing.T, nodes int64) (*world, core.OperationID) {
	w := newWorld(t, "pools: {research: {resource_limits: {cpu: 6}}, batch: {}}")
	w.addNode(0, nodes)
	w.mustStart("{pool: research, tasks: {a: {job_count: 6, cpu_limit: 1, memory_limit: 512MiB}}}")
	w.pass(time.Second)
	w.beat(0)
	id := w.mustStart("{pool: research, tasks: {a: {job_count: 4, cpu_limit: 1, memory_limit: 512MiB}}}")
	w.pass(time.Minute)
	return w, id
}

func TestTheLeastLimitIsExact(t *testing.T) {
	w, id := limited(t, 20)
	a := w.advise(why.Question{Operation: id, Upto: why.Administrator})
	if a.Outcome != why.Found || a.Jobs != 1 {
		t.Fatalf("%v: %s", a.Outcome, fixes(a))
	}
	if first := a.Fixes[0].Text(named); first != "move it to pool batch" || a.Fixes[0].Starts != 4 || a.Fixes[0].Who != why.User {
		t.Errorf("the first fix is %q, which starts %d", first, a.Fixes[0].Starts)
	}
	f := fixOf(t, a, why.KnobLimit)
	if got := f.Text(named); got != "set resource_limits/cpu of pool research to 7 (was 6)" || !f.Minimal || f.Starts != 1 || f.Who != why.Owner {
		t.Errorf("%q, %+v", got, f)
	}
	if got, want := f.Effect(named), "1 job starts at once, the first on node0; nobody is preempted"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if f := fixOf(t, a, why.KnobSuspend); f.Harm.Stopped != 6 || f.Harm.LostSeconds() != 6*60 {
		t.Errorf("%+v", f.Harm)
	}
	if f := fixOf(t, a, why.KnobWait); f.Text(named) != "wait until 1 job of op-0 ends" || f.Who != why.Nobody {
		t.Errorf("%q", f.Text(named))
	}
	if a.Tests > 40 {
		t.Errorf("%d tests", a.Tests)
	}
}

func TestMoreJobsNeedMore(t *testing.T) {
	w, id := limited(t, 20)
	a := w.advise(why.Question{Operation: id, Upto: why.Administrator, Jobs: why.AllJobs})
	if f := fixOf(t, a, why.KnobLimit); f.Text(named) != "set resource_limits/cpu of pool research to 10 (was 6)" || f.Starts != 4 {
		t.Errorf("%q starts %d", f.Text(named), f.Starts)
	}
}

func TestOnlyOneActorAndOnlyOneKnob(t *testing.T) {
	w, id := limited(t, 20)
	for _, f := range w.advise(why.Question{Operation: id, Upto: why.User}).Fixes {
		if f.Who != why.User && f.Who != why.Nobody {
			t.Errorf("%v must: %s", f.Who, f.Text(named))
		}
	}
	a := w.advise(why.Question{Operation: id, Upto: why.Administrator, Knobs: []why.Knob{why.KnobLimit}})
	if len(a.Fixes) != 1 || a.Fixes[0].Changes[0].Knob != why.KnobLimit {
		t.Errorf("%s", fixes(a))
	}
	a = w.advise(why.Question{Operation: id, Upto: why.Administrator, MayUse: func(_, pool string) bool { return pool != "batch" }})
	if strings.Contains(fixes(a), "batch") {
		t.Errorf("a pool that the asker may not use: %s", fixes(a))
	}
}

// TestASuccessIsSeenBeforeAnythingIsBisected: with a full node no limit helps, and the answer does
// not report the end of a range.
func TestASuccessIsSeenBeforeAnythingIsBisected(t *testing.T) {
	w, id := limited(t, 6)
	a := w.advise(why.Question{Operation: id, Upto: why.Administrator, Knobs: []why.Knob{why.KnobLimit}})
	if a.Outcome != why.NoneWithinBounds || len(a.Fixes) != 0 || len(a.Tried) != 1 {
		t.Fatalf("%v: %s; tried %d", a.Outcome, fixes(a), len(a.Tried))
	}
}

// TestTwoBlockersNeedTwoChanges: a limit and the nodes.
func TestTwoBlockersNeedTwoChanges(t *testing.T) {
	w := newWorld(t, "pools: {outer: {resource_limits: {cpu: 2}, pools: {research: {resource_limits: {cpu: 1}}}}}")
	w.addNode(0, 20)
	w.mustStart("{pool: research, tasks: {a: {job_count: 1, cpu_limit: 1, memory_limit: 512MiB}}}")
	w.pass(time.Second)
	w.beat(0)
	id := w.mustStart("{pool: research, tasks: {a: {job_count: 4, cpu_limit: 2, memory_limit: 512MiB}}}")
	w.pass(time.Second)
	a := w.advise(why.Question{Operation: id, Upto: why.Administrator, Knobs: []why.Knob{why.KnobLimit}})
	const want = "set resource_limits/cpu of pool research to 3 (was 1), and set resource_limits/cpu of pool outer to 3 (was 2)"
	if a.Outcome != why.Found || fixes(a) != want || !a.Fixes[0].Minimal {
		t.Errorf("%v: got %q, want %q", a.Outcome, fixes(a), want)
	}
}

func TestAJobThatIsTooLargeNeverStarts(t *testing.T) {
	w := newWorld(t, "pools: {research: {}, batch: {}}")
	w.addNode(0, 4)
	id := w.mustStart("{pool: research, tasks: {a: {job_count: 1, cpu_limit: 8, memory_limit: 512MiB}}}")
	w.pass(time.Second)
	a := w.advise(why.Question{Operation: id, Upto: why.Administrator})
	if a.Outcome != why.Never {
		t.Fatalf("%v: %s", a.Outcome, fixes(a))
	}
	if f := fixOf(t, a, why.KnobNeed); f.Text(named) != "start it again with cpu_limit 4 (was 8) in task a" || !f.Minimal {
		t.Errorf("%q", f.Text(named))
	}
	if f := fixOf(t, a, why.KnobNodes); f.Changes[0].Count != 1 {
		t.Errorf("%q", f.Text(named))
	}
}

func TestASuspendedOperationIsResumed(t *testing.T) {
	w := newWorld(t, "pools: {research: {}}")
	w.addNode(0, 4)
	id := w.mustStart("{pool: research, tasks: {a: {job_count: 1, cpu_limit: 1, memory_limit: 512MiB}}}")
	w.must(&core.SuspendInput{Operation: id})
	w.pass(time.Second)
	a := w.advise(why.Question{Operation: id, Upto: why.Administrator})
	if fixes(a) != "resume the operation" {
		t.Errorf("%s", fixes(a))
	}
}

func TestACountLimitIsRaisedByOne(t *testing.T) {
	w := newWorld(t, "pools: {research: {max_running_operation_count: 1}}")
	w.addNode(0, 4)
	w.mustStart("{pool: research, tasks: {a: {job_count: 1, cpu_limit: 1, memory_limit: 512MiB}}}")
	id := w.mustStart("{pool: research, tasks: {a: {job_count: 1, cpu_limit: 1, memory_limit: 512MiB}}}")
	w.pass(time.Second)
	a := w.advise(why.Question{Operation: id, Upto: why.Administrator})
	if f := fixOf(t, a, why.KnobCount); f.Text(named) != "set max_running_operation_count of pool research to 2 (was 1)" || !f.Minimal {
		t.Errorf("%q", f.Text(named))
	}
	if f := fixOf(t, a, why.KnobWait); f.Text(named) != "wait until op-0 ends" {
		t.Errorf("%q", f.Text(named))
	}
}

func TestAClosedGateComesFirst(t *testing.T) {
	w, id := limited(t, 20)
	w.gates.Cluster = []why.Gate{{Code: why.SchedulerReviving, Until: w.now.Add(time.Minute)}}
	a := w.advise(why.Question{Operation: id, Upto: why.Administrator})
	if len(a.Gates) != 1 || a.Outcome != why.Found || len(a.Fixes) == 0 {
		t.Errorf("%v, %d gates: %s", a.Outcome, len(a.Gates), fixes(a))
	}
}

func TestAnAnswerThatIsStoppedNamesWhatWasNotTried(t *testing.T) {
	w, id := limited(t, 20)
	tests := 0
	a, err := w.look().Advise(why.Question{Operation: id, Upto: why.Administrator}, func() bool { tests++; return tests < 3 })
	if err != nil || len(a.NotTried) == 0 {
		t.Errorf("%v, %+v", err, a)
	}
}

func TestARefusedChangeHasTheSentenceOfTheValidator(t *testing.T) {
	w := newWorld(t, "pools: {outer: {min_share_resources: {cpu: 1}, pools: {queue: {mode: fifo, min_share_resources: {cpu: 1}}}}}")
	w.addNode(0, 1)
	w.mustStart("{pool: queue, tasks: {a: {job_count: 2, cpu_limit: 1, memory_limit: 512MiB}}}")
	w.now = w.now.Add(time.Second)
	id := w.mustStart("{pool: queue, tasks: {a: {job_count: 2, cpu_limit: 1, memory_limit: 512MiB}}}")
	w.pass(time.Second)
	a := w.advise(why.Question{Operation: id, Upto: why.Administrator, Knobs: []why.Knob{why.KnobGuarantee}})
	if len(a.Tried) != 1 || !strings.Contains(a.Tried[0].Refused, "outer") {
		t.Errorf("%v: %+v", a.Outcome, a.Tried)
	}
}

func TestAPoolStatesWhatItLacksOfItsGuarantee(t *testing.T) {
	w := newWorld(t, "pools: {research: {min_share_resources: {cpu: 3}}, batch: {}}")
	w.addNode(0, 4)
	w.mustStart("{pool: batch, tasks: {a: {job_count: 4, cpu_limit: 1, memory_limit: 512MiB, job_time_limit: 60000}}}")
	w.pass(time.Second)
	w.beat(0)
	id := w.mustStart("{pool: research, tasks: {a: {job_count: 2, cpu_limit: 1, memory_limit: 512MiB}}}")
	w.pass(time.Second)
	x, err := w.look().Pool("default", "research", always)
	if err != nil || x.Guarantee == nil || x.Guarantee.Amount != 3_00 || x.Guarantee.Due != 2_00 || x.Guarantee.Short != 2_00 {
		t.Errorf("%v, %+v", err, x.Guarantee)
	}
	if x, _ := w.look().Pool("default", "batch", always); x.Guarantee != nil {
		t.Errorf("%+v", x.Guarantee)
	}
	b := w.explain(id).Blockers[0]
	if len(b.Holders) != 1 || !b.Holders[0].FirstEnd.Equal(midnight.Add(61*time.Second)) {
		t.Errorf("%+v", b.Holders)
	}
}
