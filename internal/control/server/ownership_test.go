package server

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
)

// upload sends the stderr of a job in two pieces and returns how much the scheduler still
// expects.
func (m *machine) upload(s *scheduler, number uint64, text string) (left int64, err error) {
	total := int64(len(text))
	for _, offset := range []int64{0, total / 2} {
		end := total
		if offset == 0 {
			end = total / 2
		}
		response, err := s.NodeService().Upload(m.t.Context(), nodeproto.Peer{Node: m.name}, &nodev1.UploadRequest{
			NodeName: m.name, Incarnation: m.session.Incarnation(), Job: number, Stream: nodev1.Stream_STREAM_STDERR,
			Offset: offset, Data: []byte(text[offset:end]), Total: total,
		})
		if err != nil {
			return total, err
		}
		left = total - response.GetNextOffset()
	}
	return left, nil
}

// finish completes a job with the given stderr.
func (m *machine) finish(number uint64, stderr *nodev1.Output) {
	delete(m.jobs, number)
	m.ended[number] = true
	m.session.JobFinished(&nodev1.JobResult{Number: number, State: nodev1.JobState_JOB_STATE_COMPLETED, Started: true, Stderr: stderr})
}

// stderr returns the stored stderr of a job, empty if there is none.
func (m *machine) stderr(s *scheduler, number uint64) string {
	m.t.Helper()
	output, err := s.Store().JobOutput(m.t.Context(), number, "stderr")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		m.t.Fatal(err)
	}
	return string(output.Data)
}

// thief returns a node that claims a job of another node, as running or with a result.
func thief(t *testing.T, name string, job nodeproto.Start, result *nodev1.JobResult) *machine {
	m := newMachine(t, name, 1)
	status := &nodev1.JobStatus{Number: job.Identity.GetNumber(), Identity: job.Identity, Phase: nodev1.Phase_PHASE_RUNNING}
	m.session = nodeproto.NewNodeSession(&nodev1.NodeDescription{Name: name, Resources: nodeproto.ToAmounts(resource.Amounts{
		resource.UserSlots: 1, resource.CPU: 1_00, resource.Memory: 1 << 30,
	})}, 1, []nodeproto.RestoredJob{{Status: status, Result: result}})
	m.jobs[status.Number] = job
	return m
}

// forged returns a result that a thief invents.
func forged(job nodeproto.Start) *nodev1.JobResult {
	return &nodev1.JobResult{
		Number: job.Identity.GetNumber(), Identity: job.Identity, State: nodev1.JobState_JOB_STATE_COMPLETED, Started: true,
		Stderr: &nodev1.Output{Head: []byte("forged"), Size: 6},
	}
}

// theOnlyJob starts an operation of one job on a node and returns the job.
func theOnlyJob(s *scheduler, m *machine) nodeproto.Start {
	s.t.Helper()
	s.pools("{pools: {p: {}}}")
	m.beat(s)
	s.start(fmt.Sprintf(small, "p", 1))
	s.eventually("the job runs", func() bool { m.beat(s); return len(m.jobs) == 1 })
	return m.jobs[m.some()]
}

// checkOwner lets the owner finish its job and checks that its result counted.
func checkOwner(s *scheduler, owner *machine, number uint64) {
	s.t.Helper()
	if _, there := owner.jobs[number]; !there {
		s.t.Fatal("the owner was told to end its job")
	}
	if text := owner.stderr(s, number); text != "" {
		s.t.Errorf("stderr of the running job: %q", text)
	}
	owner.finish(number, &nodev1.Output{Head: []byte("genuine"), Size: 7})
	s.eventually("the operation completes", func() bool { owner.beat(s); return len(s.Operations()) == 0 })
	if text := owner.stderr(s, number); text != "genuine" {
		s.t.Errorf("stderr of the job: %q, want that of its owner", text)
	}
}

func TestANodeCannotEndTheJobOfAnother(t *testing.T) {
	for _, c := range []struct {
		name   string
		result func(nodeproto.Start) *nodev1.JobResult
	}{
		{"by a result", forged},
		{"by saying that it runs the job, and losing it", func(nodeproto.Start) *nodev1.JobResult { return nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := lead(t, t.TempDir())
			owner := newMachine(t, "node-1", 1)
			job := theOnlyJob(s, owner)
			other := thief(t, "node-2", job, c.result(job))
			for range 3 { // claims the job, receives the order to abort it, and reports that it did
				other.beat(s)
			}
			owner.beat(s)
			checkOwner(s, owner, job.Identity.GetNumber())
			s.stop()
		})
	}
}

