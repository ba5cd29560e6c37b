package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
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

// stall keeps the store from committing until release is called. No commit is under way when it
// starts, so a commit found later is stuck and not about to be settled.
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

func TestRequestsBehindABusyStoreShareBatchesOfBoundedSize(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	release := s.stall(directory)
	// Each request has rows of its own, and its answer waits for them.
	var answers []chan int64
	ask := func(rows int) {
		answer := make(chan int64, 1)
		answers = append(answers, answer)
		taken := make(chan struct{})
		go func() {
			last, err := ask(t.Context(), s.Server, func(t *term) (*int64, error) {
				defer close(taken)
				last := new(int64)
				for range rows {
					t.event(store.Event{Type: "row"})
				}
				t.open.published = append(t.open.published, func(r store.Receipt) { *last = r.LastEvent })
				return last, nil
			})
			if err != nil {
				t.Error(err)
			}
			answer <- *last
		}()
		<-taken
	}
	ask(1)
	s.eventually("the first is with the store", func() bool {
		flies, err := askHow(t.Context(), s.Server, true, func(t *term) (bool, error) {
			t.answerNow = true
			return t.flight != nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return flies
	})
	for _, rows := range []int{fullBatch / 2, fullBatch, 3 * fullBatch, 1, 1} {
		ask(rows)
	}
	closed, err := askHow(t.Context(), s.Server, true, func(t *term) (int, error) {
		t.answerNow = true
		return len(t.closed), nil
	})
	if err != nil || closed < 2 {
		t.Errorf("%d batches wait for the store, with error %v", closed, err)
	}
	release()
	var last []int64 // events of the commits in which the requests are
	for _, answer := range answers {
		last = append(last, <-answer)
	}
	if last[0] > last[1] || last[1] != last[2] || last[2] >= last[3] || last[3] >= last[4] || last[4] > last[5] {
		t.Errorf("the commits of the requests end with events %d", last)
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

	s.editing <- struct{}{} // another edit is under way and takes long
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
		s.answerUntil(time.Now().Add(-time.Second)) // as if the process had been stopped
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
	// Run on the loop: otherwise this server would take the lease back between the two steps.
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
	// Keep the loop busy until every node waits with a result.
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

func TestATakeoverSchedulesAtOnceOnNodesThatHaveReported(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	s.pools("{pools: {p: {}}}")
	here, silent := newMachine(t, "here", 2), newMachine(t, "silent", 2)
	id := s.start(fmt.Sprintf(small, "p", 100))
	s.eventually("both are busy", func() bool {
		here.beat(s)
		silent.beat(s)
		return len(here.jobs) == 2 && len(silent.jobs) == 2
	})
	here.end(here.some(), nodev1.JobState_JOB_STATE_COMPLETED, "") // the leader crashes before it receives the result
	cookies := map[int32]bool{}
	for _, m := range []*machine{here, silent} {
		for _, start := range m.jobs {
			cookies[start.Identity.GetCookie()] = true
		}
	}
	s.stop()

	next := lead(t, directory)
	held := next.HeldBack()
	if len(held) != 2 || held[0].Name != "here" || held[1].Name != "silent" || held[1].Jobs != 2 || held[1].Everything {
		t.Fatalf("held back is %+v", held)
	}
	record, there := next.Operation(OperationKey{ID: id})
	if !there || record.Jobs.Running != 4 {
		t.Errorf("%d jobs run as far as the new leader knows", record.Jobs.Running)
	}
	known := here.some()
	here.beat(next) // registers and reports
	here.beat(next)
	if len(here.jobs) != 2 {
		t.Errorf("it has %d jobs after its first heartbeat, while another node is silent", len(here.jobs))
	}
	for number, start := range here.jobs {
		if number != known && cookies[start.Identity.GetCookie()] {
			t.Errorf("cookie %d runs twice", start.Identity.GetCookie())
		}
	}
	next.eventually("it is said for whom what is held back", func() bool {
		held := next.HeldBack()
		return len(held) == 1 && held[0].Name == "silent" && held[0].Jobs == 2 && !held[0].Until.IsZero() && strings.Contains(next.HeldBackText(), "silent") &&
			slices.ContainsFunc(next.Alerts(), func(a Alert) bool { return a.Kind == AlertHeldBack })
	})
	before := len(silent.jobs)
	silent.beat(next)
	silent.beat(next)
	if len(silent.jobs) != before {
		t.Errorf("of %d jobs it keeps %d", before, len(silent.jobs))
	}
	next.eventually("nothing is held back", func() bool {
		return len(next.HeldBack()) == 0 && next.HeldBackText() == "" && len(next.Alerts()) == 0
	})
	next.stop()
}

func TestASilentNodeIsGivenUpAfterATakeover(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	s.pools("{pools: {p: {}}}")
	here, silent := newMachine(t, "here", 2), newMachine(t, "silent", 2)
	s.start(fmt.Sprintf(small, "p", 4))
	s.eventually("both are busy", func() bool {
		here.beat(s)
		silent.beat(s)
		return len(here.jobs) == 2 && len(silent.jobs) == 2
	})
	s.stop()
	settings := quickSettings()
	settings.ConfirmationTimeout = 200 * time.Millisecond
	next := leadWith(t, directory, Options{Settings: settings})
	next.eventually("what it ran is started elsewhere", func() bool {
		here.beat(next)
		if number := here.some(); number != 0 {
			here.end(number, nodev1.JobState_JOB_STATE_COMPLETED, "")
		}
		return len(here.ended) == 4
	})
	next.stop()
}

// TestWhereJobsAreNotStoredNodesAreAwaited covers stores that an earlier version wrote.
func TestWhereJobsAreNotStoredNodesAreAwaited(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	s.pools("{pools: {p: {}}}")
	here, silent := newMachine(t, "here", 2), newMachine(t, "silent", 2)
	here.beat(s)
	silent.beat(s)
	s.start(fmt.Sprintf(small, "p", 100))
	if _, err := ask(t.Context(), s.Server, func(t *term) (struct{}, error) {
		t.nodes["silent"].reported = false
		t.storeNode(t.nodes["silent"])
		return struct{}{}, nil
	}); err != nil {
		t.Fatal(err)
	}
	s.stop()
	next := lead(t, directory)
	here.beat(next)
	here.beat(next)
	here.beat(next)
	next.eventually("it is said that one node stops everything", func() bool {
		held := next.HeldBack()
		return len(held) == 1 && held[0].Everything && strings.Contains(next.HeldBackText(), "nothing is scheduled")
	})
	if len(here.jobs) > 0 {
		t.Errorf("it has %d jobs although another node may run them", len(here.jobs))
	}
	silent.beat(next)
	next.eventually("there is work", func() bool { here.beat(next); silent.beat(next); return len(here.jobs) == 2 })
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
	m.beat(next) // is told to register
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

func TestAnOrderThatNeverArrivedIsTakenBack(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	s.pools("{pools: {p: {}}}")
	m := newMachine(t, "node-1", 2)
	m.beat(s)
	id := s.start(fmt.Sprintf(small, "p", 4))
	s.eventually("jobs are ordered", func() bool {
		request, err := m.session.Heartbeat()
		if err != nil {
			t.Fatal(err)
		}
		response, err := s.NodeService().Heartbeat(t.Context(), nodeproto.Peer{Node: nodeproto.AnyNode}, request)
		m.session.Failed(request.GetSequence(), errors.New("the answer is lost"))
		return err == nil && len(response.GetOrders()) == 2
	})
	s.stop()
	next := lead(t, directory)
	if held := next.HeldBack(); len(held) != 1 || held[0].Jobs != 2 {
		t.Errorf("held back is %+v", held)
	}
	next.eventually("the operation is done", func() bool {
		m.beat(next)
		if number := m.some(); number != 0 {
			m.end(number, nodev1.JobState_JOB_STATE_COMPLETED, "")
		}
		return len(m.ended) == 4
	})
	next.eventually("the operation is archived", func() bool {
		m.beat(next)
		_, live := next.Operation(OperationKey{ID: id})
		return !live
	})
	row, err := next.Store().OperationByID(t.Context(), id.String())
	if err != nil {
		t.Fatal(err)
	}
	list, err := next.Store().Jobs(t.Context(), store.JobFilter{Operation: row.Number})
	if err != nil || len(list.Jobs) != 4 || list.States["completed"] != 4 {
		t.Errorf("%v: of 4 jobs that ran there are stored: %v", err, list.States)
	}
	next.stop()
}
