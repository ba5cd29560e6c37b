package ledger

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

var (
	noon = time.Date(2026, 10, 31, 12, 0, 0, 0, time.UTC)
	prod = Pool{"default", "prod"}
)

// claimOf is the claim of a pool with a strong guarantee of 10 that nothing limits and
// that asks for 20.
func claimOf(change func(*Claim)) Claim {
	c := Claim{Promise: scheduling.Promise{
		Resource: resource.CPU, Total: 100, Strong: 10, Effective: 10, Asked: 20, Reach: 20, Room: 100, Share: 10,
	}}
	change(&c)
	return c
}

func TestEachCauseIsChargedWithWhatItTakes(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Claim)
		want   map[Cause]int64
	}{
		{"free room is placed", func(c *Claim) { c.Free.Fitting = 50 }, map[Cause]int64{Placing: 10}},
		{"what was got is not short", func(c *Claim) { c.Got, c.Free.Fitting = 4, 50 }, map[Cause]int64{Placing: 6}},
		{"only what is asked for is due", func(c *Claim) { c.Asked, c.Free.Fitting = 3, 50 }, map[Cause]int64{Placing: 3}},
		{"others hold more than their shares", func(c *Claim) { c.Above, c.Free.Fitting = 7, 3 }, map[Cause]int64{PreemptionDelay: 7, Placing: 3}},
		{"no waiting job fits", func(c *Claim) { c.Free.Blocked, c.Above = 8, 9 }, map[Cause]int64{FilterOrFragmentation: 8, PreemptionDelay: 2}},
		{"operations wait for a count limit", func(c *Claim) { c.Held, c.Free.Fitting = 16, 9 }, map[Cause]int64{CountLimit: 6, Placing: 4}},
		{"a count limit that leaves enough is no cause", func(c *Claim) { c.Held, c.Free.Fitting = 10, 10 }, map[Cause]int64{Placing: 10}},
		{"an own limit", func(c *Claim) { c.Reach, c.Free.Fitting = 7, 9 }, map[Cause]int64{OwnLimit: 3, Placing: 7}},
		{"a limit above", func(c *Claim) { c.Room, c.Free.Fitting = -5, 9 }, map[Cause]int64{ParentLimit: 10}},
		{"two limits: the first one counts", func(c *Claim) { c.Reach, c.Room, c.Free.Fitting = 4, 6, 9 }, map[Cause]int64{OwnLimit: 6, Placing: 4}},
		{"an empty volume", func(c *Claim) { c.Burst, c.Paid, c.Effective, c.Share, c.Free.Fitting = 10, 2, 12, 12, 12 }, map[Cause]int64{VolumeEmpty: 8, Placing: 12}},
		{"lost nodes", func(c *Claim) { c.Effective, c.Share, c.Oversold, c.Lost, c.Above = 4, 4, 30, 40, 4 }, map[Cause]int64{NodeLoss: 6, PreemptionDelay: 4}},
		{"lost nodes cover a third", func(c *Claim) { c.Effective, c.Share, c.Oversold, c.Lost, c.Above = 4, 4, 30, 10, 4 }, map[Cause]int64{NodeLoss: 2, Oversold: 4, PreemptionDelay: 4}},
		{"a pool above has less than it promised", func(c *Claim) { c.Effective, c.Share, c.Lost, c.Above = 4, 4, 40, 4 }, map[Cause]int64{Oversold: 6, PreemptionDelay: 4}},
		{"nodes that get no jobs", func(c *Claim) { c.Free.Closed, c.Free.Fitting = 3, 90 }, map[Cause]int64{NodeLoss: 3, Placing: 7}},
		{"a share below the promise", func(c *Claim) { c.Share, c.Free.Fitting = 8, 90 }, map[Cause]int64{ShareWithheld: 2, Placing: 8}},
		{"rounding of a share", func(c *Claim) { c.Free.Fitting = 9 }, map[Cause]int64{ShareWithheld: 1, Placing: 9}},
		{"a defect", func(c *Claim) { c.Free.Fitting = 5 }, map[Cause]int64{ShareWithheld: 1, Placing: 5, Unexplained: 4}},
	} {
		c := claimOf(test.change)
		var want Parts
		for cause, part := range test.want {
			want[cause] = part
		}
		if got := c.Split(c.Got, false); got != want {
			t.Errorf("%s: got %v, want %v", test.name, got, want)
		}
	}
}