func TestANodeCannotClaimTheJobOfAnotherFromASuccessor(t *testing.T) {
	directory := t.TempDir()
	s := lead(t, directory)
	owner := newMachine(t, "node-1", 1)
	job := theOnlyJob(s, owner)
	s.stop()

	next := lead(t, directory)
	for name, result := range map[string]*nodev1.JobResult{"node-2": nil, "node-3": forged(job)} {
		other := thief(t, name, job, result)
		other.beat(next)
		other.beat(next)
	}
	next.eventually("the owner's job is adopted", func() bool {
		owner.beat(next)
		record, there := next.jobs.get(core.JobID(job.Identity.GetNumber()))
		return there && record.Node == "node-1"
	})
	checkOwner(next, owner, job.Identity.GetNumber())
	next.stop()
}

func TestAJobsIdentityCannotBeChanged(t *testing.T) {
	p := &proofs{Key: []byte("0123456789abcdef0123456789abcdef"), Since: 5}
	identity := &nodev1.JobIdentity{Number: nodeproto.JobNumber(6, 1), OperationId: "1-2-3-4", TaskName: "t \"é", Cookie: 7, GangIncarnation: 3,
		Resources: &nodev1.Amounts{Cpu: 150, Memory: 1 << 30, UserSlots: 1}}
	identity.Proof = p.of(identity, "node-1")
	// Jobs keep their proofs when the scheduler is upgraded.
	if got, want := hex.EncodeToString(identity.Proof), "e53aed927e9705c97fa09bb3d3ae1c8f0b1c7495b1443d13dfe69c0b3a680a11"; got != want {
		t.Errorf("the proof is %s, want %s", got, want)
	}
	if !p.holds(identity, "node-1") {
		t.Fatal("the node's own job is refused")
	}
	for name, change := range map[string]func(*nodev1.JobIdentity){
		"number":    func(i *nodev1.JobIdentity) { i.Number++ },
		"operation": func(i *nodev1.JobIdentity) { i.OperationId = "1-2-3-5" },
		"task":      func(i *nodev1.JobIdentity) { i.TaskName = "u" },
		"cookie":    func(i *nodev1.JobIdentity) { i.Cookie++ },
		"resources": func(i *nodev1.JobIdentity) { i.Resources = &nodev1.Amounts{Cpu: 1} },
		"no proof":  func(i *nodev1.JobIdentity) { i.Proof = nil },
	} {
		other := proto.CloneOf(identity)
		if change(other); p.holds(other, "node-1") {
			t.Errorf("%s: believed", name)
		}
	}
	if p.holds(identity, "node-2") {
		t.Error("another node is believed")
	}
	if old := (&nodev1.JobIdentity{Number: nodeproto.JobNumber(4, 1)}); !p.holds(old, "node-1") {
		t.Error("a job of a leader without proofs is refused")
	}
}

func TestOutputOfAJobIsAcceptedOnlyFromItsNode(t *testing.T) {
	s := lead(t, t.TempDir())
	owner, other := newMachine(t, "node-1", 1), newMachine(t, "node-2", 1)
	job := theOnlyJob(s, owner)
	other.beat(s)
	number := job.Identity.GetNumber()
	for range 60 {
		if left, err := other.upload(s, number, strings.Repeat("nonsense", 1000)); err != nil || left != 0 {
			t.Fatalf("%d bytes left, %v; what nobody wants is dropped", left, err)
		}
	}
	held, err := ask(t.Context(), s.Server, func(tm *term) (int, error) { return len(tm.uploads), nil })
	if err != nil || held != 0 {
		t.Errorf("%d texts are held, %v", held, err)
	}
	if left, err := owner.upload(s, number, "genuine"); err != nil || left != 0 {
		t.Fatalf("%d bytes left, %v", left, err)
	}
	if text := owner.stderr(s, number); text != "genuine" {
		t.Errorf("stderr is %q", text)
	}
	s.stop()
}

