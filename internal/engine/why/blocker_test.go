package why_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/engine/why"
	"github.com/weirhq/weir/internal/value/resource"
)

func named(id core.OperationID) string { return fmt.Sprint("op-", id) }

// codes returns the codes of blockers.
func codes(list []why.Blocker) string {
	var names []string
	for i := range list {
		names = append(names, list[i].Code.String())
	}
	return strings.Join(names, " ")
}

// TestAFullLimitIsNoTurn is the first contradiction of old: nodes have room, the limit is reached,
// and the list has the limit alone, with its holders.
func TestAFullLimitIsNoTurn(t *testing.T) {
	w := newWorld(t, "pools: {research: {resource_limits: {cpu: 3}}}")
	w.addNode(0, 10)
	holder := w.mustStart("{pool: research, tasks: {a: {job_count: 2, cpu_limit: 1, memory_limit: 1GiB}}}")
	w.pass(time.Second)
	w.beat(0)
	late := w.mustStart("{pool: research, tasks: {a: {job_count: 4, cpu_limit: 2, memory_limit: 1GiB}}}")
	w.pass(time.Second)
	x := w.explain(late)
	if codes(x.Blockers) != "limit" || x.Starts != 0 || x.Kinds[0].Fitting != 1 {
		t.Fatalf("%s; %d start", codes(x.Blockers), x.Starts)
	}
	b := &x.Blockers[0]
	if b.Pool != "research" || b.Option != scheduling.ByResourceLimits || b.Resource != resource.CPU || b.Limit != 3_00 || b.Used != 2_00 || b.Need != 2_00 || b.Short != 1_00 {
		t.Errorf("%+v", b)
	}
	if len(b.Holders) != 1 || b.Holders[0].Operation != holder || b.Holders[0].Amount != 2_00 || !b.Holders[0].Since.Equal(midnight.Add(time.Second)) {
		t.Errorf("%+v", b.Holders)
	}
	if !b.Since.Equal(w.now) {
		t.Errorf("since %v, want %v", b.Since, w.now)
	}
	scene := w.look()
	scene.Sole(x.Blockers, always)
	if x.Blockers[0].Sole != why.SoleYes || x.Blockers[0].Starts != 4 {
		t.Errorf("%+v", x.Blockers[0])
	}
	const want = "pool research may use 3 cpu (resource_limits); 2 in use, a job needs 2: 1 short. Held: op-0 2"
	if got := b.Text(named); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestAShareRatioOfZeroIsOneBlocker is the second one: the option is named, once.
func TestAShareRatioOfZeroIsOneBlocker(t *testing.T) {
	w := newWorld(t, "pools: {research: {max_share_ratio: 0}}")
	w.addNode(0, 10)
	id := w.mustStart("{pool: research, tasks: {a: {job_count: 1, cpu_limit: 2, memory_limit: 1GiB}}}")
	w.pass(time.Second)
	x := w.explain(id)
	if codes(x.Blockers) != "job_larger_than_limit" || x.Blockers[0].Option != scheduling.ByMaxShareRatio || x.Blockers[0].Resource != resource.CPU {
		t.Fatalf("%s: %+v", codes(x.Blockers), x.Blockers)
	}
	if text := x.Blockers[0].Text(named); !strings.Contains(text, "(max_share_ratio)") {
		t.Error(text)
	}
}

func TestAnOperationThatIsServedLaterNamesThoseBeforeIt(t *testing.T) {
	w := newWorld(t, "pools: {queue: {mode: fifo}}")
	w.addNode(0, 4)
	first := w.mustStart("{pool: queue, tasks: {a: {job_count: 4, cpu_limit: 1, memory_limit: 512MiB}}}")
	w.now = w.now.Add(time.Second)
	second := w.mustStart("{pool: queue, tasks: {a: {job_count: 1, cpu_limit: 1, memory_limit: 512MiB}}}")
	x := w.explain(second)
	if codes(x.Blockers) != "turn_fifo" || len(x.Blockers[0].Rivals) != 1 || x.Blockers[0].Rivals[0].Operation != first || x.Blockers[0].Rivals[0].Jobs != 4 {
		t.Fatalf("%s: %+v", codes(x.Blockers), x.Blockers)
	}
	if x := w.explain(first); x.Starts != 4 || x.Node != "node0" || len(x.Blockers) != 0 {
		t.Errorf("the first: %+v", x)
	}
}

func TestFurtherJobsHaveTheirOwnBlockers(t *testing.T) {
	w := newWorld(t, "pools: {research: {}}")
	w.addNode(0, 2)
	id := w.mustStart("{pool: research, tasks: {a: {job_count: 5, cpu_limit: 1, memory_limit: 512MiB}}}")
	x := w.explain(id)
	if x.Starts != 2 || len(x.Blockers) != 0 || codes(x.Then) != "node_resources" {
		t.Errorf("%d start, blockers %q, then %q", x.Starts, codes(x.Blockers), codes(x.Then))
	}
}

func TestFragmentationIsNamed(t *testing.T) {
	w := newWorld(t, "pools: {research: {}}")
	for id := range core.NodeID(3) {
		w.addNode(id, 4)
	}
	w.mustStart("{pool: research, tasks: {a: {job_count: 3, cpu_limit: 3, memory_limit: 1GiB}}}")
	w.pass(time.Second)
	w.beat(0, 1, 2)
	late := w.mustStart("{pool: research, tasks: {a: {job_count: 1, cpu_limit: 2, memory_limit: 1GiB}}}")
	x := w.explain(late)
	if codes(x.Blockers) != "node_resources" || !x.Blockers[0].Fragmented || x.Blockers[0].Nodes != 3 || x.Blockers[0].Free != 1_00 || x.Blockers[0].Holders[0].Amount != 9_00 {
		t.Errorf("%+v", x.Blockers)
	}
}

// TestSharesAreSplitByCause checks that operations get their part of their pool's guarantee.
func TestSharesAreSplitByCause(t *testing.T) {
	w := newWorld(t, "pools: {production: {strong_guarantee_resources: {cpu: 6}}}")
	w.addNode(0, 10)
	var ids []core.OperationID
	for range 2 {
		ids = append(ids, w.mustStart("{pool: production, tasks: {a: {job_count: 10, cpu_limit: 1, memory_limit: 512MiB}}}"))
	}
	w.pass(time.Second)
	strong, weight := 0.0, 0.0
	for _, id := range ids {
		split := w.explain(id).Facts.Trees[0].Share.Share
		strong += split.Strong[resource.CPU]
		weight += split.WeightProportional[resource.CPU]
	}
	if diff := strong - 0.6; diff < -1e-6 || diff > 1e-6 || weight < 0.399 || weight > 0.401 {
		t.Errorf("strong %v and by weight %v, want 0.6 and 0.4", strong, weight)
	}
}

func TestARunningJobIsExplained(t *testing.T) {
	w := newWorld(t, "pools: {research: {}}")
	w.addNode(0, 4)
	id := w.mustStart("{pool: research, tasks: {a: {job_count: 2, cpu_limit: 1, memory_limit: 512MiB}}}")
	w.pass(time.Second)
	w.beat(0)
	job := w.JobsOf(id)[0].Job
	j, err := w.look().Job(job)
	if err != nil || j.NodeName != "node0" || j.Pool != "research" || j.Task != "a" || j.Class != scheduling.NonPreemptible {
		t.Errorf("%+v, %v", j, err)
	}
	if _, err := w.look().Job(job + 100); err != why.ErrNoJob {
		t.Error(err)
	}
}

func TestEveryCodeHasANameAClassAndAText(t *testing.T) {
	last := why.ClassGate
	for _, code := range why.Codes() {
		b := why.Blocker{Code: code, Detail: "pending"}
		if code.String() == "" || code.Class() < last || b.Text(named) == "" {
			t.Errorf("%v: class %v, text %q", code, code.Class(), b.Text(named))
		}
		last = code.Class()
	}
}

// A small job waits for the spare resources of a node, not for what it needs itself.
func TestSpareResourcesOfANodeAreNamedAsSuch(t *testing.T) {
	w := newWorld(t, "pools: {research: {}}")
	w.addNode(0, 2)
	w.mustStart("{pool: research, tasks: {a: {job_count: 1, cpu_limit: 1.5, memory_limit: 1GiB}}}")
	w.pass(time.Second)
	w.beat(0)
	small := w.mustStart("{pool: research, tasks: {a: {job_count: 1, cpu_limit: 0.1, memory_limit: 1GiB}}}")
	w.pass(time.Second)
	x := w.explain(small)
	if codes(x.Blockers) != "node_resources" || !x.Blockers[0].Spare {
		t.Fatalf("%s: %+v", codes(x.Blockers), x.Blockers)
	}
	const want = "a node takes jobs only while it has 1 free (min_spare_allocation_resources_on_node), the most that is free on one is 0.5"
	if got := x.Blockers[0].Text(named); !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