func TestRoomThatOwnJobsFreedIsBeingPlaced(t *testing.T) {
	c := claimOf(func(c *Claim) { c.Got = 10 })
	if got := c.Split(4, false); got != (Parts{Placing: 6}) {
		t.Errorf("got %v", got)
	}
	if got := c.Split(4, true); got != (Parts{SchedulerAway: 6}) {
		t.Errorf("away: got %v", got)
	}
}

// sumsOf adds up the rows of a level.
func sumsOf(t testing.TB, rows []Row, level Level) (sums Sums) {
	t.Helper()
	for _, row := range rows {
		if row.Level != level {
			continue
		}
		by, err := Decode(row.Data)
		if err != nil {
			t.Fatal(err)
		}
		for k := range by {
			sums.Add(&by[k])
		}
	}
	return sums
}

func amount(k resource.Kind, v int64) (a resource.Amounts) {
	a[k] = v
	return a
}

func TestABookIntegratesOverHoursDaysAndMonths(t *testing.T) {
	b := New()
	claim := claimOf(func(c *Claim) { c.Free.Fitting = 50 })
	from := noon.Add(11*time.Hour + 30*time.Minute) // the last half hour of a month
	b.Update(from, []Entry{{prod, claim}}, false)
	b.Spend(from.Add(10*time.Minute), prod, amount(resource.CPU, 4))
	put, _, _ := b.Flush(from.Add(90 * time.Minute))
	var levels []string
	for _, row := range put {
		levels = append(levels, fmt.Sprint(int32(row.Level), " ", row.Start.Format("02T15")))
	}
	want := "[3600 31T23 3600 01T00 86400 31T00 2592000 01T00 0 01T00]"
	if got := fmt.Sprint(levels); got != want {
		t.Errorf("got rows %s, want %s", got, want)
	}
	hours := sumsOf(t, put, Hour)
	for _, both := range [][2]float64{
		{hours.Due.Seconds(), 10 * 90 * 60}, {hours.Got.Seconds(), 4 * 80 * 60}, {hours.Short[Placing].Seconds(), 10*600 + 6*80*60},
		{sumsOf(t, put, Day).Due.Seconds(), 10 * 30 * 60}, {float64(hours.DueTime), 90 * 60 * 1e6}, {float64(hours.KeptTime), 0},
	} {
		if both[0] != both[1] {
			t.Errorf("got %v, want %v", both[0], both[1])
		}
	}
	if part, known := hours.Kept(); !known || part != 1-float64(10*600+6*80*60)/(10*90*60) {
		t.Errorf("kept: %v %v", part, known)
	}
	if put, _, _ := b.Flush(from.Add(90 * time.Minute)); len(put) != 0 {
		t.Errorf("nothing has changed, but %d rows are flushed", len(put))
	}
}

func TestNoDemandIsNotAKeptPromise(t *testing.T) {
	b := New()
	b.Update(noon, []Entry{{prod, claimOf(func(c *Claim) { c.Asked, c.Reach = 0, 0 })}}, false)
	put, _, _ := b.Flush(noon.Add(time.Minute))
	sums := sumsOf(t, put, Hour)
	if _, known := sums.Kept(); known || sums.Unclaimed.Seconds() != 600 {
		t.Errorf("kept is known: %v; unclaimed: %v", known, sums.Unclaimed.Seconds())
	}
}

// stored is what a store has of a book.
type stored struct {
	rows          map[string]Row
	facts         []Facts
	flushed, seen time.Time
}

func (s *stored) flush(b *Book, now time.Time) {
	put, remove, facts := b.Flush(now)
	s.facts = append(s.facts, facts)
	for _, row := range put {
		s.rows[key(row)] = row
	}
	for _, row := range remove {
		delete(s.rows, key(row))
	}
	s.flushed, s.seen = now, now
}

func key(row Row) string { return fmt.Sprint(row.Pool, row.Level, row.Start) }

func (s *stored) list() (rows []Row) {
	for _, row := range s.rows {
		rows = append(rows, row)
	}
	return rows
}

