package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/resource"
)

// anyClaim draws a claim; a third of them are those of relaxed pools.
func anyClaim(r *rapid.T) Claim {
	small := rapid.Int64Range(0, 20)
	c := claimOf(func(c *Claim) {
		c.Strong, c.Burst, c.Paid, c.Asked, c.Held = small.Draw(r, "strong"), small.Draw(r, "burst"), small.Draw(r, "paid"), small.Draw(r, "asked"), small.Draw(r, "held")
		c.Effective, c.Reach, c.Room, c.Share = small.Draw(r, "effective"), small.Draw(r, "reach"), small.Draw(r, "room"), small.Draw(r, "share")
		c.Oversold, c.Lost, c.Above, c.Got = small.Draw(r, "oversold"), small.Draw(r, "lost"), small.Draw(r, "above"), small.Draw(r, "got")
		c.Free.Fitting, c.Free.Blocked, c.Free.Closed = small.Draw(r, "fitting"), small.Draw(r, "blocked"), small.Draw(r, "closed")
		c.Resource = rapid.SampledFrom([]resource.Kind{resource.CPU, resource.Memory}).Draw(r, "resource")
	})
	if rapid.IntRange(0, 2).Draw(r, "relaxed") == 0 {
		f := &c.Relaxed
		f.Flow, f.Asked, f.Share, f.Strong = small.Draw(r, "flow"), small.Draw(r, "flow asked"), small.Draw(r, "flow share"), small.Draw(r, "flow strong")
		f.Volume, f.Capacity = rapid.Int64Range(0, 1e11).Draw(r, "volume"), rapid.Int64Range(0, 1e11).Draw(r, "capacity")
	}
	return c
}

// TestPropertyTheLedgerIsTheIntegralOfTheLog lets pools come, go and change, and kills the leader at random times. Every
// stored hour is the integral of the stored log, days and months are sums of hours, and
// what was got and what is short sum to what was due and what went beyond it.
func TestPropertyTheLedgerIsTheIntegralOfTheLog(t *testing.T) {
	pools := []Pool{{"default", "a"}, {"default", "b"}, {"gpu", "a"}}
	rapid.Check(t, func(r *rapid.T) {
		now, store := noon.Add(11*time.Hour), &stored{rows: map[string]Row{}}
		b, err := Restore(nil, time.Time{}, time.Time{}, now)
		if err != nil {
			r.Fatal(err)
		}
		entries := map[Pool]Claim{}
		kills := 0
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int64{0, 1, 7e6, 600e6, 3600e6, 3e10}).Draw(r, "passed")) * time.Microsecond)
			pool := rapid.SampledFrom(pools).Draw(r, "pool")
			switch rapid.IntRange(0, 8).Draw(r, "step") {
			case 0, 1, 2: // an update in which one pool differs
				entries[pool] = anyClaim(r)
				if rapid.IntRange(0, 4).Draw(r, "leaves") == 0 {
					delete(entries, pool)
				}
				var list []Entry
				for _, p := range pools {
					if c, there := entries[p]; there {
						list = append(list, Entry{p, c})
					}
				}
				b.Update(now, list, rapid.IntRange(0, 4).Draw(r, "away") == 0)
			case 3, 4, 5:
				b.Spend(now, pool, amount(entries[pool].Resource, rapid.Int64Range(0, 30).Draw(r, "used")))
			case 6:
				store.flush(b, now)
			case 7:
				b.Stop(now)
			case 8: // a kill
				if store.flushed.IsZero() {
					continue
				}
				kills++
				store.seen = store.flushed.Add(time.Duration(rapid.Int64Range(0, now.Sub(store.flushed).Microseconds()).Draw(r, "seen")) * time.Microsecond)
				if b, err = Restore(store.list(), store.flushed, store.seen, now); err != nil {
					r.Fatal(err)
				}
			}
		}
		now = now.Add(time.Microsecond)
		store.flush(b, now)
		store.verify(r, noon.Add(-24*time.Hour), now)
		for i, f := range store.facts[1:] {
			if !f.From.Equal(store.facts[i].To) {
				r.Fatalf("after %d kills, the log is not contiguous: %v, then %v", kills, store.facts[i].To, f.From)
			}
		}
		last := store.facts[len(store.facts)-1].To
		hour := Hour.Start(last) // a reader may start at any hour
		if from := slices.IndexFunc(store.facts, func(f Facts) bool { return f.To.After(hour) }); from >= 0 {
			part := &stored{facts: store.facts[from:], rows: map[string]Row{}}
			for k, row := range store.rows {
				if row.Level == Hour && !row.Start.Before(hour) {
					part.rows[k] = row
				}
			}
			part.verify(r, hour, last)
		}
	})
}

