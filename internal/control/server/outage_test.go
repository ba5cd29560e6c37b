package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/test/expected"
)

// stall keeps the store from committing until release is called. No commit is under way
// when that begins: one that is found later is stuck, and not just about to be settled.
func (s *scheduler) stall(directory string) (release func()) {
	t := s.t
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(directory, "weir.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	connection, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.eventually("no commit is under way", func() bool {
		locked, err := askHow(t.Context(), s.Server, true, func(t *term) (bool, error) {
			t.answerNow = true
			if t.flight != nil {
				return false, nil
			}
			_, err := connection.ExecContext(context.Background(), "BEGIN IMMEDIATE")
			return true, err
		})
		if err != nil {
			t.Fatal(err)
		}
		return locked
	})
	return func() {
		if _, err := connection.ExecContext(context.Background(), "ROLLBACK"); err != nil {
			t.Error(err)
		}
		if err := errors.Join(connection.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatTheLoopHasTakenIsAnsweredByItsOutcome(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	s.pools("{pools: {p: {}}}")
	spec, err := operation.Read(expected.Document(t, "{pool: p, tasks: {t: {job_count: 1, command: 'true'}}}"), operation.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	release := s.stall(directory)
	ctx, giveUp := context.WithCancel(t.Context())
	started := make(chan error, 1)
	go func() {
		_, err := s.StartOperation(ctx, tester, Start{Type: "vanilla", User: "anna", Spec: spec})
		started <- err
	}()
	s.eventually("the loop has the request", func() bool { return s.Counters().OperationsStarted == 1 })
	giveUp()
	release()
	if err := <-started; err != nil {
		t.Errorf("the operation is started, and its user hears %v: the next attempt would start another", err)
	}
	s.stop()
}

func TestEditorsOfPoolsDoNotQueueBehindAStalledStore(t *testing.T) {
	directory := t.TempDir()
	settings := quickSettings()
	settings.LeaseTTL = time.Hour // it cannot be renewed meanwhile
	s := leadWith(t, directory, Options{Settings: settings})
	s.pools("{pools: {p: {}}}")
	change := func(ctx context.Context) error { return setPools(ctx, s.Server, "{pools: {p: {weight: 3}}}") }

	s.editing <- struct{}{} // somebody else edits, and takes long
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := change(short); !errors.Is(err, ErrOverloaded) {
		t.Errorf("who waits for another editor hears %v", err)
	}
	<-s.editing

	release := s.stall(directory)
	s.configure(func(c *Settings) { c.StallPatience = 20 * time.Millisecond })
	if _, err := askHow(t.Context(), s.Server, true, func(t *term) (struct{}, error) {
		t.answerNow = true
		t.event(store.Event{Type: "something to commit"})
		return struct{}{}, nil
	}); err != nil {
		t.Fatal(err)
	}
	s.eventually("the store is stalled", func() bool { return s.term.Load().stalled() })
	if err := change(t.Context()); !errors.Is(err, ErrOverloaded) {
		t.Errorf("a change is answered with %v", err)
	}
	release()
	s.eventually("changes are taken again", func() bool { return change(t.Context()) == nil })
	s.stop()
}

func TestClocksAreNotCollectedWhileTheStoreIsStalled(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	s.pools("{pools: {p: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1}}}}}")
	m := newMachine(t, "node-1", 4)
	m.beat(s)
	s.configure(func(c *Settings) { c.StallPatience = 20 * time.Millisecond })
	release := s.stall(directory)
	collected := func() int {
		n, err := askHow(t.Context(), s.Server, true, func(t *term) (int, error) {
			t.answerNow = true
			return len(t.open.rows.Put.Volumes) + len(t.open.rows.Put.Clocks), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	s.eventually("the store is stalled", func() bool { return s.term.Load().stalled() })
	before, since := collected(), s.View().At
	s.eventually("there are more updates", func() bool { return s.View().At.Sub(since) > 100*time.Millisecond })
	if after := collected(); after != before {
		t.Errorf("%d rows wait for the store, some updates ago it was %d", after, before)
	}
	release()
	s.eventually("the volume is stored", func() bool {
		state, err := s.Store().Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(state.Rows.Volumes) > 0 && state.Rows.Volumes[0].Updated.After(since)
	})
	s.stop()
}

func TestALeaderWhoseLeaseHasRunOutWaitsForTheStoreBeforeItSpeaks(t *testing.T) {
	directory := t.TempDir()
	synctest.Test(t, func(t *testing.T) { // the lease is not renewed before the test waits
		s := lead(t, directory)
		s.pools("{pools: {p: {}}}")
		s.answerUntil(time.Now().Add(-time.Second)) // as if it had been stopped
		if s.Leading() {
			t.Error("it says that it leads")
		}
		refused := func(*Trees) (*Trees, error) { return nil, errors.New("there is no such pool") }
		if err := s.EditTrees(t.Context(), tester, refused); !errors.Is(err, ErrNotLeading) {
			t.Errorf("a change of pools is answered with %v", err)
		}
		if err := s.AbortOperation(t.Context(), tester, OperationKey{}, ""); !errors.Is(err, ErrNotLeading) {
			t.Errorf("an abort is answered with %v", err)
		}
		s.eventually("the store has confirmed it", s.Leading)
		s.stop()
	})
}

func TestAReplacedLeaderDoesNotConfirmWhatItBelieves(t *testing.T) {
	s := lead(t, t.TempDir())
	const pools = "{pools: {p: {}}}"
	s.pools(pools)
	s.alerts.raise(AlertOverload, "too much")
	// On the loop: this one would otherwise take the lease back between the two.
	if _, err := askHow(t.Context(), s.Server, true, func(t *term) (struct{}, error) {
		t.answerNow = true
		ctx := context.Background()
		if err := s.Store().Release(ctx, t.lease); err != nil {
			return struct{}{}, err
		}
		_, err := s.Store().Acquire(ctx, "another", "other:1", time.Hour)
		return struct{}{}, err
	}); err != nil {
		t.Fatal(err)
	}
	if err := setPools(t.Context(), s.Server, pools); !errors.Is(err, ErrNotLeading) {
		t.Errorf("it says %v to a change that changes nothing", err)
	}
	s.eventually("it knows the other", func() bool { return s.Leader().Address == "other:1" && !s.Leading() })
	s.eventually("a standby has no alerts of its reign", func() bool { return len(s.Alerts()) == 0 })
	s.stop()
}

func TestReadersSeeRevivedOperationsAtOnce(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	s.pools("{pools: {p: {}}}")
	m := newMachine(t, "node-1", 4)
	m.beat(s)
	id := s.start("{pool: p, tasks: {t: {job_count: 6, command: 'true', cpu_limit: 1, memory_limit: 512MiB}}}")
	s.eventually("jobs run", func() bool { m.beat(s); return len(m.jobs) > 0 })
	s.stop()
	next := lead(t, directory)
	record, there := next.Operation(OperationKey{ID: id})
	if !there || record.Built.IsZero() || record.Jobs.Total != 6 {
		t.Fatalf("%v %+v", there, record)
	}
	if _, there := record.Progress.Get("memory_reserves"); !there {
		t.Error("the reserves of memory are not shown")
	}
	next.stop()
}

func TestNodesAreAwaitedAlthoughTheyAreWrittenDownRarely(t *testing.T) {
	settings := quickSettings()
	settings.Core.NodeTimeout = 10 * time.Second
	s := New(Options{Settings: settings})
	term := &term{
		server: s, operations: map[core.OperationID]*activeOperation{1: nil}, nodes: map[string]*activeNode{}, awaited: map[string]bool{},
	}
	now := time.Now()
	term.reviveNodes(&store.Rows{Nodes: []store.Node{
		{Address: "fresh", LastSeen: now}, {Address: "written a while ago", LastSeen: now.Add(-nodeStorePeriod)},
		{Address: "long gone", LastSeen: now.Add(-time.Hour)}, {Address: "never seen"},
	}})
	if len(term.awaited) != 2 || !term.awaited["fresh"] || !term.awaited["written a while ago"] {
		t.Errorf("%v", term.awaited)
	}
}

func TestNodesThatReportOftenAreBackSoon(t *testing.T) {
	for _, c := range []struct{ period, least, most time.Duration }{
		{time.Second, time.Second, 12 * time.Second}, {5 * time.Second, 5 * time.Second, time.Minute}, {time.Minute, 5 * time.Second, time.Minute},
	} {
		settings := DefaultSettings()
		settings.HeartbeatPeriod = c.period
		got := (&term{server: New(Options{Settings: settings})}).nodeSettings()
		if got.BackoffMin != c.least || got.BackoffMax != c.most {
			t.Errorf("with a period of %v a node waits from %v to %v", c.period, got.BackoffMin, got.BackoffMax)
		}
	}
}

func TestOverloadShedsSchedulingAndNotResults(t *testing.T) {
	s := lead(t, t.TempDir())
	s.pools("{pools: {p: {}}}")
	machines := []*machine{newMachine(t, "node-1", 2), newMachine(t, "node-2", 2), newMachine(t, "node-3", 2), newMachine(t, "node-4", 2)}
	for _, m := range machines {
		m.beat(s)
	}
	s.start("{pool: p, tasks: {t: {job_count: 100, command: 'true', cpu_limit: 1, memory_limit: 512MiB}}}")
	s.eventually("jobs run everywhere", func() bool {
		busy := 0
		for _, m := range machines {
			m.beat(s)
			busy += len(m.jobs)
		}
		return busy == 8
	})
	settings := s.Settings()
	settings.SoftQueue = 1
	s.Configure(settings)
	skipped, completed := s.Counters().SchedulingSkipped, s.Counters().JobsCompleted
	// The loop is kept busy until all nodes wait with a result each.
	hold, held, busy := make(chan struct{}), make(chan error, 1), make(chan struct{})
	go func() {
		_, err := ask(context.Background(), s.Server, func(*term) (struct{}, error) {
			close(busy)
			<-hold
			return struct{}{}, nil
		})
		held <- err
	}()
	<-busy
	reported := make(chan struct{}, len(machines))
	for _, m := range machines {
		m.end(m.some(), nodev1.JobState_JOB_STATE_COMPLETED, "")
		go func() {
			m.beat(s)
			reported <- struct{}{}
		}()
	}
	s.eventually("all nodes wait", func() bool { return s.Counters().Waiting == len(machines) })
	close(hold)
	for range machines {
		<-reported
	}
	if err := <-held; err != nil {
		t.Error(err)
	}
	if n := s.Counters().JobsCompleted - completed; n != 4 {
		t.Errorf("%d results were taken in, of 4", n)
	}
	if s.Counters().SchedulingSkipped == skipped {
		t.Error("all nodes got work although too many waited")
	}
	s.eventually("there is work again, and the alert is gone", func() bool {
		busy := 0
		for _, m := range machines {
			m.beat(s)
			busy += len(m.jobs)
		}
		return busy == 8 && len(s.Alerts()) == 0
	})
	s.stop()
}

func TestAStandbyReadsASpecificationOnce(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	s.pools("{pools: {p: {}}}")
	id := s.start("{pool: p, tasks: {t: {job_count: 6, command: 'true'}}}")
	standby := New(Options{Store: s.Store(), Name: "standby", Settings: quickSettings()})
	for range 2 {
		if err := standby.follow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first, there := standby.Operation(OperationKey{ID: id})
	if err := standby.follow(t.Context()); err != nil || !there {
		t.Fatal(there, err)
	}
	if second, _ := standby.Operation(OperationKey{ID: id}); second.Spec != first.Spec {
		t.Error("the specification is read again although it has not changed")
	}
	priority, err := operation.Read(expected.Document(t, "{pool: p, title: another, tasks: {t: {job_count: 6, command: 'true'}}}"), operation.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	row, err := specRow(&Operation{Number: first.Number, Spec: priority.Spec, Provided: priority.Provided, Unrecognized: priority.Unrecognized})
	if err != nil {
		t.Fatal(err)
	}
	if read, err := standby.readSpec(&row); err != nil || read.spec.Title.Value() != "another" {
		t.Errorf("%+v, %v", read, err)
	}
	s.stop()
}

func TestNodesAskAgainSoonWhileOthersAreAwaited(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	s.pools("{pools: {p: {}}}")
	machines := []*machine{newMachine(t, "node-1", 2), newMachine(t, "node-2", 2)}
	for _, m := range machines {
		m.beat(s)
	}
	s.start("{pool: p, tasks: {t: {job_count: 100, command: 'true'}}}")
	s.stop()
	next := lead(t, directory)
	machines[0].beat(next) // it learns that it has to register
	machines[0].beat(next)
	request, err := machines[0].session.Heartbeat()
	if err != nil {
		t.Fatal(err)
	}
	response, err := next.NodeService().Heartbeat(t.Context(), nodeproto.Peer{Node: nodeproto.AnyNode}, request)
	if err != nil {
		t.Fatal(err)
	}
	pause := time.Duration(response.GetNextHeartbeatUs()) * time.Microsecond
	if response.GetSchedulingSkipped() != nodev1.SkipReason_SKIP_REASON_NOT_SKIPPED || pause <= 0 || pause > time.Second || len(machines[0].jobs) > 0 {
		t.Errorf("%v", response)
	}
	next.stop()
}

func TestOutputThatComesBeforeItsJobIsAdoptedComesAgain(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	s.pools("{pools: {p: {}}}")
	m := newMachine(t, "node-1", 1)
	m.beat(s)
	s.start(fmt.Sprintf(small, "p", 1))
	s.eventually("a job runs", func() bool { m.beat(s); return len(m.jobs) == 1 })
	s.stop()

	next := lead(t, directory)
	number := m.some()
	const text = "a long story"
	var refused *nodeproto.RefusedError
	if _, err := m.upload(next, number, text); !errors.As(err, &refused) || refused.RetryAfter <= 0 {
		t.Fatalf("an upload of a node that has not reported: %v, want to be asked to come again", err)
	}
	m.beat(next) // it learns that it has to register
	m.beat(next)
	if left, err := m.upload(next, number, text); err != nil || left != 0 {
		t.Fatal(left, err)
	}
	m.finish(number, &nodev1.Output{Uploaded: true, Size: int64(len(text))})
	next.eventually("the job is archived with its words", func() bool {
		m.beat(next)
		return m.stderr(next, number) == text
	})
	next.stop()
}
