package ledger

import (
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

var edge = Edge{Tree: "default", Victim: "batch", Winner: "prod", Rule: Starving}

// fair is a balance in which the premises of the proof hold.
var fair = scheduling.Balance{VictimLeft: 1, VictimTolerance: 0.8, VictimShare: 0.5, WinnerHad: 0.2, WinnerTolerance: 0.8, WinnerShare: 0.5}

// edgeTotals adds up the hours of an edge.
func edgeTotals(t testing.TB, p *Preemptions, now time.Time, of Edge) EdgeSums {
	t.Helper()
	var hours []TallyRow
	for _, row := range p.Flush(now) {
		if row.Level == Hour {
			hours = append(hours, row)
		}
	}
	_, lines, err := p.Edges.Total(hours)
	if err != nil {
		t.Fatal(err)
	}
	if lines[of] == nil {
		return EdgeSums{}
	}
	return *lines[of]
}

func TestAPreemptionCostsTheVictimsWorkAndGivesTheWinnerItsRoom(t *testing.T) {
	p := NewPreemptions()
	held := resource.Amounts{resource.CPU: 200}
	p.Preempt(noon, &Preempted{Edge: edge, Job: 1, Operation: 1, Held: held, ForJob: 3, For: 2, Balance: fair})
	p.Preempt(noon, &Preempted{Edge: edge, Job: 2, Operation: 1, Held: held, ForJob: 3, For: 2, Balance: fair})
	p.End(noon.Add(10*time.Second), &End{Job: 1, Started: noon.Add(-50 * time.Second), Held: held})             // aborted
	p.End(noon.Add(10*time.Second), &End{Job: 2, Started: noon.Add(-50 * time.Second), Held: held, Done: true}) // it was quick enough
	p.End(noon.Add(100*time.Second), &End{Job: 3, Started: noon, Held: amount(resource.CPU, 300), Done: true})
	got := edgeTotals(t, p, noon.Add(time.Hour), edge)
	if got.Jobs != 2 || got.Wasted != 0 || got.Lost[resource.CPU].Seconds() != 200*60 || got.Gained[resource.CPU].Seconds() != 300*100 {
		t.Errorf("got %+v", got)
	}
}

func TestAPreemptionForAJobThatNeverBeginsIsWasted(t *testing.T) {
	for _, winnerFirst := range []bool{false, true} {
		p := NewPreemptions()
		held := amount(resource.CPU, 100)
		p.Preempt(noon, &Preempted{Edge: edge, Job: 1, Operation: 1, Held: held, ForJob: 3, For: 2, Balance: fair})
		ends := []End{{Job: 1, Started: noon.Add(-time.Minute), Held: held}, {Job: 3, Started: noon, Held: held, NotBegun: true}}
		if winnerFirst {
			slices.Reverse(ends)
		}
		for i := range ends {
			p.End(noon, &ends[i])
		}
		got := edgeTotals(t, p, noon.Add(time.Hour), edge)
		if got.Wasted != 1 || got.WastedWork != got.Lost || got.Lost[resource.CPU].Seconds() != 6000 || got.Gained != (AmountSums{}) {
			t.Errorf("winner first %v: got %+v", winnerFirst, got)
		}
	}
}

func TestALoopIsFoundWithinAMinute(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(b *scheduling.Balance, turn int)
		want   Premise
	}{
		{"a loop that the proof excludes", func(*scheduling.Balance, int) {}, 0},
		{"victims starve", func(b *scheduling.Balance, _ int) { b.VictimLeft = 0.5 }, VictimStarves},
		{"winners had enough", func(b *scheduling.Balance, _ int) { b.WinnerHad = 0.9 }, WinnerHadEnough},
		{"shares change", func(b *scheduling.Balance, turn int) { b.VictimShare += float64(turn) / 100 }, SharesChanged},
	} {
		p := NewPreemptions()
		now := noon
		var found []Cycle
		for turn := range 4 { // two operations take a job from each other every ten seconds
			balance := fair
			test.change(&balance, turn)
			victim, winner := int32(1+turn%2), int32(2-turn%2)
			p.Preempt(now, &Preempted{Edge: edge, Job: uint64(turn + 1), Operation: victim, Held: amount(resource.CPU, 100), ForJob: uint64(turn + 2), For: winner, Balance: balance})
			p.End(now.Add(time.Second), &End{Job: uint64(turn + 1), Started: now.Add(-10 * time.Second)})
			now = now.Add(10 * time.Second)
		}
		for range 12 * 60 {
			now = now.Add(time.Second)
			found = append(found, p.Check(now, func(string, int32) string { return "batch" })...)
			if now.Sub(noon) == 60*time.Second && len(found) == 0 && test.want != 0 {
				t.Errorf("%s: not found within a minute", test.name)
			}
		}
		switch {
		case test.want == 0 && len(found) > 0:
			t.Errorf("%s: %+v", test.name, found)
		case test.want == 0:
		case len(found) != 1 || found[0].Premises != test.want || found[0].Jobs != 4 || fmt.Sprint(found[0].Operations) != "[1 2]" || found[0].Lost[resource.CPU].Seconds() != 4*1100:
			t.Errorf("%s: %+v", test.name, found)
		}
		_, watched, err := p.Watch.Total(p.Watch.Unflushed())
		if err != nil {
			t.Fatal(err)
		}
		if w := watched["default"]; w.Minutes != 1 || w.Proven+w.Cycles != 1 {
			t.Errorf("%s: %+v", test.name, w)
		}
	}
}

