package server

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// scheduler is a leading server with its own store.
type scheduler struct {
	*Server
	t    *testing.T
	stop func()
}

func quickSettings() Settings {
	s := DefaultSettings()
	s.UpdatePeriod, s.ProgressPeriod = 10*time.Millisecond, 10*time.Millisecond
	s.StandbyPoll, s.LeaseTTL = 20*time.Millisecond, time.Minute
	s.SelfCheckPeriod = time.Millisecond
	// However busy the machine is, only the tests about timeouts run into them.
	s.StallPatience, s.ConfirmationTimeout = time.Hour, time.Hour
	s.ForecastCPU = 0 // only tests about forecasts make some
	return s
}

// lead starts a server on the database of a directory and waits until it leads.
func lead(t *testing.T, directory string) *scheduler {
	t.Helper()
	return leadWith(t, directory, Options{Settings: quickSettings()})
}

func leadWith(t *testing.T, directory string, o Options) *scheduler {
	t.Helper()
	db, err := store.Open(t.Context(), "sqlite:"+filepath.Join(directory, "weir.db"))
	if err != nil {
		t.Fatal(err)
	}
	o.Store, o.Name, o.Address, o.Log = db, fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano()), "test:1", slog.New(slog.DiscardHandler)
	s := New(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop := func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		done <- nil
	}
	t.Cleanup(func() { cancel() })
	<-s.Led()
	return &scheduler{s, t, stop}
}

var tester = Caller{User: "root", Command: "test"}

func (s *scheduler) pools(text string) {
	s.t.Helper()
	if err := setPools(s.t.Context(), s.Server, text); err != nil {
		s.t.Fatal(err)
	}
}

// setPools sets the configuration of the default tree.
func setPools(ctx context.Context, s *Server, text string) error {
	v, err := notation.ParseYAML("pools", []byte(text))
	if err != nil {
		return err
	}
	return s.EditTrees(ctx, tester, func(trees *Trees) (*Trees, error) {
		tree, _, err := pooltree.FromValue(v, pooltree.Options{File: "pools", KeepUnknown: true})
		if err != nil {
			return nil, err
		}
		next := trees.Put("default", tree)
		next.Default = "default"
		return next, nil
	})
}

