package operation

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// model is the simple twin of a controller: it consists of maps and computes
// everything on demand.
type model struct {
	spec        *Spec
	where       map[cookieName]string // pending, running or done
	ran         map[cookieName]bool
	memory      memoryModel
	state       State
	suspended   bool
	failing     bool
	failed      int
	limit       int
	incarnation uint32
	banned      map[string]bool
	counters    []Counters
}

type cookieName struct{ task, cookie int32 }

func newModel(spec *Spec) *model {
	m := &model{
		spec: spec, where: map[cookieName]string{}, ran: map[cookieName]bool{},
		state: Running, limit: spec.MaxFailedJobCount.Value(), banned: map[string]bool{},
		counters: make([]Counters, len(spec.Tasks)),
	}
	m.memory = newMemoryModel(spec)
	for i, task := range spec.Tasks {
		for cookie := range task.Value.JobCount {
			m.where[cookieName{int32(i), int32(cookie)}] = "pending"
		}
	}
	return m
}

func (m *model) count(task int, where string) (n int) {
	for name, at := range m.where {
		if at == where && (task < 0 || name.task == int32(task)) {
			n++
		}
	}
	return n
}

func (m *model) resources(name cookieName) resource.Amounts {
	return m.spec.Tasks[name.task].Value.JobResources(m.memory.total(name.task, m.memory.next(name)))
}

func (m *model) needed() (sum resource.Amounts) {
	if m.state != Running || m.suspended || m.failing {
		return sum
	}
	for name, at := range m.where {
		if at == "pending" {
			sum = sum.Add(m.resources(name))
		}
	}
	return sum
}

func (m *model) minNeeded() resource.Amounts {
	least, found := resource.UnlimitedAmounts(), false
	for i := range m.spec.Tasks {
		if m.count(i, "pending") > 0 {
			least, found = least.Min(m.offer(i)), true
		}
	}
	if !found {
		return resource.Amounts{}
	}
	return least
}

// offer returns the resources of the task's next job: those of an ordinary job, if
// one is pending.
func (m *model) offer(task int) resource.Amounts {
	for _, way := range []string{"came back", "new", "raised"} {
		if name, ok := m.first(task, way); ok {
			return m.resources(name)
		}
	}
	return m.spec.Tasks[task].Value.JobResources(m.memory.total(int32(task), m.memory.next(cookieName{int32(task), -1})))
}

// first returns the next job of a task by cookie: among those that exceeded their
// memory, other retries, or those that never ran.
func (m *model) first(task int, way string) (cookieName, bool) {
	for cookie := range int32(m.spec.Tasks[task].Value.JobCount) {
		name := cookieName{int32(task), cookie}
		is := "new"
		if _, raised := m.memory.retries[name]; raised {
			is = "raised"
		} else if m.ran[name] {
			is = "came back"
		}
		if m.where[name] == "pending" && is == way {
			return name, true
		}
	}
	return cookieName{}, false
}

func (m *model) schedule(task int, room resource.Amounts) (cookieName, bool) {
	if m.state != Running || m.suspended || m.failing {
		return cookieName{}, false
	}
	// Only the first retry is considered.
	for _, way := range []string{"raised", "came back", "new"} {
		if name, ok := m.first(task, way); ok && room.Dominates(m.resources(name)) {
			m.where[name], m.ran[name] = "running", true
			m.memory.given[name] = m.memory.next(name)
			return name, true
		}
	}
	return cookieName{}, false
}

// takeBack makes running jobs pending. If a gang continues, it restarts as a whole.
func (m *model) takeBack(reason AbortReason) AbortReason {
	if m.count(-1, "running") == 0 {
		reason = NotAborted
	}
	again := m.spec.IsGang.Value() && m.state == Running
	for name, at := range m.where {
		switch {
		case at == "running":
			m.counters[name.task].Aborted[reason]++
			m.where[name] = "pending"
		case again && at == "done":
			m.counters[name.task].Lost++
			m.where[name] = "pending"
		}
		if again {
			m.ran[name] = false
			for retry := range m.memory.retries {
				m.ran[name] = m.ran[name] || retry.task == name.task && retry.cookie >= name.cookie
			}
		}
	}
	if again {
		m.incarnation++
	}
	return reason
}

