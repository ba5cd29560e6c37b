package server

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/guid"
)

// holdAnswer is the outcome of a heartbeat that may be held.
type holdAnswer struct {
	response *nodev1.HeartbeatResponse
	err      error
}

// wait sends a heartbeat that the scheduler may hold and returns a channel for the answer.
func (m *machine) wait(ctx context.Context, s *scheduler, hold time.Duration) <-chan holdAnswer {
	m.t.Helper()
	request, err := m.session.Heartbeat()
	if err != nil {
		m.t.Fatal(err)
	}
	request.HoldUs = nodeproto.Micros(hold)
	answers := make(chan holdAnswer, 1)
	go func() {
		response, err := s.NodeService().Heartbeat(ctx, nodeproto.Peer{Node: nodeproto.AnyNode}, request)
		answers <- holdAnswer{response, err}
	}()
	return answers
}

// heldCount returns how many heartbeats the loop holds.
func (s *scheduler) heldCount() int {
	s.t.Helper()
	count, err := ask(s.t.Context(), s.Server, func(t *term) (int, error) { return t.held.order.Len(), nil })
	if err != nil {
		s.t.Fatal(err)
	}
	return count
}

// holds waits until the loop holds this many heartbeats.
func (s *scheduler) holds(count int) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%d heartbeats are held", count), func() bool { return s.heldCount() == count })
}

// newHolder returns a leading scheduler and a node without work that has reported.
func newHolder(t *testing.T) (*scheduler, *machine) {
	t.Helper()
	s := lead(t, t.TempDir())
	t.Cleanup(s.stop)
	s.pools("{pools: {research: {}}}")
	m := newMachine(t, "n1", 4)
	m.beat(s)
	m.beat(s)
	return s, m
}

const oneTask = "{pool: research, tasks: {a: {command: 'true', job_count: 1}}}"

func TestAHeldHeartbeatIsAnsweredWhenAJobIsToStart(t *testing.T) {
	s, m := newHolder(t)
	answers := m.wait(t.Context(), s, time.Hour)
	s.holds(1)
	s.start(oneTask)
	answer := <-answers
	if answer.err != nil || len(answer.response.GetOrders()) != 1 || answer.response.GetOrders()[0].GetStart() == nil {
		t.Fatalf("got %v, %v, want one start", answer.response, answer.err)
	}
	if !answer.response.GetHolds() {
		t.Error("the node is not asked to send the next heartbeat soon")
	}
	s.holds(0)
}

func TestAHeldHeartbeatIsAnsweredWhenAJobIsToStop(t *testing.T) {
	s, m := newHolder(t)
	id := s.start(oneTask)
	m.beat(s)
	if len(m.jobs) != 1 {
		t.Fatalf("the node has %d jobs, want 1", len(m.jobs))
	}
	m.beat(s)
	answers := m.wait(t.Context(), s, time.Hour)
	s.holds(1)
	if err := s.AbortOperation(t.Context(), tester, OperationKey{ID: id}, ""); err != nil {
		t.Fatal(err)
	}
	answer := <-answers
	if answer.err != nil || len(answer.response.GetOrders()) != 1 || answer.response.GetOrders()[0].GetAbort() == nil {
		t.Fatalf("got %v, %v, want one abort", answer.response, answer.err)
	}
}

func TestAHoldEndsAfterTheTimeThatTheNodeAllows(t *testing.T) {
	s, m := newHolder(t)
	answer := <-m.wait(t.Context(), s, 20*time.Millisecond)
	if answer.err != nil || len(answer.response.GetOrders()) != 0 || !answer.response.GetHolds() {
		t.Fatalf("got %v, %v, want an empty answer", answer.response, answer.err)
	}
	if took := s.Counters().HeartbeatTime / time.Duration(s.Counters().Heartbeats); took >= 20*time.Millisecond {
		t.Errorf("the time of a hold counts as latency: %v on average", took)
	}
}

func TestAHeartbeatWithAResultIsNotHeld(t *testing.T) {
	s, m := newHolder(t)
	s.start(oneTask)
	m.beat(s)
	m.end(m.some(), nodev1.JobState_JOB_STATE_COMPLETED, "")
	answer := <-m.wait(t.Context(), s, time.Hour)
	if answer.err != nil || len(answer.response.GetOrders()) == 0 || answer.response.GetOrders()[0].GetAcknowledge() == nil {
		t.Fatalf("got %v, %v, want an acknowledgement", answer.response, answer.err)
	}
	if !answer.response.GetHolds() {
		t.Error("the node is not asked to send the next heartbeat soon")
	}
}

func TestALaterHeartbeatReplacesAHeldOne(t *testing.T) {
	s, m := newHolder(t)
	first := m.wait(t.Context(), s, time.Hour)
	s.holds(1)
	second := m.wait(t.Context(), s, time.Hour)
	answer := <-first
	var stale *nodeproto.StaleError
	if !errors.As(answer.err, &stale) {
		t.Fatalf("got %v, %v, want a stale request", answer.response, answer.err)
	}
	s.holds(1)
	s.start(oneTask)
	if answer := <-second; answer.err != nil || len(answer.response.GetOrders()) != 1 {
		t.Fatalf("got %v, %v, want one start", answer.response, answer.err)
	}
}