// TestPropertyKillsLoseAndRepeatNothing kills books at random times. What holds until
// a kill is in the sums, the time without a leader is accounted as the scheduler's
// absence, hours sum to days and months, and nothing counts twice.
func TestPropertyKillsLoseAndRepeatNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		now, store := noon, &stored{rows: map[string]Row{}}
		b, err := Restore(nil, time.Time{}, time.Time{}, now)
		if err != nil {
			r.Fatal(err)
		}
		claim := claimOf(func(c *Claim) { c.Free.Fitting = 50 })
		var due, got, away int64 // in amounts × microseconds
		open, absent, used := false, true, int64(0)
		pass := func(to time.Time) {
			elapsed := to.Sub(now).Microseconds()
			now = to
			if open {
				due += 10 * elapsed
				got += used * elapsed
				if absent {
					away += max(10-used, 0) * elapsed
				}
			}
		}
		kept := [3]int64{} // as of the last flush
		keptUsed, keptOpen, keptAbsent := int64(0), false, false
		flush := func() {
			store.flush(b, now)
			kept, keptUsed, keptOpen, keptAbsent = [3]int64{due, got, away}, used, open, absent
		}
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			pass(now.Add(time.Duration(rapid.Int64Range(0, 3*3600*1e6).Draw(r, "passed")) * time.Microsecond))
			switch rapid.IntRange(0, 5).Draw(r, "step") {
			case 0:
				absent, open = false, true
				claim.Got = used
				b.Update(now, []Entry{{prod, claim}}, false)
			case 1, 2:
				if open {
					used = rapid.Int64Range(0, 15).Draw(r, "used")
					b.Spend(now, prod, amount(resource.CPU, used))
				}
			case 3:
				flush()
			case 4:
				absent, open = false, false
				b.Update(now, nil, false)
			case 5: // a kill: what was flushed holds until the leader was last seen
				if store.flushed.IsZero() {
					continue
				}
				end := now
				due, got, away, used, open = kept[0], kept[1], kept[2], keptUsed, keptOpen
				store.seen = store.flushed.Add(time.Duration(rapid.Int64Range(0, now.Sub(store.flushed).Microseconds()).Draw(r, "seen")) * time.Microsecond)
				if b, err = Restore(store.list(), store.flushed, store.seen, end); err != nil {
					r.Fatal(err)
				}
				now = store.flushed
				absent = keptAbsent
				pass(store.seen)
				absent = true
				pass(end)
			}
		}
		flush()
		rows := store.list()
		sums := sumsOf(t, rows, Hour)
		if sums.Due.String() != fmt.Sprint(due) || sums.Got.String() != fmt.Sprint(got) || sums.Short[SchedulerAway].String() != fmt.Sprint(away) {
			r.Fatalf("due %s, got %s, away %s; want %d, %d, %d", sums.Due, sums.Got, sums.Short[SchedulerAway], due, got, away)
		}
		last := Sums{} // of the hour that has not ended
		for _, row := range rows {
			if row.Level == Hour && row.Start.Equal(Hour.StartUntil(now)) {
				last = sumsOf(t, []Row{row}, Hour)
			}
		}
		for _, level := range []Level{Day, Month} {
			long := sumsOf(t, rows, level)
			long.Add(&last)
			if long != sums {
				r.Fatalf("level %d: %+v, hours %+v", level, long, sums)
			}
		}
	})
}

// A flush at the very end of an hour leaves the hour open; its successor must add it to the day.
func TestAnHourThatEndsAtTheLastFlushIsPartOfItsDay(t *testing.T) {
	store := &stored{rows: map[string]Row{}}
	b := New()
	b.Update(noon, []Entry{{prod, claimOf(func(c *Claim) { c.Free.Fitting = 50 })}}, false)
	end := noon.Add(time.Hour)
	store.flush(b, end)
	b, err := Restore(store.list(), end, end, end)
	if err != nil {
		t.Fatal(err)
	}
	store.flush(b, end.Add(time.Minute))
	if day := sumsOf(t, store.list(), Day); day.Due.String() != "36000000000" {
		t.Errorf("the day has %s, want 10 for an hour", day.Due)
	}
}

func TestCorruptRowsAreErrors(t *testing.T) {
	b := New()
	b.Update(noon, []Entry{{prod, claimOf(func(*Claim) {})}}, false)
	put, _, _ := b.Flush(noon.Add(time.Minute))
	for _, row := range put {
		for n := range row.Data {
			cut := row
			cut.Data = row.Data[:n]
			if _, err := Restore([]Row{cut}, noon.Add(time.Minute), noon, noon.Add(time.Hour)); err == nil && n != 1 {
				t.Errorf("level %d: a row cut after %d bytes is read", row.Level, n)
			}
		}
	}
}

func TestALongAbsenceIsAccountedForAWeek(t *testing.T) {
	store := &stored{rows: map[string]Row{}}
	b := New()
	b.Update(noon, []Entry{{prod, claimOf(func(*Claim) {})}}, false)
	store.flush(b, noon)
	b, err := Restore(store.list(), noon, noon, noon.Add(30*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	store.flush(b, noon.Add(30*24*time.Hour))
	if got := sumsOf(t, store.list(), Hour).Short[SchedulerAway].Seconds(); got != 10*7*24*3600 {
		t.Errorf("away for %v", got)
	}
}