func (m *model) enter(s State, reason AbortReason) Effects {
	m.state = s
	return Effects{Entered: s, AbortRunning: m.takeBack(reason)}
}

func (m *model) fail() Effects { return m.enter(Failing, AbortOperationFailed) }

func (m *model) failGracefully() Effects {
	if m.count(-1, "running") == 0 {
		return m.fail()
	}
	m.failing = true
	return Effects{FailRunning: true}
}

func (m *model) settle() Effects {
	switch {
	case m.count(-1, "running") > 0:
	case m.failing:
		return m.fail()
	case m.count(-1, "pending") == 0:
		return m.enter(Completing, AbortOperationCompleted)
	}
	return Effects{}
}

func (m *model) noRestart(name cookieName) bool {
	return m.spec.FailOnJobRestart.Value() || m.spec.Tasks[name.task].Value.FailOnJobRestart.Value()
}

func (m *model) completed(name cookieName) Effects {
	m.counters[name.task].Completed++
	if m.spec.Tasks[name.task].Value.RestartCompletedJobs.Value() {
		m.counters[name.task].Lost++
		m.where[name] = "pending"
	} else {
		m.where[name] = "done"
		delete(m.memory.retries, name)
	}
	return m.settle()
}

func (m *model) restart(name cookieName, started bool) Effects {
	m.where[name] = "pending"
	switch {
	case m.failing:
		return m.settle()
	case started && m.noRestart(name):
		return m.failGracefully()
	case m.spec.IsGang.Value():
		return Effects{Restarted: true, AbortRunning: m.takeBack(AbortIncarnationChanged)}
	}
	return Effects{}
}

func (m *model) aborted(name cookieName, reason AbortReason, started bool) Effects {
	m.counters[name.task].Aborted[reason]++
	if reason.BeforeStart() {
		m.where[name] = "pending"
		return m.settle()
	}
	return m.restart(name, started)
}

func (m *model) failedJob(name cookieName, node string, fatal bool) Effects {
	if m.banned[node] && m.spec.IgnoreFailuresAtBanned.Value() {
		return m.aborted(name, AbortNodeBanned, true)
	}
	m.counters[name.task].Failed++
	m.failed++
	m.where[name] = "pending"
	switch {
	case m.failing:
		return m.settle()
	case m.noRestart(name):
		return m.failGracefully()
	case fatal, m.failed >= m.limit:
		return m.fail()
	}
	var e Effects
	if m.spec.BanNodesWithFailedJobs.Value() && !m.banned[node] {
		m.banned[node] = true
		e.BannedNode = node
	}
	switch {
	case m.spec.SuspendOnJobFailure.Value():
		m.suspended, e.Suspended, e.Restarted = true, true, m.spec.IsGang.Value()
		e.AbortRunning = m.takeBack(AbortOperationSuspended)
	case m.spec.IsGang.Value():
		e.Restarted = true
		e.AbortRunning = m.takeBack(AbortIncarnationChanged)
	}
	return e
}

func drawSpec(t *rapid.T) *Spec {
	flag := func(name string) document.Entry {
		return document.Pair(name, document.Bool(rapid.IntRange(0, 4).Draw(t, name) == 0))
	}
	gang := flag("is_gang")
	isGang, _ := gang.Value.Bool()
	var tasks []document.Entry
	for i := range rapid.IntRange(1, 3).Draw(t, "tasks") {
		task := []document.Entry{
			document.Pair("job_count", document.Int(int64(rapid.SampledFrom([]int{1, 2, 3, 63, 64, 65, 130}).Draw(t, "job_count")))),
			document.Pair("cpu_limit", document.Int(int64(rapid.IntRange(0, 3).Draw(t, "cpu")))),
			document.Pair("memory_limit", document.Int(int64(rapid.IntRange(1, 100).Draw(t, "memory")))),
			flag("fail_on_job_restart"),
		}
		if !isGang {
			task = append(task, flag("restart_completed_jobs"))
		}
		if rapid.IntRange(0, 3).Draw(t, "tmpfs") == 0 {
			task = append(task, document.Pair("tmpfs_path", document.Text("t")), document.Pair("tmpfs_size", document.Int(1)))
		}
		tasks = append(tasks, document.Pair(fmt.Sprint("t", i), document.Map(task...)))
	}
	v := document.Map(
		document.Pair("tasks", document.Map(tasks...)), gang,
		document.Pair("max_failed_job_count", document.Int(int64(rapid.SampledFrom([]int{0, 1, 3, 10}).Draw(t, "max_failed")))),
		document.Pair("time_limit", document.Text("1h")),
		flag("suspend_on_job_failure"), flag("ban_nodes_with_failed_jobs"), flag("ignore_job_failures_at_banned_nodes"),
	)
	s, err := Read(v, ReadOptions{CommandOptional: true})
	if err != nil {
		t.Fatal(err)
	}
	return s.Spec
}

