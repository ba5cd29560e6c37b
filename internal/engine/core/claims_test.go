package core

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/engine/pooltree"
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

// books keeps the books of a world next to a slow twin.
type books struct {
	*ledger.Book
	w      *world
	usage  *ledger.Usage
	claims []ledger.Entry
	got    map[ledger.Pool]resource.Amounts             // usage as of since
	held   map[ledger.Pool]*[resource.KindCount]big.Int // by all pools, from the start
	twin   map[ledger.Pool]*twinSums
	since  time.Time
}

// twinSums are sums of amounts × microseconds.
type twinSums struct{ due, got, short big.Int }

func keepBooks(w *world) *books {
	b := &books{
		Book: ledger.New(), usage: ledger.NewUsage(), w: w, got: map[ledger.Pool]resource.Amounts{}, held: map[ledger.Pool]*[resource.KindCount]big.Int{},
		twin: map[ledger.Pool]*twinSums{}, since: w.now,
	}
	w.onTake = b.spend
	return b
}

// spend enters the usage after every input, and compares what the core reports as
// changed with the usage of all pools.
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
		due, got := e.Claim.Due(), b.got[e.Pool][e.Claim.Resource]
		add(&sums.due, due)
		add(&sums.got, got)
		add(&sums.short, max(due-got, 0))
	}
	for pool, usage := range b.got {
		if b.held[pool] == nil {
			b.held[pool] = &[resource.KindCount]big.Int{}
		}
		for k := range usage {
			add(&b.held[pool][k], usage[k])
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
		b.got[s.Pool] = s.Usage
	})
	for _, t := range b.w.trees {
		for _, p := range t.order {
			key := ledger.Pool{Tree: t.name, Name: p.name}
			if usage := t.state.Usage(p.slot); b.got[key] != usage {
				b.w.tb.Fatalf("pool %v uses %v, its last reported change is to %v", key, usage, b.got[key])
			}
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
		if c.Got != b.got[b.claims[i].Pool][c.Resource] {
			b.w.tb.Fatalf("%v: got %d, used %v", b.claims[i].Pool, c.Got, b.got[b.claims[i].Pool])
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

// checkUsage checks L2: what the users of a tree held sums up to what its root held.
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
	for _, t := range b.w.trees {
		var sums ledger.AmountSums
		for _, a := range accounts {
			if a.Tree == t.name {
				for k := range sums {
					sums[k].Add(lines[a].Held[k])
				}
			}
		}
		want := b.held[ledger.Pool{Tree: t.name, Name: pooltree.RootName}]
		for k := range sums {
			if want != nil && sums[k].String() != want[k].String() || want == nil && !sums[k].IsZero() {
				b.w.tb.Fatalf("tree %s, %v: accounts held %s, the root %v", t.name, resource.Kind(k), sums[k], want)
			}
		}
	}
}

// TestPropertyTheLedgerExplainsEveryShortfall checks on random histories that causes
// sum to what is short, that none is unexplained, that the book equals the sums of
// a slow twin, and that usage by user adds up to that of pools.
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