func TestARegistrationEndsAHold(t *testing.T) {
	s, m := newHolder(t)
	answers := m.wait(t.Context(), s, time.Hour)
	s.holds(1)
	m.session = nodeproto.NewNodeSession(&nodev1.NodeDescription{Name: "n1", Resources: &nodev1.Amounts{UserSlots: 1}}, 2, nil)
	m.beat(s)
	var register *nodeproto.MustRegisterError
	if answer := <-answers; !errors.As(answer.err, &register) {
		t.Fatalf("got %v, want a demand to register", answer.err)
	}
	s.holds(0)
}

func TestAHoldEndsWithTheTerm(t *testing.T) {
	s := lead(t, t.TempDir())
	s.pools("{pools: {research: {}}}")
	m := newMachine(t, "n1", 4)
	m.beat(s)
	m.beat(s)
	answers := m.wait(t.Context(), s, time.Hour)
	s.holds(1)
	s.stop()
	var other *nodeproto.NotLeaderError
	if answer := <-answers; !errors.As(answer.err, &other) {
		t.Fatalf("got %v, want a hint to another leader", answer.err)
	}
}

func TestNoJobIsOfferedToANodeThatHasGone(t *testing.T) {
	s, m := newHolder(t)
	ctx, leave := context.WithCancel(t.Context())
	answers := m.wait(ctx, s, time.Hour)
	s.holds(1)
	leave()
	if answer := <-answers; !errors.Is(answer.err, context.Canceled) {
		t.Fatalf("got %v, want that the call was cancelled", answer.err)
	}
	other := newMachine(t, "n2", 4)
	other.beat(s)
	other.beat(s)
	live := other.wait(t.Context(), s, time.Hour)
	s.holds(1)
	s.start(oneTask)
	if answer := <-live; answer.err != nil || len(answer.response.GetOrders()) != 1 {
		t.Fatalf("got %v, %v, want one start", answer.response, answer.err)
	}
}

func TestAHeldHeartbeatOfABannedNodeGetsNoJob(t *testing.T) {
	s, m := newHolder(t)
	answers := m.wait(t.Context(), s, time.Hour)
	s.holds(1)
	if err := s.EditNode(t.Context(), tester, "n1", func(n *NodeSettings) error { n.Banned = true; return nil }); err != nil {
		t.Fatal(err)
	}
	s.start(oneTask)
	// The loop has offered the job by the time it serves the next request.
	s.holds(1)
	select {
	case answer := <-answers:
		t.Fatalf("got %v, %v, want that the heartbeat is still held", answer.response, answer.err)
	default:
	}
}

func TestNewSettingsReachAHeldNode(t *testing.T) {
	s, m := newHolder(t)
	s.configure(func(settings *Settings) { settings.HeartbeatPeriod = 7 * time.Second })
	for range 2 {
		answer := <-m.wait(t.Context(), s, 10*time.Millisecond)
		if answer.err != nil || answer.response.GetSettings().GetHeartbeatPeriodUs() != nodeproto.Micros(7*time.Second) {
			t.Fatalf("got %v, %v, want the new settings", answer.response, answer.err)
		}
		if _, err := m.session.Receive(time.Now(), answer.response); err != nil {
			t.Fatal(err)
		}
	}
	// Once the node has been told, its heartbeats are held again.
	m.wait(t.Context(), s, time.Hour)
	s.holds(1)
}

func TestManyHeldNodesShareTheJobsThatWait(t *testing.T) {
	s := lead(t, t.TempDir())
	t.Cleanup(s.stop)
	s.pools("{pools: {research: {}}}")
	const count = 80 // more than one step of an offer
	answers := make(chan holdAnswer, count)
	for i := range count {
		m := newMachine(t, fmt.Sprintf("n%d", i), 1)
		m.beat(s)
		m.beat(s)
		one := m.wait(t.Context(), s, time.Hour)
		go func() { answers <- <-one }()
	}
	s.holds(count)
	s.start(fmt.Sprintf("{pool: research, tasks: {a: {command: 'true', job_count: %d}}}", count))
	for range count {
		if answer := <-answers; answer.err != nil || len(answer.response.GetOrders()) != 1 {
			t.Fatalf("got %v, %v, want one start", answer.response, answer.err)
		}
	}
}

func TestAWaitForAnOperationEndsWhenItChanges(t *testing.T) {
	s, m := newHolder(t)
	id := s.start(oneTask)
	record, _ := s.Operation(OperationKey{ID: id})
	awaited := func(id guid.ID, since time.Time) <-chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.AwaitOperation(t.Context(), id, since, time.Hour)
		}()
		return done
	}
	<-awaited(id, record.Built.Add(-time.Second)) // the caller's record is old
	end := awaited(id, time.Now().Add(time.Hour))
	m.beat(s)
	m.end(m.some(), nodev1.JobState_JOB_STATE_COMPLETED, "")
	m.beat(s)
	s.eventually("the operation ends", func() bool { _, lives := s.Operation(OperationKey{ID: id}); return !lives })
	<-end
	<-awaited(id, time.Now().Add(time.Hour)) // it has ended
	if n := len(s.watchers.waiting); n != 0 {
		t.Errorf("%d operations are still watched, want 0", n)
	}
}