// history is a controller and its model.
type history struct {
	*rapid.T
	c       *Controller
	m       *model
	now     time.Time
	running []JobRef
}

// compare checks the invariants and that controller and model agree.
func (h *history) compare(got, want Effects) {
	h.Helper()
	if got != want {
		h.Fatalf("effects %+v, want %+v", got, want)
	}
	if err := h.c.Verify(); err != nil {
		h.Fatal(err)
	}
	if h.c.State() != h.m.state || h.c.Life().Suspended != h.m.suspended || h.c.Incarnation() != h.m.incarnation {
		h.Fatalf("state %v, want %v", h.c.State(), h.m.state)
	}
	if h.c.Needed() != h.m.needed() {
		h.Fatalf("needed %v, want %v", h.c.Needed(), h.m.needed())
	}
	if h.c.MinNeeded() != h.m.minNeeded() {
		h.Fatalf("least needed %v, want %v", h.c.MinNeeded(), h.m.minNeeded())
	}
	for i := range h.m.spec.Tasks {
		s := h.c.TaskStatistics(i)
		want := Statistics{
			Total: h.m.spec.Tasks[i].Value.JobCount, Pending: h.m.count(i, "pending"),
			Running: h.m.count(i, "running"), Done: h.m.count(i, "done"), Counters: h.m.counters[i],
		}
		if s != want || s.Pending+s.Running+s.Done != s.Total || h.c.Groups()[i].Pending != s.Pending {
			h.Fatalf("task %d: %+v, want %+v", i, s, want)
		}
	}
	if got.AbortRunning != NotAborted || got.Restarted {
		h.running = nil
	}
	h.compareMemory()
	if len(h.running) != h.c.RunningJobCount() {
		h.Fatalf("%d jobs run, want %d", h.c.RunningJobCount(), len(h.running))
	}
}

func (h *history) must(e Effects, err error) Effects {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
	return e
}