// A burst pool takes the cluster and gives it back when its savings are spent. That is a handover; that it takes the cluster
// again within minutes is a cycle.
func TestWhatIsTakenAndGivenBackOnceIsNoCycle(t *testing.T) {
	for turns, want := range map[int]int{1: 0, 2: 0, 3: 1} {
		p, now, job := NewPreemptions(), noon, uint64(0)
		for turn := range turns {
			victim, winner := int32(1+turn%2), int32(2-turn%2)
			balance := fair
			balance.VictimShare += float64(turn) / 10
			for range 20 {
				job++
				p.Preempt(now, &Preempted{Edge: edge, Job: job, Operation: victim, Held: amount(resource.CPU, 100), ForJob: 1000 + job, For: winner, Balance: balance})
				p.End(now.Add(time.Second), &End{Job: job, Started: noon.Add(-time.Hour)})
				now = now.Add(2 * time.Second)
			}
			now = now.Add(time.Minute)
		}
		cycles := 0
		for range 10 {
			now = now.Add(time.Minute)
			cycles += len(p.Check(now, func(string, int32) string { return "batch" }))
		}
		if cycles != want {
			t.Errorf("%d cycles after %d turns, want %d", cycles, turns, want)
		}
	}
}

// TestPropertyComponentsAreThoseOfReachability compares with a slow twin: two operations are in one
// component if each is reachable from the other.
func TestPropertyComponentsAreThoseOfReachability(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const most = 7
		var reach [most][most]bool
		seen := map[pair]bool{}
		for range rapid.IntRange(0, 14).Draw(r, "edges") {
			p := pair{int32(rapid.IntRange(0, most-1).Draw(r, "victim")), int32(rapid.IntRange(0, most-1).Draw(r, "winner"))}
			if p.victim != p.winner {
				seen[p], reach[p.victim][p.winner] = true, true
			}
		}
		var pairs []pair
		for a := range int32(most) {
			for b := range int32(most) {
				if seen[pair{a, b}] {
					pairs = append(pairs, pair{a, b})
				}
			}
		}
		for k := range most {
			for i := range most {
				for j := range most {
					reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
				}
			}
		}
		var want [][]int32
		done := [most]bool{}
		for i := range int32(most) {
			var c []int32
			for j := range int32(most) {
				if !done[i] && reach[i][j] && reach[j][i] {
					c = append(c, j)
				}
			}
			for _, j := range c {
				done[j] = true
			}
			if len(c) > 1 {
				want = append(want, c)
			}
		}
		if got := components(pairs); fmt.Sprint(got) != fmt.Sprint(want) {
			r.Fatalf("%v: got %v, want %v", pairs, got, want)
		}
	})
}

// TestPropertyTalliesKeepTheirSumsOverFlushesAndKills compares hours, days and months with a twin.
func TestPropertyTalliesKeepTheirSumsOverFlushesAndKills(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		stored := map[string]TallyRow{}
		p := NewPreemptions()
		now, flushed := noon, noon
		jobs, flushedJobs := int64(0), int64(0)
		flush := func() {
			for _, row := range p.Flush(now) {
				stored[fmt.Sprint(row.Kind, row.Tree, row.Level, row.Start)] = row
			}
			flushed, flushedJobs = now, jobs
		}
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(30*time.Hour)).Draw(r, "passed")))
			switch rapid.IntRange(0, 3).Draw(r, "step") {
			case 0, 1:
				of := edge
				of.Victim = rapid.SampledFrom([]string{"a", "b"}).Draw(r, "pool")
				p.Preempt(now, &Preempted{Edge: of, Job: uint64(jobs + 1), Held: amount(resource.CPU, 1)})
				jobs++
			case 2:
				flush()
			case 3: // a kill
				p = NewPreemptions()
				var rows []TallyRow
				for _, row := range stored {
					rows = append(rows, row)
				}
				if err := p.Restore(rows, flushed); err != nil {
					r.Fatal(err)
				}
				jobs = flushedJobs
			}
		}
		now = now.AddDate(0, 1, 0) // all hours end
		flush()
		for _, level := range Levels {
			var rows []TallyRow
			for _, row := range stored {
				if row.Level == level {
					rows = append(rows, row)
				}
			}
			_, lines, err := p.Edges.Total(rows)
			if err != nil {
				r.Fatal(err)
			}
			sum := int64(0)
			for _, line := range lines {
				sum += line.Jobs
			}
			if sum != jobs {
				r.Fatalf("level %d has %d jobs, not %d", level, sum, jobs)
			}
		}
	})
}

