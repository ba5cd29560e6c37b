package core

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

const promisingPools = `
max_running_operation_count: 6
pools:
  production:
    strong_guarantee_resources: {cpu: 8}
    weight: 3
    pools: {other: {strong_guarantee_resources: {cpu: 3}}}
  batch:
    strong_guarantee_resources: {cpu: 4}
    mode: fifo
    max_running_operation_count: 2
  adhoc:
    integral_guarantees: {guarantee_type: burst, resource_flow: {cpu: 1}, burst_guarantee_resources: {cpu: 3}}
    resource_limits: {cpu: 6}
`

// books keeps the books of a world next to a slow twin, which follows every job from its start to its
// end by decisions and inputs alone.
type books struct {
	*ledger.Book
	w      *world
	usage  *ledger.Usage
	claims []ledger.Entry
	jobs   map[JobID]*heldJob
	// pools and accounts are what the jobs in or below a pool and those of an account hold as of since;
	// reported is what the core says of pools.
	pools, reported map[ledger.Pool]resource.Amounts
	accounts        map[ledger.Account]resource.Amounts
	since           time.Time
	twin            map[ledger.Pool]*twinSums
	spent           map[ledger.Account]*[resource.KindCount]big.Int
}

// heldJob is a running job, and what it holds.
type heldJob struct {
	operation OperationID
	user      string
	tree      TreeID
	holds     resource.Amounts
}

// twinSums are sums of amounts × microseconds.
type twinSums struct{ due, got, short big.Int }

func keepBooks(w *world) *books {
	b := &books{
		Book: ledger.New(), usage: ledger.NewUsage(), w: w, jobs: map[JobID]*heldJob{}, reported: map[ledger.Pool]resource.Amounts{}, since: w.now,
		twin: map[ledger.Pool]*twinSums{}, spent: map[ledger.Account]*[resource.KindCount]big.Int{},
	}
	w.onTake = b.spend
	return b
}

// spend enters the usage after every input, and compares what the core reports as changed with what
// jobs hold.
func (b *books) spend() {
	elapsed := b.w.now.Sub(b.since).Microseconds()
	add := func(sum *big.Int, amount int64) {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(amount), big.NewInt(elapsed)))
	}
	b.since = b.w.now
	for i := range b.claims {
		e := &b.claims[i]
		sums := b.twin[e.Pool]
		if sums == nil {
			sums = &twinSums{}
			b.twin[e.Pool] = sums
		}
		due, got := e.Claim.Due(), b.pools[e.Pool][e.Claim.Resource]
		add(&sums.due, due)
		add(&sums.got, got)
		add(&sums.short, max(due-got, 0))
	}
	for account, holds := range b.accounts {
		if b.spent[account] == nil {
			b.spent[account] = &[resource.KindCount]big.Int{}
		}
		for k := range holds {
			add(&b.spent[account][k], holds[k])
		}
	}
	for _, change := range b.w.out.Operations {
		if change.State.IsFinished() {
			for _, t := range b.w.trees {
				b.usage.Spend(b.w.now, ledger.Seat{Operation: int32(change.Operation), Tree: t.name}, ledger.Account{}, resource.Amounts{})
			}
		}
	}
	b.w.TakeUsage(func(s *Spent) {
		if s.Operation != NoOperation {
			account := ledger.Account{Tree: s.Tree, Pool: s.Name, User: b.w.UserOf(s.Operation)}
			b.usage.Spend(b.w.now, ledger.Seat{Operation: int32(s.Operation), Tree: s.Tree}, account, s.Usage)
			return
		}
		b.Spend(b.w.now, s.Pool, s.Usage)
		b.reported[s.Pool] = s.Usage
	})
	b.followJobs()
	b.countJobs()
	for _, all := range []map[ledger.Pool]resource.Amounts{b.reported, b.pools} {
		for pool := range all {
			if b.reported[pool] != b.pools[pool] {
				b.w.tb.Fatalf("the jobs of pool %v hold %v, the core reports %v", pool, b.pools[pool], b.reported[pool])
			}
		}
	}
}

