package scheduling

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/resource"
)

func (t *testTree) hash() [sha256.Size]byte {
	h := sha256.New()
	t.Hash(h)
	return [sha256.Size]byte(h.Sum(nil))
}

func cpus(n int64) resource.Amounts {
	return resource.Amounts{resource.UserSlots: 1, resource.CPU: n * 100}
}

// endAll ends the assembly, if there is one.
func (t *testTree) endAll() {
	if t.assembly.slot != none {
		t.abandon(t.assembly.slot)
	}
}

// gangOf adds a gang whose jobs all have the same size.
func (t *testTree) gangOf(tb testing.TB, pool, name string, cpu int64, jobs int32) int32 {
	slot := t.operation(tb, pool, name, cpus(cpu), jobs)
	t.SetGang(slot, jobs, true)
	return slot
}

// TestPropertyTentativeVictimsThatAreTakenBackChangeNothing assembles a starving gang on
// random nodes, without all of the room it needs, and takes everything back.
func TestPropertyTentativeVictimsThatAreTakenBackChangeNothing(t *testing.T) {
	taken := 0
	try := func(r *rapid.T) {
		tree := newTestTree()
		tree.settings.GangAssembly = 10 * time.Second
		for range rapid.IntRange(3, 8).Draw(r, "nodes") {
			tree.AddNode(resource.Amounts{resource.UserSlots: 20, resource.CPU: 100 * rapid.Int64Range(2, 6).Draw(r, "cpu")}, nil)
		}
		tree.pool("root", "hogs", fairshare.Pool{}, 1)
		tree.pool("root", "gangs", fairshare.Pool{}, 2)
		for i := range rapid.IntRange(2, 3).Draw(r, "hogs") {
			name := fmt.Sprint("hog", i)
			slot := tree.operation(t, "hogs", name, cpus(rapid.Int64Range(1, 2).Draw(r, "size")), 30)
			if rapid.Bool().Draw(r, "whole") {
				tree.SetGang(slot, 0, true)
			}
		}
		tree.pass(time.Second)
		tree.beat()
		gang := tree.gangOf(t, "gangs", "gang", rapid.Int64Range(1, 2).Draw(r, "size"), int32(rapid.IntRange(2, 5).Draw(r, "jobs")))
		tree.pass(time.Second)
		tree.pass(time.Minute)
		if slot, _ := tree.Assembling(); slot != gang {
			return
		}
		before := tree.hash()
		var d Decisions
		for range rapid.IntRange(1, 8).Draw(r, "visits") {
			at := Node(rapid.IntRange(0, len(tree.nodes)-1).Draw(r, "node"))
			tree.nodes[at].settled = len(tree.nodes[at].allocations)
			if tree.mayJoin(gang) {
				tree.assemble(at, &d)
			}
			taken += len(tree.assembly.victims)
		}
		if len(tree.assembly.members) < int(tree.elements[gang].operation.gang.lack) {
			if err := tree.Verify(); err != nil {
				r.Fatal(err)
			}
		}
		if len(d.Starts)+len(d.Preemptions) > 0 {
			r.Fatalf("the assembly decides %+v", d)
		}
		tree.abandon(gang)
		tree.assembly.slot = gang // it still assembled before
		if after := tree.hash(); after != before {
			r.Fatal("what was taken back has changed the tree")
		}
		tree.assembly.slot = none
		if err := tree.Verify(); err != nil {
			r.Fatal(err)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		for range 20 { // few of these gangs assemble
			try(r)
		}
	})
	if taken == 0 {
		t.Fatal("nothing was taken")
	}
}

// TestPropertyTheBoundOfAGangIsNeverTooLow compares the bound, which decides whether a
// gang is looked at, with what a whole round of heartbeats finds.
func TestPropertyTheBoundOfAGangIsNeverTooLow(t *testing.T) {
	started := 0
	rapid.Check(t, func(r *rapid.T) {
		tree := newTestTree()
		tree.settings.GangAssembly = 10 * time.Second
		for range rapid.IntRange(1, 6).Draw(r, "nodes") {
			tree.AddNode(resource.Amounts{resource.UserSlots: 20, resource.CPU: 100 * rapid.Int64Range(1, 6).Draw(r, "cpu")}, nil)
		}
		tree.pool("root", "hogs", fairshare.Pool{}, 1)
		tree.pool("root", "gangs", fairshare.Pool{}, 2)
		tree.operation(t, "hogs", "hog", cpus(1), int32(rapid.IntRange(0, 20).Draw(r, "hogs")))
		tree.pass(time.Second)
		tree.beat()
		gang := tree.operation(t, "gangs", "gang", cpus(1), 1)
		groups := []Group{
			{Resources: cpus(rapid.Int64Range(1, 3).Draw(r, "size")), Waiting: int32(rapid.IntRange(1, 5).Draw(r, "jobs"))},
			{Resources: cpus(rapid.Int64Range(1, 3).Draw(r, "size")), Waiting: int32(rapid.IntRange(0, 3).Draw(r, "jobs"))},
		}
		tree.SetWaiting(gang, groups)
		all := groups[0].Waiting + groups[1].Waiting
		tree.SetGang(gang, int32(rapid.IntRange(2, max(2, int(all))).Draw(r, "lack")), true)
		tree.pass(time.Second)
		tree.pass(rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(r, "time"))
		lack := tree.elements[gang].operation.gang.lack
		tree.endAll() // an update may have chosen it
		bound, mayHave := tree.gangBound(gang, tree.priority(gang), nil), tree.mayHaveRoom(gang)
		// The slow twin assembles whatever the bound says.
		tree.assembly = assembly{slot: gang, since: tree.now, starver: none}
		tree.claimRight()
		var d Decisions
		for at := range tree.nodes {
			tree.nodes[at].settled = len(tree.nodes[at].allocations)
			for tree.mayJoin(gang) {
				group, refusal := tree.fits(gang, &tree.nodes[at], tree.nodes[at].free(), true)
				if refusal != RefusedNothing {
					break
				}
				tree.seat(gang, group, Node(at), StageRegular)
			}
			tree.assemble(Node(at), &d)
		}
		found := int64(len(tree.assembly.members))
		if found == int64(lack) {
			started++
			if bound < found || !mayHave {
				r.Fatalf("%d members find room, the bound is %d, and there may be room: %v", found, bound, mayHave)
			}
		}
	})
	if started == 0 {
		t.Fatal("no gang was complete")
	}
}