func TestUploadsAreBoundedAndExpire(t *testing.T) {
	s := lead(t, t.TempDir())
	s.pools("{pools: {p: {}}}")
	m := newMachine(t, "node-1", 3)
	m.beat(s)
	s.start(fmt.Sprintf(small, "p", 3))
	s.eventually("three jobs run", func() bool { m.beat(s); return len(m.jobs) == 3 })
	begin := func(number uint64) error {
		_, err := s.NodeService().Upload(t.Context(), nodeproto.Peer{}, &nodev1.UploadRequest{
			NodeName: m.name, Incarnation: 1, Job: number, Stream: nodev1.Stream_STREAM_STDERR, Data: []byte("x"), Total: 40 << 20,
		})
		return err
	}
	numbers := make([]uint64, 0, 3)
	for number := range m.jobs {
		numbers = append(numbers, number)
	}
	if err := begin(numbers[0]); err != nil {
		t.Fatal(err)
	}
	var refused *nodeproto.RefusedError
	if err := begin(numbers[1]); !errors.As(err, &refused) || refused.RetryAfter <= 0 {
		t.Errorf("a second text of 40 MiB from one node: %v, want to be asked to come again", err)
	}
	if _, err := ask(t.Context(), s.Server, func(tm *term) (struct{}, error) {
		for _, u := range tm.uploads {
			u.touched = u.touched.Add(-2 * uploadPatience)
		}
		tm.dropUploads()
		return struct{}{}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := begin(numbers[1]); err != nil {
		t.Errorf("after the first text has expired: %v", err)
	}
	s.stop()
}

func TestASecondAgentDoesNotTakeTheNameOfOneThatLives(t *testing.T) {
	s := lead(t, t.TempDir())
	register := func(agent string, incarnation uint64, replace bool) error {
		request := newMachine(t, "node-1", 1).session.Register()
		request.Node.AgentId, request.Incarnation, request.Replace = agent, incarnation, replace
		_, err := s.NodeService().Register(t.Context(), nodeproto.Peer{Node: "node-1"}, request)
		return err
	}
	if err := register("first", 1, false); err != nil {
		t.Fatal(err)
	}
	var refused *nodeproto.RefusedError
	err := register("second", 2, false)
	if !errors.As(err, &refused) || refused.Reason != nodev1.RefusalReason_REFUSAL_REASON_NAME_TAKEN || !strings.Contains(err.Error(), "--replace") {
		t.Errorf("the second agent: %v", err)
	}
	if err := register("first", 3, false); err != nil {
		t.Errorf("the first agent after a restart: %v", err)
	}
	if err := register("second", 4, true); err != nil {
		t.Errorf("the second agent, on purpose: %v", err)
	}
	if err := register("first", 3, false); !errors.As(err, &refused) || refused.Reason != nodev1.RefusalReason_REFUSAL_REASON_OLD_INCARNATION {
		t.Errorf("the first agent, which was replaced: %v", err)
	}
	s.stop()
}

// A token for any node cannot fill the memory with names, or with reports of registrations that are refused.
func TestTheNumberOfNodesIsBounded(t *testing.T) {
	s := lead(t, t.TempDir())
	s.configure(func(c *Settings) { c.MaxNodes = 3 })
	register := func(name string, incarnation uint64) error {
		request := newMachine(t, name, 1).session.Register()
		request.Incarnation = incarnation
		_, err := s.NodeService().Register(t.Context(), nodeproto.Peer{Node: nodeproto.AnyNode}, request)
		return err
	}
	for i := range 10 {
		err := register(fmt.Sprintf("node-%d", i), 1)
		var refused *nodeproto.RefusedError
		if wrong := i < 3 && err != nil || i >= 3 && (!errors.As(err, &refused) || refused.Reason != nodev1.RefusalReason_REFUSAL_REASON_OVERLOAD); wrong {
			t.Errorf("node %d: %v", i, err)
		}
	}
	if err := register("node-1", 2); err != nil {
		t.Errorf("a node that is known: %v", err)
	}
	if got := len(s.registrations.all()); got != 3 {
		t.Errorf("reports of %d registrations are kept", got)
	}
	s.stop()
}