// followJobs enters the jobs that have started, changed or ended with the last input.
func (b *books) followJobs() {
	for _, s := range b.w.out.Started {
		b.jobs[s.Job] = &heldJob{s.Operation, b.w.UserOf(s.Operation), s.Tree, s.Resources}
	}
	for _, s := range b.w.out.Stopped {
		switch j := b.jobs[s.Job]; {
		case s.Timeout == 0:
			delete(b.jobs, s.Job)
		case j != nil && s.Preemption != scheduling.PreemptedGracefully:
			j.holds = resource.Amounts{} // its room is given away
		}
	}
	for i := range b.w.out.Ended {
		delete(b.jobs, b.w.out.Ended[i].Job)
	}
	switch in := b.w.journal[len(b.w.journal)-1].input.(type) {
	case *JobUsageInput:
		if j := b.jobs[in.Job]; j != nil {
			j.holds = in.Usage
		}
	case *AdoptInput:
		tree, _ := b.w.NodeTree(in.Node)
		if _, taken := b.w.JobInfo(in.Job); taken {
			b.jobs[in.Job] = &heldJob{in.Operation, b.w.UserOf(in.Operation), tree, in.Resources}
		}
	}
}

// countJobs sums up what jobs hold now, job by job, for all pools and accounts.
func (b *books) countJobs() {
	b.pools, b.accounts = map[ledger.Pool]resource.Amounts{}, map[ledger.Account]resource.Amounts{}
	for id, j := range b.jobs {
		t := b.w.trees[j.tree]
		name, there := b.w.PoolOf(j.operation, j.tree)
		if !there {
			b.w.tb.Fatalf("job %d runs, but its operation %d is not in tree %s", id, j.operation, t.name)
		}
		account := ledger.Account{Tree: t.name, Pool: name, User: j.user}
		b.accounts[account] = b.accounts[account].Add(j.holds)
		for p := t.pools[name]; p != nil; p = p.parent {
			pool := ledger.Pool{Tree: t.name, Name: p.name}
			b.pools[pool] = b.pools[pool].Add(j.holds)
		}
	}
}

// step lets time pass, then enters the claims, and checks them.
func (b *books) step(passed time.Duration) {
	b.w.pass(passed)
	b.claims = b.w.Claims(nil, nil, nil)
	b.Update(b.w.now, b.claims, false)
	for i := range b.claims {
		c := &b.claims[i].Claim
		if holds := b.pools[b.claims[i].Pool]; c.Got != holds[c.Resource] {
			b.w.tb.Fatalf("%v: got %d, its jobs hold %v", b.claims[i].Pool, c.Got, holds)
		}
		sum := int64(0)
		parts := c.Split(c.Got, false)
		for _, part := range parts {
			sum += part
		}
		if short := max(c.Due()-c.Got, 0); sum != short {
			b.w.tb.Fatalf("%v: causes sum to %d, short is %d: %v", b.claims[i].Pool, sum, short, parts)
		}
		if parts[ledger.Unexplained] != 0 {
			b.w.tb.Fatalf("%v: %d unexplained: %+v", b.claims[i].Pool, parts[ledger.Unexplained], b.claims[i].Claim)
		}
	}
}

// checkUsage checks L2: what an account held is what its jobs held, one by one.
func (b *books) checkUsage() {
	var hours []ledger.TallyRow
	for _, row := range b.usage.Flush(b.w.now) {
		if row.Level == ledger.Hour {
			hours = append(hours, row)
		}
	}
	accounts, lines, err := b.usage.Accounts.Total(hours)
	if err != nil {
		b.w.tb.Fatal(err)
	}
	for _, a := range accounts {
		if b.spent[a] == nil {
			b.spent[a] = &[resource.KindCount]big.Int{}
		}
	}
	for a, want := range b.spent {
		for k := range want {
			held := "0"
			if line := lines[a]; line != nil {
				held = line.Held[k].String()
			}
			if held != want[k].String() {
				b.w.tb.Fatalf("%+v, %v: the account held %s, its jobs %v", a, resource.Kind(k), held, &want[k])
			}
		}
	}
}

