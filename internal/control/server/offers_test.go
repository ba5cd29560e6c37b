package server

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

func (s *scheduler) startExternal(spec string) (guid.ID, error) {
	s.t.Helper()
	read, err := operation.Read(expected.Document(s.t, spec), operation.ReadOptions{External: true})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.StartExternal(s.t.Context(), tester, Start{User: "namespace:shop", Spec: read})
}

func podsOf(id guid.ID, task string, class operation.Class, cookies ...int32) Offer {
	return Offer{Operation: id, Offered: operation.Offered{
		Task: task, Class: class, Cookies: cookies,
		Resources: resource.Amounts{resource.UserSlots: 1, resource.CPU: 100, resource.Memory: 1 << 20},
	}}
}

func (s *scheduler) offer(offers ...Offer) {
	s.t.Helper()
	refused, err := s.Offer(s.t.Context(), offers)
	if err = errors.Join(append(refused, err)...); err != nil {
		s.t.Fatal(err)
	}
}

// cookies returns the cookies of the jobs of a machine, sorted.
func (m *machine) cookies() (list []int32) {
	for _, start := range m.jobs {
		list = append(list, start.Identity.GetCookie())
	}
	slices.Sort(list)
	return list
}

func TestADriverOffersJobsAndASuccessorKnowsThoseThatRun(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	s.pools("{pools: {p: {max_running_operation_count: 1, max_operation_count: 1}}}")
	m := newMachine(t, "node-1", 2)
	m.beat(s)
	id, err := s.startExternal("{pool: p, alias: '*shop/Deployment/web', external: {}}")
	if err != nil {
		t.Fatal(err)
	}
	var count *scheduling.CountError
	if _, err := s.startExternal("{pool: p, external: {}}"); !errors.As(err, &count) {
		t.Errorf("a second operation is refused with %v", err)
	}
	vanilla := s.start("{pool: q, tasks: {t: {job_count: 1, command: 'true', memory_limit: 100GiB}}}")
	s.offer(podsOf(id, "web", 0, 7), podsOf(id, "db", 0, 1, 2))
	refused, err := s.Offer(t.Context(), []Offer{podsOf(id, "web", 0, 7), podsOf(vanilla, "web", 0, 7), podsOf(guid.ID{}, "web", 0, 1)})
	if err != nil || len(refused) != 3 || refused[0] != nil || !errors.Is(refused[1], operation.ErrNotExternal) || !errors.Is(refused[2], ErrNoSuchOperation) {
		t.Errorf("offers are refused with %v, %v", refused, err)
	}
	s.eventually("two pods start", func() bool { m.beat(s); return len(m.jobs) == 2 })
	if got := m.cookies(); !slices.Equal(got, []int32{1, 7}) {
		t.Fatalf("cookies %v start", got)
	}
	for _, start := range m.jobs {
		if start.Identity.GetOperationId() != id.String() || start.Identity.GetTaskName() != map[int32]string{1: "db", 7: "web"}[start.Identity.GetCookie()] {
			t.Errorf("the order is %v", start.Identity)
		}
	}
	record, _ := s.Operation(OperationKey{Alias: "*shop/Deployment/web"})
	if record == nil || record.Type != "external" || record.User != "namespace:shop" {
		t.Fatalf("the record is %+v", record)
	}
	if err := s.EndExternal(t.Context(), tester, vanilla); !errors.Is(err, ErrNotExternal) {
		t.Errorf("an ordinary operation ends with %v", err)
	}
	s.stop()

	next := lead(t, directory)
	next.eventually("both jobs are adopted", func() bool { m.beat(next); return len(next.Jobs(-1)) == 2 })
	list, err := next.ExternalOperations(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != id || len(list[0].Spec.Tasks) != 2 {
		t.Fatalf("external operations are %v (%v)", list, err)
	}
	next.offer(podsOf(id, "web", 0, 7), podsOf(id, "db", 0, 1, 2)) // 7 and 1 run
	if err := next.Withdraw(t.Context(), []Withdrawal{{Operation: id, Task: "db", Cookies: []int32{2}}, {Operation: guid.ID{}}}); err != nil {
		t.Fatal(err)
	}
	m.end(m.some(), nodev1.JobState_JOB_STATE_COMPLETED, "")
	next.offer(podsOf(id, "db", 0, 3))
	next.eventually("the last pod starts", func() bool { m.beat(next); return slices.Contains(m.cookies(), 3) })
	if slices.Contains(m.cookies(), 2) {
		t.Error("a pod that was withdrawn starts")
	}
	if err := next.EndExternal(t.Context(), tester, id); err != nil {
		t.Fatal(err)
	}
	next.eventually("its jobs have ended", func() bool { m.beat(next); return len(m.jobs) == 0 })
	row, err := next.Store().OperationByID(t.Context(), id.String())
	if err != nil || row.State != "completed" || row.Type != "external" {
		t.Errorf("the row is %+v (%v)", row, err)
	}
	next.stop()
}

func TestANodeDeniesConstraintClasses(t *testing.T) {
	s := lead(t, t.TempDir())
	s.pools("{pools: {p: {}}}")
	m, open := newMachine(t, "node-1", 2), newMachine(t, "node-2", 1)
	denied := make([]byte, 3)
	denied[2] = 1 << 4 // class 20
	m.session.NodeChanged(&nodev1.NodeStatus{DeniedClasses: denied})
	m.beat(s)
	id, err := s.startExternal("{pool: p, external: {}}")
	if err != nil {
		t.Fatal(err)
	}
	s.offer(podsOf(id, "any", 19, 1), podsOf(id, "choosy", 20, 2))
	s.eventually("the pod without that class starts", func() bool { m.beat(s); return len(m.jobs) == 1 })
	m.beat(s)
	if got := m.cookies(); !slices.Equal(got, []int32{1}) {
		t.Fatalf("cookies %v start on a node that denies class 20", got)
	}
	s.eventually("the other one starts elsewhere", func() bool { open.beat(s); return len(open.jobs) == 1 })
	s.offer(podsOf(id, "choosy", 20, 3))
	m.session.NodeChanged(&nodev1.NodeStatus{})
	s.eventually("the node permits the class", func() bool { m.beat(s); return slices.Contains(m.cookies(), 3) })
	s.stop()
}

func TestAJobThatItsNodePinsIsNotPreempted(t *testing.T) {
	s := lead(t, t.TempDir())
	s.pools("{fair_share_preemption_timeout: 10ms, preemptive_scheduling_backoff: 0s, pools: {a: {}, b: {weight: 10}}}")
	m := newMachine(t, "node-1", 2)
	m.beat(s)
	s.start(fmt.Sprintf(small, "a", 2))
	s.eventually("both jobs run", func() bool { m.beat(s); return len(m.jobs) == 2 })
	pinned := m.some()
	pin := func(until int64) {
		for number := range m.jobs {
			status, _ := m.session.Job(number)
			m.session.JobChanged(&nodev1.JobStatus{Number: number, Identity: status.GetIdentity(), Phase: nodev1.Phase_PHASE_RUNNING, PinnedUntilUs: until})
		}
		m.beat(s)
	}
	until := time.Now().Add(time.Hour)
	pin(until.UnixMicro())
	job, there := s.Job(guid.OfJob(pinned))
	if !there || !job.PinnedUntil.Equal(nodeproto.FromMicros(until.UnixMicro())) {
		t.Fatalf("the job is %+v", job)
	}
	late := s.start(fmt.Sprintf(small, "b", 1))
	starves := func() bool {
		record, _ := s.Operation(OperationKey{ID: late})
		picture := s.View().Picture
		seen, ok := picture.Operation(record.Number)
		if !ok {
			return false
		}
		for seat := range picture.Seats(seen) {
			return seat.Starvation != scheduling.NonStarving
		}
		return false
	}
	s.eventually("the late operation starves", func() bool { m.beat(s); return starves() })
	for range 3 {
		m.beat(s)
	}
	if len(m.ended) != 0 {
		t.Fatal("a pinned job was preempted")
	}
	pin(0)
	s.eventually("one is preempted when they are no longer pinned", func() bool { m.beat(s); return len(m.ended) == 1 })
	s.stop()
}

// TestAGangStartsOnSeveralNodesWithOneHeartbeat shows that the heartbeat of one node
// orders jobs of another one.
func TestAGangStartsOnSeveralNodesWithOneHeartbeat(t *testing.T) {
	s := lead(t, t.TempDir())
	s.pools("{pools: {p: {}}}")
	machines := []*machine{newMachine(t, "node-1", 1), newMachine(t, "node-2", 1), newMachine(t, "node-3", 1)}
	machines[0].beat(s)
	machines[1].beat(s)
	s.start("{pool: p, is_gang: true, tasks: {t: {job_count: 3, command: 'true', cpu_limit: 1, memory_limit: 512MiB}}}")
	for range 5 {
		for _, m := range machines[:2] {
			m.beat(s)
			if len(m.jobs) > 0 {
				t.Fatal("part of a gang starts")
			}
		}
	}
	s.eventually("all three run", func() bool {
		for _, m := range machines {
			m.beat(s)
		}
		return len(machines[0].jobs)+len(machines[1].jobs)+len(machines[2].jobs) == 3
	})
	for i, m := range machines {
		if len(m.jobs) != 1 {
			t.Errorf("node %d has %d jobs", i+1, len(m.jobs))
		}
	}
	s.stop()
}

func TestClassesAreReadFromBits(t *testing.T) {
	bits := make([]byte, 1000)
	bits[0], bits[9], bits[511], bits[512] = 2, 1, 128, 255
	classes := classesOf(bits)
	for _, class := range []int32{1, 72, int32(operation.MaxClass)} {
		if !classes.Has(class) {
			t.Errorf("class %d is missing", class)
		}
	}
	if classes.Has(0) || classes.Has(2) || classes.Has(int32(operation.MaxClass)+1) {
		t.Error("there are other classes")
	}
	if len(classesOf(nil)) != 0 {
		t.Error("nothing has classes")
	}
}

// Jobs of a task with a section wait for the driver, under the first leader and under the next one.
func TestTasksWithASectionWaitForTheirClass(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	s.pools("{pools: {p: {}}}")
	m := newMachine(t, "node-1", 2)
	m.deny(operation.ClassPending)
	m.beat(s)
	before := s.SectionsVersion()
	plain := s.start("{pool: p, tasks: {t: {job_count: 1, command: 'true', memory_limit: 1MiB}}}")
	if s.SectionsVersion() != before {
		t.Error("an operation without a section changes the list")
	}
	id := s.start("{pool: p, tasks: {t: {job_count: 1, command: 'true', memory_limit: 1MiB, kubernetes: {node_selector: {zone: a}}}, u: {job_count: 1, command: 'true', memory_limit: 1MiB}}}")
	if s.SectionsVersion() == before {
		t.Error("a section does not change the version of the list")
	}
	s.eventually("the tasks without a section start", func() bool { m.beat(s); return len(m.jobs) == 2 })
	list, err := s.ListSections(t.Context())
	if err != nil || len(list) != 1 || list[0].Operation != id || list[0].Task != "t" || string(list[0].Extra) != `{"kubernetes":{"node_selector":{"zone":"a"}}}` {
		t.Fatalf("the sections are %+v (%v)", list, err)
	}
	s.stop()

	next := lead(t, directory)
	open := newMachine(t, "node-2", 2)
	open.deny(operation.ClassPending)
	next.eventually("the jobs are adopted", func() bool { m.beat(next); open.beat(next); return len(next.Jobs(-1)) == 2 })
	if len(open.jobs) != 0 {
		t.Error("a job starts before the new leader's driver has classified it")
	}
	if err := next.Classify(t.Context(), []Classification{{Operation: plain, Task: "nothing"}}); err == nil {
		t.Error("a task that does not exist is classified")
	}
	if err := next.Classify(t.Context(), []Classification{{Operation: id, Task: "t", Class: 2}, {Operation: guid.ID{}}}); err != nil {
		t.Fatal(err)
	}
	next.eventually("the job starts", func() bool { open.beat(next); return len(open.jobs) == 1 })
	next.stop()
}

// deny makes the machine deny a class.
func (m *machine) deny(class operation.Class) {
	m.session.NodeChanged(&nodev1.NodeStatus{DeniedClasses: []byte{1 << class}})
}