// verify compares all hours with the log, days and months with hours, and each sum with its parts.
func (s *stored) verify(t rapid.TB, from, to time.Time) {
	t.Helper()
	computed, err := Integrate(s.facts, Hour.Start(from), to)
	if err != nil {
		t.Fatal(err)
	}
	differ, err := Compare(s.list(), computed, Hour)
	if err != nil || len(differ) > 0 {
		t.Fatalf("error %v; the log says otherwise: %+v", err, differ)
	}
	hours, err := Read(s.list(), Hour)
	if err != nil {
		t.Fatal(err)
	}
	for pool, by := range hours {
		for start, sums := range by {
			for k := range sums {
				due, got := sums[k].Due, sums[k].Got
				due.Add(sums[k].Surplus)
				got.Add(sums[k].Missing())
				if due != got {
					t.Fatalf("%v at %v: due and surplus are %s, got and short %s", pool, start, due, got)
				}
			}
			if start.Equal(Hour.Start(to)) || start.Add(time.Hour).Equal(to) {
				delete(by, start) // it has not ended at the flush
			}
		}
	}
	for _, level := range []Level{Day, Month} {
		if !slices.ContainsFunc(s.list(), func(row Row) bool { return row.Level == level }) {
			continue
		}
		if differ, err := Compare(s.list(), hours.Total(level), level); err != nil || len(differ) > 0 {
			t.Fatalf("error %v; level %d differs from its hours: %+v", err, level, differ)
		}
	}
}

func TestAChangedRowIsFound(t *testing.T) {
	store := &stored{rows: map[string]Row{}}
	b := New()
	b.Update(noon, []Entry{{prod, claimOf(func(c *Claim) { c.Free.Fitting = 50 })}}, false)
	store.flush(b, noon.Add(time.Minute))
	computed, err := Integrate(store.facts, noon, noon.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for k, row := range store.rows {
		if row.Level == Hour {
			sums, err := Decode(row.Data)
			if err != nil {
				t.Fatal(err)
			}
			sums[resource.CPU].Got.add(1, 1)
			row.Data = sums.encode()
			store.rows[k] = row
		}
	}
	differ, err := Compare(store.list(), computed, Hour)
	if got := fmt.Sprintf("%+v %v", differ, err); len(differ) != 1 || differ[0].Figure != "got" || differ[0].Stored.String() != "1" {
		t.Errorf("got %s", got)
	}
	store.rows = map[string]Row{}
	if differ, err := Compare(nil, computed, Hour); err != nil || len(differ) == 0 {
		t.Errorf("missing rows: %v %v", differ, err)
	}
}

func TestTooManyFactsAreAGap(t *testing.T) {
	b := New()
	claim := claimOf(func(*Claim) {})
	b.Update(noon, []Entry{{prod, claim}}, false)
	for i := range int64(mostFacts / 2) {
		b.Spend(noon.Add(time.Duration(i)*time.Microsecond), prod, amount(resource.CPU, (i%2)<<50|i))
	}
	_, _, facts := b.Flush(noon.Add(time.Minute))
	if !facts.Gap || facts.Data != nil {
		t.Errorf("%d bytes of facts are no gap", len(facts.Data))
	}
	if _, err := Integrate([]Facts{facts}, noon, noon.Add(time.Hour)); err == nil {
		t.Error("a gap is integrated")
	}
	b.Spend(noon.Add(2*time.Minute), prod, amount(resource.CPU, 1))
	if _, _, facts := b.Flush(noon.Add(3 * time.Minute)); facts.Gap || len(facts.Data) == 0 {
		t.Error("the log does not continue after a gap")
	}
}

// FuzzFacts reads damaged logs.
func FuzzFacts(f *testing.F) {
	b := New()
	b.Update(noon, []Entry{{prod, claimOf(func(*Claim) {})}}, false)
	b.Spend(noon.Add(time.Second), prod, amount(resource.CPU, 3))
	_, _, facts := b.Flush(noon.Add(time.Minute))
	f.Add(facts.Data)
	f.Add(facts.Data[:len(facts.Data)/2])
	f.Fuzz(func(_ *testing.T, data []byte) {
		facts := Facts{From: noon, To: noon.Add(time.Minute), Data: data}
		_ = facts.each(func(Pool, int64, byte, *standing) {})
	})
}

func BenchmarkFacts(b *testing.B) {
	book := New()
	book.Update(noon, []Entry{{prod, claimOf(func(*Claim) {})}}, false)
	bytes := 0
	i, now := int64(0), noon
	random := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		i++
		now = now.Add(time.Duration(random.Int64N(1000)) * time.Microsecond)
		book.Spend(now, prod, amount(resource.CPU, 100*random.Int64N(100)))
		if i%10000 == 0 {
			_, _, facts := book.Flush(now)
			bytes += len(facts.Data)
		}
	}
	b.ReportMetric(float64(bytes)/float64(i), "B/fact")
}