// TestPropertyTheLedgerExplainsEveryShortfall checks on random histories that causes sum to what is
// short, that none is unexplained, and that what pools got and accounts held is the sum of what their
// jobs held, one by one.
func TestPropertyTheLedgerExplainsEveryShortfall(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(r, promisingPools)
		b := keepBooks(w)
		for id := range NodeID(rapid.IntRange(1, 4).Draw(r, "nodes")) {
			w.addNode(id, rapid.Int64Range(1, 10).Draw(r, "cpu"), tagsOf(id)...)
		}
		b.step(time.Second)
		for range rapid.IntRange(5, 60).Draw(r, "steps") {
			if rapid.IntRange(0, 3).Draw(r, "time") == 0 {
				b.step(rapid.SampledFrom([]time.Duration{time.Second, 35 * time.Second, 40 * time.Minute}).Draw(r, "passed"))
				continue
			}
			w.step(r)
			if rapid.IntRange(0, 15).Draw(r, "pools") == 0 {
				w.setTrees(promisingPools)
			}
		}
		b.spend()
		b.checkUsage()
		put, _, _ := b.Flush(w.now)
		sums := map[ledger.Pool]*ledger.Sums{}
		for _, row := range put {
			if row.Level != ledger.Hour {
				continue
			}
			by, err := ledger.Decode(row.Data)
			if err != nil {
				r.Fatal(err)
			}
			if sums[row.Pool] == nil {
				sums[row.Pool] = &ledger.Sums{}
			}
			for k := range by {
				sums[row.Pool].Add(&by[k])
			}
		}
		for pool, twin := range b.twin {
			s := sums[pool]
			if s == nil {
				s = &ledger.Sums{}
			}
			for _, both := range [][2]string{
				{s.Due.String(), twin.due.String()}, {s.Got.String(), twin.got.String()}, {s.Missing().String(), twin.short.String()},
			} {
				if both[0] != both[1] {
					r.Fatalf("pool %v: the book has %s, the twin %s", pool, both[0], both[1])
				}
			}
		}
	})
}

// While a gang assembles, the room that is kept for it is used, but no job holds it: nobody is charged
// for it, and a pool that waits for it has not got it.
func TestRoomKeptForAGangIsHeldByNobody(t *testing.T) {
	w := newWorld(t, promisingPools)
	b := keepBooks(w)
	w.addNode(0, 2)
	w.addNode(1, 20)
	gang := w.gang("production", 4, 1)
	b.step(time.Second)
	w.beat(0)
	tree := w.trees[0]
	if used := tree.state.Usage(tree.pools["production"].slot); w.running(gang) != 0 || used[resource.CPU] != 200 {
		t.Fatalf("%d jobs run, and %v is used, want room for two", w.running(gang), used)
	}
	b.step(2 * time.Second)
	b.step(2 * time.Second)
	for i := range b.claims {
		c := &b.claims[i].Claim
		if parts := c.Split(c.Got, false); b.claims[i].Name == "production" && (c.Due() != 400 || c.Got != 0 || parts[ledger.Placing] != 400) {
			t.Errorf("production is due %d and got %d, short by %v", c.Due(), c.Got, parts)
		}
	}
	w.beat(1)
	if w.running(gang) != 4 {
		t.Fatalf("%d jobs run", w.running(gang))
	}
	b.step(3 * time.Second)
	b.checkUsage()
	want := ledger.Account{Tree: "default", Pool: "production", User: "anna"}
	if spent := b.spent[want]; len(b.spent) != 1 || spent[resource.CPU].Int64() != 400*3e6 {
		t.Errorf("accounts held %v", b.spent)
	}
}