func TestCorruptTalliesAreErrors(t *testing.T) {
	p := NewPreemptions()
	p.Preempt(noon, &Preempted{Edge: edge, Job: 1, Held: amount(resource.CPU, 1)})
	rows := p.Flush(noon)
	for _, row := range rows {
		for n := range row.Data {
			cut := row
			cut.Data = row.Data[:n]
			if _, err := p.Edges.Lines(&cut); err == nil {
				t.Errorf("a row cut after %d bytes is read", n)
			}
		}
	}
}

// relaxedClaim is the claim of a relaxed pool with a tenth of the tree.
func relaxedClaim(asked, share int64) Claim {
	return Claim{Promise: scheduling.Promise{
		Resource: resource.CPU, Total: 1000, Asked: asked / 1000, Reach: asked / 1000, Room: resource.Unlimited, Relaxed: scheduling.Relaxed{
			Flow: 100_000, Asked: min(asked, 300_000), Share: share, Capacity: 24 * 3600 * 1e6 * 100_000,
		},
	}}
}

func TestADayOfFlowIsKeptIfThePoolGotWhatItCouldAskFor(t *testing.T) {
	day := time.Date(2026, 10, 30, 0, 0, 0, 0, time.UTC)
	type part struct {
		hours      int
		asked, got int64 // in millionths of the tree
	}
	for _, test := range []struct {
		name        string
		volume      float64 // hours of flow
		parts       []part
		kept, known bool
		due         float64 // hours of flow
	}{
		{"it asks for nothing", 0, []part{{24, 0, 0}}, false, false, 0},
		{"it always gets its flow", 0, []part{{24, 100_000, 100_000}}, true, true, 24},
		{"it gets a part", 0, []part{{24, 100_000, 90_000}}, false, true, 24},
		{"it asks late and spends what it saved", 0, []part{{18, 0, 0}, {6, 500_000, 300_000}}, true, true, 18},
		{"it asks late and gets only its flow", 0, []part{{18, 0, 0}, {6, 500_000, 100_000}}, false, true, 18},
		{"it asks early, before it has saved", 0, []part{{6, 500_000, 100_000}, {18, 0, 0}}, true, true, 6},
		{"it asks early and has saved", 12, []part{{6, 500_000, 300_000}, {18, 0, 0}}, true, true, 18},
		{"what it gets above its guarantee does not count", 0, []part{{12, 100_000, 0}, {12, 100_000, 400_000}}, false, true, 24},
	} {
		b := New()
		now := day
		for _, p := range test.parts {
			claim := relaxedClaim(p.asked, min(p.got, 300_000))
			if p.got == 400_000 {
				claim.Relaxed.Share = 100_000
			}
			claim.Relaxed.Volume = int64(test.volume * 3600 * 1e6 * 100_000)
			claim.Got = p.got / 1000
			b.Update(now, []Entry{{prod, claim}}, false)
			now = now.Add(time.Duration(p.hours) * time.Hour)
		}
		b.Update(now, nil, false)
		put, _, _ := b.Flush(now.Add(time.Hour))
		sums := sumsOf(t, put, Day)
		kept, known := sums.Flow.Verdict()
		due := sums.Flow.Due.min(sums.Flow.Flowed).Seconds() / 100_000 / 3600
		if kept != test.kept || known != test.known || due != test.due {
			t.Errorf("%s: kept %v, known %v, due %v hours", test.name, kept, known, due)
		}
		balance := new(big.Int)
		for _, s := range []Sum{sums.Flow.Due, sums.Flow.Overflowed} {
			number, _ := new(big.Int).SetString(s.String(), 10)
			balance.Add(balance, number)
		}
		most, _ := new(big.Int).SetString(sums.Flow.Flowed.String(), 10)
		if balance.Cmp(most.Add(most, big.NewInt(int64(test.volume*3600*1e6*100_000)))) > 0 {
			t.Errorf("%s: due and overflow are more than the flow and what was saved", test.name)
		}
	}
}
