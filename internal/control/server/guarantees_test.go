package server

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
)

// booksOf returns a pool's sums of CPU.
func booksOf(s *scheduler, pool string) (sums ledger.Sums) {
	s.t.Helper()
	now := time.Now()
	report, err := s.Guarantees(s.t.Context(), GuaranteeQuery{Tree: "default", Pool: pool, From: now.Add(-2 * time.Hour), To: now.Add(time.Hour)})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, line := range report.Lines {
		if line.Resource == resource.CPU && line.Name == pool {
			sums.Add(&line.Sums)
		}
	}
	return sums
}

// flushNow stores the ledger.
func flushNow(s *scheduler) {
	s.t.Helper()
	_, err := ask(s.t.Context(), s.Server, func(t *term) (struct{}, error) {
		t.flushBooks()
		return struct{}{}, nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// storedTime returns one of the ledger's times in the store.
func storedTime(s *scheduler, name string) time.Time {
	s.t.Helper()
	state, err := s.Store().Load(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range state.Rows.Counters {
		if c.Name == name {
			return time.UnixMicro(c.Value)
		}
	}
	return time.Time{}
}

// shortPool is a pool that is promised four cores of a machine with two, and asks for all.
func shortPool(s *scheduler) *machine {
	s.t.Helper()
	s.pools("{pools: {p: {strong_guarantee_resources: {cpu: 4}}, idle: {strong_guarantee_resources: {cpu: 1}}, free: {}}}")
	m := newMachine(s.t, "node-1", 2)
	m.beat(s)
	s.start(fmt.Sprintf(small, "p", 1000))
	s.eventually("the machine is busy", func() bool { m.beat(s); return len(m.jobs) == 2 })
	return m
}

func TestTheLedgerStatesWhatWasDueAndWhyItIsShort(t *testing.T) {
	s := lead(t, t.TempDir())
	shortPool(s)
	s.eventually("the promise was broken because it is more than there is", func() bool { return !booksOf(s, "p").Short[ledger.Oversold].IsZero() })
	sums := booksOf(s, "p")
	checkBalance(t, &sums)
	if !sums.Short[ledger.Unexplained].IsZero() {
		t.Errorf("unexplained: %s", sums.Short[ledger.Unexplained])
	}
	// Its usage does not change, so the next update enters its books.
	s.eventually("the idle pool has books", func() bool { return !booksOf(s, "idle").Promised.IsZero() })
	if idle := booksOf(s, "idle"); !idle.Due.IsZero() || idle.Unclaimed != idle.Promised {
		t.Errorf("the idle pool has %+v", idle)
	}
	if free := booksOf(s, "free"); !free.IsZero() {
		t.Errorf("the pool without a promise has %+v", free)
	}
	s.eventually("metrics have it", func() bool {
		due, short, known := s.GuaranteeSeconds("default", "p")
		return known && due > 0 && short[ledger.Oversold] > 0
	})
	if _, _, known := s.GuaranteeSeconds("default", "free"); known {
		t.Error("a pool without a promise has seconds")
	}
	s.stop()
}

func TestNodesThatAreGoneAreTheCauseOfABrokenPromise(t *testing.T) {
	s := lead(t, t.TempDir())
	m := shortPool(s)
	other := newMachine(t, "node-2", 4)
	s.eventually("all four cores run", func() bool {
		m.beat(s)
		other.beat(s)
		return len(m.jobs)+len(other.jobs) >= 4
	})
	if err := s.EditNode(t.Context(), tester, "node-2", func(settings *NodeSettings) error {
		settings.SetMaintenanceFlag(Ban, true, "root", time.Now())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s.eventually("the lost node is the cause", func() bool { m.beat(s); return !booksOf(s, "p").Short[ledger.NodeLoss].IsZero() })
	s.stop()
}

func TestABrokenGuaranteeIsLoggedOnceUntilItIsKeptAgain(t *testing.T) {
	term := &term{open: &batch{}, now: time.Now()}
	e := &ledger.Entry{Pool: ledger.Pool{Tree: "default", Name: "p"}}
	e.Claim.Strong, e.Claim.Asked, e.Claim.Resource = 1000, 1000, resource.CPU
	var w watchedPromise
	for _, step := range []struct {
		seconds int
		parts   ledger.Parts
		want    string
	}{
		{0, ledger.Parts{ledger.NodeLoss: 11}, ""},
		{299, ledger.Parts{ledger.NodeLoss: 11}, ""},
		{1, ledger.Parts{ledger.NodeLoss: 11, ledger.Placing: 5}, "guarantee_broken node_loss"},
		{300, ledger.Parts{ledger.NodeLoss: 500}, ""},
		{1, ledger.Parts{ledger.NodeLoss: 10}, ""},      // one percent breaks nothing
		{200, ledger.Parts{ledger.CountLimit: 500}, ""}, // nor do its own settings
		{1, ledger.Parts{ledger.Placing: 11}, ""},
		{1, ledger.Parts{}, ""},
		{300, ledger.Parts{}, "guarantee_kept"},
		{1, ledger.Parts{ledger.Placing: 11}, ""},
		{300, ledger.Parts{ledger.Placing: 11}, "guarantee_broken"},
	} {
		term.now = term.now.Add(time.Duration(step.seconds) * time.Second)
		term.open = &batch{}
		term.noticePromise(e, &w, step.parts, 5*time.Minute)
		got := ""
		for _, event := range term.open.rows.Put.Events {
			got += event.Type
			if strings.Contains(string(event.Document), `"cause":"node_loss"`) {
				got += " node_loss"
			}
		}
		if got != step.want {
			t.Errorf("%+v: the log gets %q", step, got)
		}
	}
}

func TestTheLedgerContinuesAfterAKillAndAccountsTheGap(t *testing.T) {
	directory := t.TempDir()
	settings := quickSettings()
	settings.LeaseTTL = 500 * time.Millisecond
	a, link := runCuttable(t, directory, "a", settings)
	<-a.Led()
	m := shortPool(a)
	a.eventually("something is due", func() bool { return !booksOf(a, "p").Due.IsZero() })
	flushNow(a)
	flushed := storedTime(a, ledgerFlushed)
	opened := func(s *scheduler, at time.Time) time.Time { // when the pool's books were opened, as of a flush
		rows, err := storedBooks(s, "p")
		if err != nil {
			t.Fatal(err)
		}
		return at.Add(-time.Duration(rows.DueTime) * time.Microsecond)
	}
	first := opened(a, flushed)
	link.cut.Store(true) // nothing that it does from now on is stored
	a.eventually("its lease has ended", func() bool { return !a.Leading() })
	seen, killed := storedTime(a, ledgerSeen), time.Now()
	if seen.Before(flushed) {
		t.Errorf("seen at %v, flushed at %v", seen, flushed)
	}
	b, _ := runCuttable(t, directory, "b", settings)
	b.eventually("the successor updates its books", func() bool {
		m.beat(b)
		return storedTime(b, ledgerFlushed).After(flushed)
	})
	away := booksOf(b, "p").Short[ledger.SchedulerAway]
	took := time.Duration(away.Seconds() / 200 * float64(time.Second)) // it lacks two cores, 200 units
	const slack = 100 * time.Millisecond
	if end := seen.Add(took); end.Before(killed.Add(-slack)) || end.After(storedTime(b, ledgerFlushed)) {
		t.Errorf("away from %v until %v, but it was killed before %v", seen, end, killed)
	}
	flushNow(b)
	if second := opened(b, storedTime(b, ledgerFlushed)); !second.Equal(first) {
		t.Errorf("the books of a start at %v, those of b at %v: a time is missing or counts twice", first, second)
	}
	sums := booksOf(b, "p")
	checkBalance(t, &sums)
	checkVerified(b)
	b.stop()
	a.stop()
}

// checkBalance checks that what a pool got and what it lacked sum to what was due, exactly. A job that starts
// before an update knows of its demand is a surplus.
func checkBalance(t *testing.T, sums *ledger.Sums) {
	t.Helper()
	due, got := sums.Due, sums.Got
	due.Add(sums.Surplus)
	got.Add(sums.Missing())
	if due != got {
		t.Errorf("due %s and surplus %s are not got %s and short %s", sums.Due, sums.Surplus, sums.Got, sums.Missing())
	}
}

// checkVerified checks that the stored books equal the log.
func checkVerified(s *scheduler) {
	s.t.Helper()
	now := time.Now()
	v, err := s.VerifyGuarantees(s.t.Context(), GuaranteeQuery{From: now.Add(-2 * time.Hour), To: now.Add(time.Hour)})
	if err != nil {
		s.t.Fatal(err)
	}
	if !v.Equal() || v.Hours == 0 || len(v.Unverified) > 0 {
		s.t.Errorf("the books are not verified: %+v", v)
	}
}

// TestTheBooksEqualTheLogAfterKills is L3: it kills leaders at whatever moment they are in. Their successors
// verify the books, and account the time without a leader as that of nobody. make long kills 200.
func TestTheBooksEqualTheLogAfterKills(t *testing.T) {
	kills := 4
	if os.Getenv("WEIR_LONG") != "" {
		kills = 200
	}
	directory := t.TempDir()
	settings := quickSettings()
	settings.LeaseTTL = time.Second // a busy machine must not end it
	leader, link := runCuttable(t, directory, "leader-0", settings)
	<-leader.Led()
	m := shortPool(leader)
	leader.eventually("something is due", func() bool { return !booksOf(leader, "p").Due.IsZero() })
	flushNow(leader)
	away := 0.0
	for kill := range kills {
		for range kill % 4 { // what the leader has not stored when it is killed differs
			m.beat(leader)
			m.end(m.some(), nodev1.JobState_JOB_STATE_COMPLETED, "")
		}
		if kill%2 == 0 {
			flushNow(leader)
		}
		link.cut.Store(true)
		leader.eventually("its lease has ended", func() bool { return !leader.Leading() })
		killed, seen, before := time.Now(), storedTime(leader, ledgerSeen), storedTime(leader, ledgerFlushed)
		next, nextLink := runCuttable(t, directory, fmt.Sprint("leader-", kill+1), settings)
		<-next.Led()
		next.eventually("the successor updates its books", func() bool {
			m.beat(next)
			return storedTime(next, ledgerFlushed).After(before)
		})
		checkVerified(next)
		// It lacks two of four cores, or more of them while jobs are replaced.
		short := booksOf(next, "p").Short[ledger.SchedulerAway]
		const slack = 100 * time.Millisecond
		least, most := killed.Add(-slack).Sub(seen).Seconds(), storedTime(next, ledgerFlushed).Sub(seen).Seconds()
		if grown := short.Seconds() - away; grown < 200*least || grown > 400*most {
			t.Errorf("kill %d: nobody led for %.3f to %.3f s, and the books have %.0f of cpu for it", kill, least, most, grown)
		}
		away = short.Seconds()
		leader.stop()
		leader, link = next, nextLink
		if t.Failed() {
			break
		}
	}
	sums := booksOf(leader, "p")
	checkBalance(t, &sums)
	t.Logf("%d kills; while nobody led, the pool lacked %.0f cpu seconds", kills, away/100)
	leader.stop()
}

func TestARowThatTheLogDoesNotExplainIsFound(t *testing.T) {
	s := lead(t, t.TempDir())
	shortPool(s)
	s.eventually("something is due", func() bool { return !booksOf(s, "p").Due.IsZero() })
	flushNow(s)
	checkVerified(s)
	hour := ledger.Hour.Start(storedTime(s, ledgerFlushed))
	rows, err := s.bookRows(t.Context(), &GuaranteeQuery{Pool: "p"}, ledger.Hour, hour, hour.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	_, err = ask(t.Context(), s.Server, func(t *term) (struct{}, error) {
		t.open.rows.Put.LedgerRows = append(t.open.rows.Put.LedgerRows, store.LedgerRow{Tree: "default", Pool: "p", Level: int32(ledger.Hour), Start: hour.Add(-time.Hour), Data: rows[0].Data})
		return struct{}{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	v, err := s.VerifyGuarantees(t.Context(), GuaranteeQuery{From: now.Add(-2 * time.Hour), To: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if v.Equal() || v.Differences[0].Name != "p" {
		t.Errorf("a row that nothing in the log explains is not found: %+v", v)
	}
	s.stop()
}

// storedBooks returns a pool's sums in the store.
func storedBooks(s *scheduler, pool string) (sums ledger.Sums, err error) {
	standby := New(Options{Store: s.Store()})
	now := time.Now()
	report, err := standby.Guarantees(s.t.Context(), GuaranteeQuery{Pool: pool, From: now.Add(-2 * time.Hour), To: now.Add(time.Hour)})
	if err != nil {
		return sums, err
	}
	for i := range report.Lines {
		sums.Add(&report.Lines[i].Sums)
	}
	return sums, nil
}