func TestAMemberOfAGangThatLosesAllWithOneTakesAllAlong(t *testing.T) {
	tree := newTestTree()
	tree.settings.GangAssembly = 10 * time.Second
	tree.addNodes(4, resource.Amounts{resource.UserSlots: 20, resource.CPU: 200})
	tree.pool("root", "rich", fairshare.Pool{Strong: resource.Partial{}.With(resource.CPU, 800)}, 1)
	tree.pool("root", "poor", fairshare.Pool{}, 1)
	tree.gangOf(t, "poor", "victim", 1, 6)
	tree.pass(time.Second)
	tree.beat()
	if tree.running("victim") != 6 {
		t.Fatalf("%d members run", tree.running("victim"))
	}
	tree.gangOf(t, "rich", "gang", 2, 4)
	tree.pass(time.Second)
	tree.pass(time.Minute)
	starts, preemptions := tree.beat()
	if starts != 4 || preemptions != 6 {
		t.Errorf("%d start and %d leave, want 4 and 6", starts, preemptions)
	}
	if err := tree.Verify(); err != nil {
		t.Error(err)
	}
}

func TestAPinnedAllocationIsNoVictimBeforeItsTime(t *testing.T) {
	tree := newTestTree()
	tree.addNodes(1, resource.Amounts{resource.UserSlots: 20, resource.CPU: 200})
	tree.pool("root", "a", fairshare.Pool{}, 1)
	tree.pool("root", "b", fairshare.Pool{}, 1)
	hog := tree.operation(t, "a", "hog", cpus(1), 2)
	tree.pass(time.Second)
	tree.beat()
	tree.operation(t, "b", "late", cpus(1), 1)
	tree.pass(time.Second)
	until := tree.now.Add(2 * time.Minute)
	for _, id := range tree.AllocationsOf(hog, nil) {
		tree.Pin(id, until)
	}
	tree.pass(time.Minute)
	if _, preemptions := tree.beat(); preemptions != 0 {
		t.Fatalf("%d pinned allocations are preempted", preemptions)
	}
	tree.pass(2 * time.Minute)
	if _, preemptions := tree.beat(); preemptions != 1 {
		t.Errorf("%d allocations are preempted after their time, want 1", preemptions)
	}
}

func TestAPinnedMemberSparesItsWholeGang(t *testing.T) {
	for _, whole := range []bool{true, false} {
		tree := newTestTree()
		tree.addNodes(1, resource.Amounts{resource.UserSlots: 20, resource.CPU: 200})
		tree.pool("root", "a", fairshare.Pool{}, 1)
		tree.pool("root", "b", fairshare.Pool{}, 1)
		hog := tree.operation(t, "a", "hog", cpus(1), 2)
		tree.SetGang(hog, 0, whole)
		tree.pass(time.Second)
		tree.beat()
		tree.Pin(tree.AllocationsOf(hog, nil)[0], tree.now.Add(time.Hour)) // the other one is preemptible
		tree.operation(t, "b", "late", cpus(1), 1)
		tree.pass(time.Second)
		tree.pass(time.Minute)
		if _, preemptions := tree.beat(); (preemptions == 0) != whole {
			t.Errorf("whole %v: %d members are preempted", whole, preemptions)
		}
	}
}

func TestAnOperationForFreeRoomOnlyPreemptsNothing(t *testing.T) {
	for _, lack := range []int32{0, 2} {
		tree := newTestTree()
		tree.settings.GangAssembly = 10 * time.Second
		tree.addNodes(1, resource.Amounts{resource.UserSlots: 20, resource.CPU: 400})
		tree.pool("root", "a", fairshare.Pool{}, 1)
		tree.pool("root", "b", fairshare.Pool{}, 1)
		tree.operation(t, "a", "hog", cpus(1), 4)
		tree.pass(time.Second)
		tree.beat()
		patient := tree.operation(t, "b", "patient", cpus(1), 2)
		tree.SetOperation(patient, OperationParameters{Patience: effective(0, 0, 0).Starvation, FreeRoomOnly: true})
		if lack > 0 {
			tree.SetGang(patient, lack, true)
		}
		tree.pass(time.Second)
		tree.pass(time.Hour)
		if starts, preemptions := tree.beat(); starts+preemptions != 0 {
			t.Errorf("with a gang of %d, %d start and %d are preempted", lack, starts, preemptions)
		}
	}
}