func (s *scheduler) start(spec string) guid.ID {
	s.t.Helper()
	read, err := operation.Read(expected.Document(s.t, spec), operation.ReadOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	id, err := s.StartOperation(s.t.Context(), tester, Start{Type: "vanilla", User: "anna", Spec: read})
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// eventually waits until the condition holds. Updates of the server make it hold.
func (s *scheduler) eventually(what string, holds func() bool) {
	s.t.Helper()
	if !expected.Soon(holds) {
		s.t.Fatalf("it never happened: %s", what)
	}
}

// machine is a node that a test controls.
type machine struct {
	t       *testing.T
	name    string
	session *nodeproto.NodeSession
	jobs    map[uint64]nodeproto.Start
	ended   map[uint64]bool
}

func newMachine(t *testing.T, name string, cores int64) *machine {
	amounts := resource.Amounts{resource.UserSlots: cores, resource.CPU: cores * 100, resource.Memory: cores << 30}
	return &machine{
		t: t, name: name, jobs: map[uint64]nodeproto.Start{}, ended: map[uint64]bool{},
		session: nodeproto.NewNodeSession(&nodev1.NodeDescription{Name: name, Resources: nodeproto.ToAmounts(amounts)}, 1, nil),
	}
}

// beat registers if necessary and exchanges one heartbeat.
func (m *machine) beat(s *scheduler) {
	m.t.Helper()
	service, peer := s.NodeService(), nodeproto.Peer{Node: nodeproto.AnyNode}
	if _, registered := m.session.Registered(); !registered {
		response, err := service.Register(m.t.Context(), peer, m.session.Register())
		if err != nil {
			m.t.Fatal(err)
		}
		if err := m.session.Welcome(response); err != nil {
			m.t.Fatal(err)
		}
	}
	request, err := m.session.Heartbeat()
	if err != nil {
		m.t.Fatal(err)
	}
	response, err := service.Heartbeat(m.t.Context(), peer, request)
	if err != nil {
		m.session.Failed(request.GetSequence(), err)
		return
	}
	orders, err := m.session.Receive(time.Now(), response)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, start := range orders.Start {
		number := start.Identity.GetNumber()
		if _, twice := m.jobs[number]; twice || m.ended[number] {
			m.t.Errorf("job %d is started twice", number)
		}
		m.jobs[number] = start
	}
	for _, abort := range orders.Abort {
		m.end(abort.GetNumber(), nodev1.JobState_JOB_STATE_ABORTED, abort.GetAbortReason())
	}
}

func (m *machine) end(number uint64, state nodev1.JobState, reason string) {
	if _, there := m.jobs[number]; !there {
		return
	}
	delete(m.jobs, number)
	m.ended[number] = true
	m.session.JobFinished(&nodev1.JobResult{Number: number, State: state, AbortReason: reason, Started: true,
		Error: &nodev1.Error{Code: 1205, Message: "the job says so"}, Stderr: &nodev1.Output{Head: []byte("words of the job"), Size: 16}})
}

func (m *machine) some() uint64 {
	best := uint64(0)
	for number := range m.jobs {
		if best == 0 || number < best {
			best = number
		}
	}
	return best
}

const small = "{pool: %s, tasks: {t: {job_count: %d, command: 'true', cpu_limit: 1, memory_limit: 512MiB}}}"

func TestAnOperationRunsToItsEndAndIsArchived(t *testing.T) {
	s := lead(t, t.TempDir())
	s.pools("{pools: {p: {weight: 2, my_own: 1}}}")
	m := newMachine(t, "node-1", 4)
	m.beat(s)
	id := s.start(fmt.Sprintf(small, "p", 6))
	s.eventually("four jobs run", func() bool { m.beat(s); return len(m.jobs) == 4 })
	if o, there := s.Operation(OperationKey{ID: id}); !there || o.State != operation.Running {
		t.Errorf("%+v", o)
	}
	m.end(m.some(), nodev1.JobState_JOB_STATE_FAILED, "")
	for len(m.ended) < 7 {
		m.beat(s)
		if number := m.some(); number != 0 {
			m.end(number, nodev1.JobState_JOB_STATE_COMPLETED, "")
		}
	}
	s.eventually("the operation is archived", func() bool {
		m.beat(s)
		_, there := s.Operation(OperationKey{ID: id})
		return !there
	})
	row, err := s.Store().OperationByID(t.Context(), id.String())
	if err != nil || row.State != "completed" || !row.HasFailedJobs || row.FinishTime.IsZero() {
		t.Fatalf("%+v, %v", row, err)
	}
	jobs, err := s.Store().Jobs(t.Context(), store.JobFilter{Operation: row.Number})
	if err != nil || len(jobs.Jobs) != 7 || jobs.States["completed"] != 6 || jobs.States["failed"] != 1 {
		t.Errorf("%+v, %v", jobs, err)
	}
	text, err := s.Store().JobOutput(t.Context(), jobs.Jobs[0].Number, "stderr")
	if err != nil || string(text.Data) != "words of the job" {
		t.Errorf("%q, %v", text.Data, err)
	}
	s.eventually("the node counts", func() bool {
		view, there := s.View().Tree("default")
		return there && view.Total[resource.CPU] == 400
	})
	s.stop()
}

func TestASuccessorAdoptsJobsAndKeepsWhatWasAcknowledged(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	s.pools("{pools: {p: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1}}}, q: {}}}")
	m := newMachine(t, "node-1", 4)
	m.beat(s)
	first, second := s.start(fmt.Sprintf(small, "p", 6)), s.start(fmt.Sprintf(small, "q", 3))
	s.eventually("four jobs run", func() bool { m.beat(s); return len(m.jobs) == 4 })
	m.end(m.some(), nodev1.JobState_JOB_STATE_COMPLETED, "")
	m.beat(s)
	s.eventually("a job is started in its place", func() bool { m.beat(s); return len(m.jobs) == 4 })
	before := map[uint64]nodeproto.Start{}
	for number, start := range m.jobs {
		before[number] = start
	}
	s.stop()

	m.end(m.some(), nodev1.JobState_JOB_STATE_COMPLETED, "") // while there is no leader
	next := lead(t, directory)
	for _, id := range []guid.ID{first, second} {
		next.eventually("the operation is there", func() bool { _, there := next.Operation(OperationKey{ID: id}); return there })
	}
	next.eventually("jobs are adopted and others started", func() bool {
		m.beat(next)
		return len(m.jobs) == 4 && len(next.Jobs(-1)) == 4
	})
	for number := range m.jobs {
		if _, there := next.Job(guid.OfJob(number)); !there {
			t.Errorf("job %d is not known", number)
		}
	}
	for len(m.ended) < 9 {
		if number := m.some(); number != 0 {
			m.end(number, nodev1.JobState_JOB_STATE_COMPLETED, "")
		}
		m.beat(next)
	}
	next.eventually("both have ended", func() bool { m.beat(next); return len(next.Operations()) == 0 })
	for _, id := range []guid.ID{first, second} {
		row, err := next.Store().OperationByID(t.Context(), id.String())
		if err != nil || row.State != "completed" {
			t.Errorf("%+v, %v", row, err)
		}
		jobs, err := next.Store().Jobs(t.Context(), store.JobFilter{Operation: row.Number})
		if want := map[guid.ID]int64{first: 6, second: 3}[id]; err != nil || jobs.States["completed"] != want || jobs.Total != want {
			t.Errorf("%s: %v, %v", id, jobs.States, err)
		}
	}
	if len(before) != 4 {
		t.Errorf("%d", len(before))
	}
	tree, _ := next.Trees().Find("default")
	if pool, there := tree.Tree.Pool("p"); !there || tree.Pool("p").ID.IsZero() || pool.Config().Integral.Type.Value() != pooltree.Relaxed {
		t.Errorf("%+v", tree)
	}
	for _, alert := range next.Alerts() {
		t.Errorf("%s: %s", alert.Kind, alert.Message)
	}
	next.stop()
}

func TestPoolsAreChangedAsAWholeOrNotAtAll(t *testing.T) {
	s := lead(t, t.TempDir())
	s.pools("{pools: {a: {weight: 2, anything: {x: 1}}, b: {pools: {c: {}}}}}")
	before := s.Trees()
	err := s.EditTrees(t.Context(), tester, func(trees *Trees) (*Trees, error) {
		tree, _, err := before.List[0].Tree.With(pooltree.SetPoolOption{Pool: "a", Option: "weight", Value: document.Text("much")})
		if err != nil {
			return nil, err
		}
		return trees.Put("default", tree), nil
	})
	if err == nil || s.Trees() != before {
		t.Errorf("%v", err)
	}
	if err := s.EditTrees(t.Context(), tester, func(trees *Trees) (*Trees, error) { return trees.Remove("default"), nil }); err != nil {
		t.Fatal(err)
	}
	if len(s.Trees().List) != 0 {
		t.Errorf("%+v", s.Trees())
	}
	s.pools("{pools: {d: {}}}")
	s.eventually("the tree is there again", func() bool {
		view, there := s.View().Tree("default")
		if !there {
			return false
		}
		_, there = view.Pool("d")
		_, gone := view.Pool("a")
		return there && !gone
	})
	s.stop()
}

func TestChartsHaveThePointsOfTheLastSecondsAndThoseOfAnEarlierLeader(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	s.pools("{pools: {p: {min_share_resources: {cpu: 1}}}}")
	m := newMachine(t, "node-1", 4)
	m.beat(s)
	s.start(fmt.Sprintf(small, "p", 3))
	began := time.Now().Add(-time.Minute)
	usage := func(s *scheduler) (points int, last float64) {
		m.beat(s)
		lines, _, err := s.History(t.Context(), HistoryQuery{
			Tree: "default", Pool: "p", From: began, To: time.Now().Add(time.Minute), Names: []string{"usage"}, Resource: "cpu",
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			points += len(line.Points)
			last = line.Points[len(line.Points)-1].Average
		}
		return points, last
	}
	s.eventually("three cores are in use", func() bool { _, last := usage(s); return last == 3 })
	points, _ := usage(s)
	s.stop()
	next := lead(t, directory)
	next.eventually("a point is added", func() bool { after, last := usage(next); return after > points && last == 3 })
	next.stop()
}