// step applies one random action to both.
func (h *history) step() {
	what := rapid.SampledFrom([]string{
		"schedule", "schedule", "schedule", "schedule", "complete", "complete", "abort", "fail", "interrupt",
		"suspend", "resume", "limit", "late report", "snapshot", "clone", "time", "disown",
	}).Draw(h.T, "what")
	var job JobRef
	var name cookieName
	switch what {
	case "complete", "abort", "fail", "interrupt":
		if len(h.running) == 0 {
			return
		}
		i := rapid.IntRange(0, len(h.running)-1).Draw(h.T, "job")
		job = h.running[i]
		name = cookieName{job.Task, job.Cookie}
		h.running = append(h.running[:i:i], h.running[i+1:]...)
	}
	task := rapid.IntRange(0, len(h.m.spec.Tasks)-1).Draw(h.T, "task")
	switch what {
	case "schedule":
		h.schedule(task)
	case "disown":
		h.c = h.restored()
		h.c.Disown()
		for _, job := range h.running {
			if err := h.c.Adopt(job); err != nil {
				h.Fatal(err)
			}
		}
		h.compare(Effects{}, Effects{})
	case "complete":
		h.compare(h.must(h.ended(job, Outcome{})), h.m.completed(name))
	case "abort":
		reason := AbortReason(rapid.IntRange(1, int(AbortReasonCount)-1).Draw(h.T, "reason"))
		started := rapid.Bool().Draw(h.T, "started")
		if rapid.Bool().Draw(h.T, "overdraft") {
			reason = AbortResourceOverdraft
		}
		h.compare(h.must(h.ended(job, Outcome{State: EndAborted, Reason: reason, Started: started})), h.m.aborted(name, reason, started))
	case "fail":
		node := rapid.SampledFrom([]string{"n1", "n2"}).Draw(h.T, "node")
		fatal := rapid.IntRange(0, 9).Draw(h.T, "fatal") == 0
		h.compare(h.must(h.ended(job, Outcome{State: EndFailed, Failure: Failure{Node: node, Fatal: fatal}})), h.m.failedJob(name, node, fatal))
	case "interrupt":
		h.m.counters[name.task].Interrupted++
		h.compare(h.must(h.ended(job, Outcome{State: EndInterrupted})), h.m.restart(name, true))
	case "suspend":
		h.suspend(rapid.Bool().Draw(h.T, "abort running"))
	case "resume":
		if err := h.c.Resume(); (err == nil) != (h.m.suspended && h.m.state == Running) {
			h.Fatalf("resume: %v", err)
		}
		if h.m.state == Running {
			h.m.suspended = false
		}
		h.compare(Effects{}, Effects{})
	case "limit":
		h.limit(rapid.IntRange(0, 5).Draw(h.T, "max_failed_job_count"))
	case "late report":
		h.lateReport(JobRef{Task: int32(task), Cookie: rapid.Int32Range(-1, 140).Draw(h.T, "cookie"), Incarnation: h.m.incarnation})
	case "snapshot":
		h.c = h.restored()
		h.compare(Effects{}, Effects{})
	case "clone":
		old := h.c
		h.c = old.Clone()
		for _, job := range h.running { // must not appear in the copy
			old.JobEnded(job, Outcome{State: EndAborted, Reason: AbortResourceOverdraft, Usage: drawUsage(h.T, h.m.spec, int(job.Task))}, h.now)
			break
		}
		old.Schedule(task, everything)
		h.compare(Effects{}, Effects{})
	case "time":
		h.pass(rapid.SampledFrom([]time.Duration{time.Second, 20 * time.Minute, 3 * time.Minute}).Draw(h.T, "time"))
	}
}

func (h *history) schedule(task int) {
	room := resource.UnlimitedAmounts()
	room[resource.Memory] = rapid.SampledFrom([]int64{0, 50, 250, resource.Unlimited}).Draw(h.T, "room")
	job, block := h.c.Schedule(task, room)
	name, ok := h.m.schedule(task, room)
	if (block == NotBlocked) != ok {
		h.Fatalf("schedule: %v, want %v", block, ok)
	}
	if ok {
		if (cookieName{job.Task, job.Cookie}) != name || job.Resources != h.m.resources(name) {
			h.Fatalf("scheduled %+v, want %+v", job, name)
		}
		h.running = append(h.running, job.JobRef)
	}
	h.compare(Effects{}, Effects{})
}

func (h *history) suspend(abort bool) {
	e, err := h.c.Suspend(abort)
	if (err == nil) != (h.m.state == Running) {
		h.Fatalf("suspend: %v", err)
	}
	var want Effects
	if err == nil {
		h.m.suspended = true
		if abort && h.m.count(-1, "running") > 0 {
			want = Effects{Restarted: h.m.spec.IsGang.Value(), AbortRunning: h.m.takeBack(AbortOperationSuspended)}
		}
	}
	h.compare(e, want)
}

func (h *history) limit(n int) {
	e, err := h.c.Update(Update{MaxFailedJobCount: document.Some(n)}, h.now)
	if h.m.state != Running {
		if err == nil {
			h.Fatal("parameters of an operation that is over were changed")
		}
		return
	}
	h.m.limit = n
	var want Effects
	if !h.m.failing && h.m.failed > 0 && h.m.failed >= n {
		want = h.m.fail()
	}
	h.compare(h.must(e, err), want)
}

