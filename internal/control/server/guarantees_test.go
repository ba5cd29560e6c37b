package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/ledger"
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
	s.start(fmt.Sprintf(small, "p", 100))
	s.eventually("the machine is busy", func() bool { m.beat(s); return len(m.jobs) == 2 })
	return m
}

func TestTheLedgerStatesWhatWasDueAndWhyItIsShort(t *testing.T) {
	s := lead(t, t.TempDir())
	shortPool(s)
	s.eventually("the promise was broken because it is more than there is", func() bool { return !booksOf(s, "p").Short[ledger.Oversold].IsZero() })
	sums := booksOf(s, "p")
	total := sums.Got
	total.Add(sums.Missing())
	if total.Seconds() < sums.Due.Seconds() { // more if jobs started before an update knew of the demand
		t.Errorf("due %s, got %s, short %s", sums.Due, sums.Got, sums.Missing())
	}
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
	total := sums.Got
	total.Add(sums.Missing())
	if total.Seconds() < sums.Due.Seconds() { // more if jobs started before an update knew of the demand
		t.Errorf("due %s, got %s, short %s", sums.Due, sums.Got, sums.Missing())
	}
	b.stop()
	a.stop()
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