func (h *history) lateReport(job JobRef) {
	if h.m.where[cookieName{job.Task, job.Cookie}] == "running" {
		job.Incarnation++
	}
	if _, err := h.c.JobCompleted(job, h.now); !errors.Is(err, ErrNotRunning) {
		h.Fatalf("a late report: %v", err)
	}
	h.compare(Effects{}, Effects{})
}

func (h *history) pass(d time.Duration) {
	before, limited := h.c.Deadline()
	h.now = h.now.Add(d)
	var want Effects
	if h.m.state == Running {
		switch {
		case h.m.failing && !h.now.Before(before):
			want = h.m.fail()
		case !h.m.failing && !h.now.Before(clock.Add(time.Hour)):
			want = h.m.failGracefully()
		}
	} else if limited {
		h.Fatal("an operation that is over has a deadline")
	}
	h.compare(h.c.Tick(h.now), want)
}

// restored encodes the controller as JSON and gob and decodes it.
func (h *history) restored() *Controller {
	s := h.c.Snapshot()
	text, err := json.Marshal(s)
	if err != nil {
		h.Fatal(err)
	}
	var fromJSON, fromGob Snapshot
	if err := json.Unmarshal(text, &fromJSON); err != nil {
		h.Fatal(err)
	}
	var data bytes.Buffer
	if err := errors.Join(gob.NewEncoder(&data).Encode(s), gob.NewDecoder(&data).Decode(&fromGob)); err != nil {
		h.Fatal(err)
	}
	again, err := Restore(h.c.Spec(), fromGob)
	if err != nil {
		h.Fatal(err)
	}
	back, err := Restore(h.c.Spec(), fromJSON)
	if err != nil {
		h.Fatal(err)
	}
	for _, c := range []*Controller{again, back} {
		second, err := json.Marshal(c.Snapshot())
		if err != nil || !bytes.Equal(text, second) {
			h.Fatalf("a restored controller has another snapshot:\n%s\n%s", text, second)
		}
	}
	return back
}

// TestPropertyTheControllerAgreesWithItsModel runs random histories on the
// controller and the model. On the way, snapshots and clones replace the
// controller, which shows that they behave like the original.
func TestPropertyTheControllerAgreesWithItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		h := &history{T: t, c: New(spec, clock), m: newModel(spec), now: clock}
		if rapid.Bool().Draw(t, "proxies") {
			h.m.memory.config = drawMemoryConfig(t)
			if err := h.c.Configure(h.m.memory.config); err != nil {
				t.Fatal(err)
			}
		}
		for _, step := range []Step{Register, Assign, Initialize, Prepare, Admit, Materialize} {
			h.must(h.c.Advance(step, clock))
		}
		for range rapid.IntRange(1, 150).Draw(t, "length") {
			h.step()
		}
		if h.m.state == Running {
			if e := h.must(h.c.Complete(h.now)); e.Entered != Completing {
				t.Fatalf("%+v", e)
			}
		}
	})
}

// TestPropertyBitmapsAgreeWithAMap compares the set of cookies with a map.
func TestPropertyBitmapsAgreeWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.SampledFrom([]int32{1, 64, 65, 4096, 4097, 300_000}).Draw(t, "count")
		var set cookieSet
		twin := map[int32]bool{}
		for range rapid.IntRange(0, 60).Draw(t, "length") {
			cookie := rapid.Int32Range(0, count-1).Draw(t, "cookie")
			if twin[cookie] {
				set.remove(cookie)
				delete(twin, cookie)
			} else {
				set.add(cookie, count)
				twin[cookie] = true
			}
			least := count
			for c := range twin {
				least = min(least, c)
			}
			if int(set.size) != len(twin) || len(twin) > 0 && set.first() != least || set.has(cookie) != twin[cookie] {
				t.Fatalf("size %d, want %d", set.size, len(twin))
			}
		}
		if len(twin) == 0 {
			return
		}
		data := bitmap(set.levels[0]).bytes()
		back, err := bitmapOf(data, count, count)
		if err != nil || !reflect.DeepEqual(setOf(back), set) {
			t.Fatalf("bytes do not read back: %v", err)
		}
		if clone := set.clone(); !reflect.DeepEqual(clone, set) {
			t.Fatal("a clone differs")
		}
	})
}
