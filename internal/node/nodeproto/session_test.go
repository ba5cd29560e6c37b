package nodeproto_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

var start = time.Unix(1_800_000_000, 0)

// pair is both ends of a session, directly connected.
type pair struct {
	t       *testing.T
	node    *nodeproto.NodeSession
	session *nodeproto.Session
}

func description() *nodev1.NodeDescription {
	return &nodev1.NodeDescription{Name: "n1", Resources: &nodev1.Amounts{UserSlots: 8, Cpu: 800}}
}

// newPair registers a node and confirms the session.
func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{t: t, node: nodeproto.NewNodeSession(description(), 10, nil)}
	p.register(1)
	p.exchange()
	return p
}

func (p *pair) register(epoch uint64) {
	p.t.Helper()
	session, err := nodeproto.NewSession(nodeproto.SessionID{Epoch: epoch, Number: 1}, p.node.Register(), 0)
	if err != nil {
		p.t.Fatal(err)
	}
	p.session = session
	if err := p.node.Welcome(session.Registered(nodeproto.DefaultSettings(), "default")); err != nil {
		p.t.Fatal(err)
	}
}

// heartbeat builds a request of the node.
func (p *pair) heartbeat() *nodev1.HeartbeatRequest {
	p.t.Helper()
	request, err := p.node.Heartbeat()
	if err != nil {
		p.t.Fatal(err)
	}
	return request
}

func (p *pair) receive(request *nodev1.HeartbeatRequest) nodeproto.Report {
	p.t.Helper()
	report, err := p.session.Receive(request)
	if err != nil {
		p.t.Fatal(err)
	}
	return report
}

// exchange is a heartbeat that arrives.
func (p *pair) exchange() (nodeproto.Report, nodeproto.Orders) {
	p.t.Helper()
	request := p.heartbeat()
	report := p.receive(request)
	orders, err := p.node.Receive(start, p.session.Respond(request.GetSequence(), nodeproto.Answer{}))
	if err != nil {
		p.t.Fatal(err)
	}
	return report, orders
}

func (p *pair) start(numbers ...uint64) {
	p.t.Helper()
	spec := &nodev1.JobSpec{Command: "true"}
	for _, number := range numbers {
		if err := p.session.Start(&nodev1.JobIdentity{Number: number, Resources: &nodev1.Amounts{Cpu: 100}}, spec, nil, nil); err != nil {
			p.t.Fatal(err)
		}
	}
}

func completed(number uint64) *nodev1.JobResult {
	return &nodev1.JobResult{Number: number, State: nodev1.JobState_JOB_STATE_COMPLETED}
}

func TestTheLifeOfAJob(t *testing.T) {
	p := newPair(t)
	p.start(1, 2)
	_, orders := p.exchange()
	if len(orders.Start) != 2 || orders.Start[0].Identity.GetNumber() != 1 || orders.Start[0].Spec.GetCommand() != "true" {
		t.Fatalf("orders %+v, want the start of two jobs", orders)
	}
	report, _ := p.exchange()
	if len(report.Jobs) != 2 || report.Jobs[0].GetIdentity() == nil || report.Full {
		t.Fatalf("report %+v, want two new jobs with identities", report)
	}
	if report, _ = p.exchange(); len(report.Jobs) != 0 {
		t.Errorf("jobs that did not change are reported again: %v", report.Jobs)
	}
	p.node.JobFinished(completed(1))
	if !p.node.Urgent() {
		t.Error("a finished job is not urgent")
	}
	report, _ = p.exchange()
	if len(report.Finished) != 1 || report.Finished[0].GetIdentity().GetNumber() != 1 {
		t.Fatalf("report %+v, want one result with its identity", report)
	}
	if report, _ = p.exchange(); len(report.Finished) != 0 {
		t.Error("a result is handed out again")
	}
	p.session.Acknowledge(1)
	if _, orders = p.exchange(); !slices.Equal(orders.Acknowledged, []uint64{1}) {
		t.Errorf("acknowledged %v, want job 1", orders.Acknowledged)
	}
	p.exchange()
	if got := p.node.Jobs(); !slices.Equal(got, []uint64{2}) || p.session.Outstanding() != 0 || len(p.session.Unacknowledged()) != 0 {
		t.Errorf("the node has %v, %d orders are outstanding; want job 2 and none", got, p.session.Outstanding())
	}
}

func TestALostResponseIsHealedByTheNext(t *testing.T) {
	p := newPair(t)
	p.start(1)
	request := p.heartbeat()
	p.receive(request)
	lost := p.session.Respond(request.GetSequence(), nodeproto.Answer{})
	p.node.Failed(request.GetSequence(), errors.New("a time-out"))

	_, orders := p.exchange()
	if len(orders.Start) != 1 {
		t.Fatalf("orders %+v, want the start again", orders)
	}
	// The lost response arrives after all.
	if orders, err := p.node.Receive(start, lost); !errors.Is(err, nodeproto.ErrNotAwaited) || len(orders.Start) != 0 {
		t.Errorf("a response that nobody awaits gave %+v, %v", orders, err)
	}
	if p.exchange(); p.session.Outstanding() != 0 {
		t.Error("the order is not acknowledged")
	}
}

func TestAResponseWithOrdersThatWereSeenRepeatsNothing(t *testing.T) {
	p := newPair(t)
	p.start(1)
	p.exchange()
	request := p.heartbeat()
	again := &nodev1.HeartbeatResponse{Session: request.GetSession(), Sequence: request.GetSequence(), Specs: []*nodev1.JobSpec{{}, {}},
		Orders: []*nodev1.Order{
			{Number: 1, Order: &nodev1.Order_Start{Start: &nodev1.StartOrder{Identity: &nodev1.JobIdentity{Number: 1}}}},
			{Number: 2, Order: &nodev1.Order_Start{Start: &nodev1.StartOrder{Identity: &nodev1.JobIdentity{Number: 1}}}},
			{Number: 3}, // of an unknown kind
			{Number: 4, Order: &nodev1.Order_Start{Start: &nodev1.StartOrder{Identity: &nodev1.JobIdentity{Number: 5}, Spec: 2}}},
		}}
	orders, err := p.node.Receive(start, again)
	if err != nil || len(orders.Start) != 0 {
		t.Errorf("orders %+v, %v; want nothing to start", orders, err)
	}
	if len(orders.Ended) != 1 || orders.Ended[0].GetAbortReason() != "get_spec_failed" {
		t.Errorf("a start without a specification ended in %v", orders.Ended)
	}
}

func TestAGapInTheOrdersEndsTheSession(t *testing.T) {
	p := newPair(t)
	request := p.heartbeat()
	_, err := p.node.Receive(start, &nodev1.HeartbeatResponse{Session: request.GetSession(), Sequence: request.GetSequence(), Orders: []*nodev1.Order{{Number: 2}}})
	if _, registered := p.node.Registered(); err == nil || registered {
		t.Errorf("error %v, registered %v; want an error and no session", err, registered)
	}
}

func TestAnAbortTakesBackAStartThatNobodyHasSeen(t *testing.T) {
	p := newPair(t)
	p.start(1, 2)
	p.session.Interrupt(&nodev1.InterruptOrder{Number: 1})
	if !p.session.Abort(&nodev1.AbortOrder{Number: 1}) {
		t.Error("the start was queued and is not taken back")
	}
	if _, orders := p.exchange(); len(orders.Start) != 1 || len(orders.Interrupt) != 0 || orders.Start[0].Identity.GetNumber() != 2 {
		t.Errorf("orders %+v, want the start of job 2 alone", orders)
	}
	if p.session.Abort(&nodev1.AbortOrder{Number: 2, AbortReason: "preemption"}) {
		t.Error("job 2 was sent and cannot be taken back")
	}
}

func TestAStartAndAnAbortTogetherEndWithoutAProcess(t *testing.T) {
	p := newPair(t)
	p.start(1)
	request := p.heartbeat()
	p.receive(request)
	p.session.Respond(request.GetSequence(), nodeproto.Answer{}) // this response is lost
	p.session.Interrupt(&nodev1.InterruptOrder{Number: 1, TimeoutUs: 1})
	p.session.Abort(&nodev1.AbortOrder{Number: 1, AbortReason: "preemption"})
	_, orders := p.exchange()
	if len(orders.Start)+len(orders.Interrupt)+len(orders.Abort) != 0 || len(orders.Ended) != 1 {
		t.Fatalf("orders %+v, want one result and nothing to do", orders)
	}
	report, _ := p.exchange()
	if len(report.Finished) != 1 || report.Finished[0].GetAbortReason() != "preemption" || report.Finished[0].GetStarted() {
		t.Errorf("report %+v, want a job that was aborted before it began", report)
	}
}

func TestStoppingIsReportedAndDoneOnce(t *testing.T) {
	p := newPair(t)
	p.start(1)
	p.exchange()
	for range 2 {
		p.session.Interrupt(&nodev1.InterruptOrder{Number: 1, TimeoutUs: 7_000_000, Reason: "for another"})
	}
	if _, orders := p.exchange(); len(orders.Interrupt) != 1 {
		t.Errorf("%d interrupts, want one", len(orders.Interrupt))
	}
	// A later status of the job does not undo the interruption.
	p.node.JobChanged(&nodev1.JobStatus{Number: 1, Phase: nodev1.Phase_PHASE_RUNNING})
	p.exchange()
	status, _ := p.session.Job(1)
	if status.GetPreemption() != nodev1.PreemptionState_PREEMPTION_STATE_INTERRUPTED || status.GetPreemptionReason() != "for another" ||
		!nodeproto.FromMicros(status.GetInterruptionDeadlineUs()).Equal(start.Add(7*time.Second)) {
		t.Errorf("the interrupted job is reported as %v", status)
	}
	for range 2 {
		p.session.Abort(&nodev1.AbortOrder{Number: 1})
	}
	p.session.Abort(&nodev1.AbortOrder{Number: 99})
	if _, orders := p.exchange(); len(orders.Abort) != 1 {
		t.Errorf("%d aborts, want one", len(orders.Abort))
	}
}

func TestAFullReportRepairsAPicture(t *testing.T) {
	p := newPair(t)
	p.start(1, 2)
	p.exchange()
	p.exchange()
	p.node.JobFinished(completed(2))
	p.session.AskFull()
	p.exchange()
	p.start(3)
	report, _ := p.exchange()
	if !report.Full || !slices.Equal(report.Running, []uint64{1, 3}) {
		t.Errorf("report %+v, want a full one with job 1 and the start on its way", report)
	}

	// A delta about a job that the session does not know makes it request a full report.
	request := p.heartbeat()
	request.Report.Jobs = append(request.Report.Jobs, &nodev1.JobStatus{Number: 77, Phase: nodev1.Phase_PHASE_RUNNING})
	p.receive(request)
	if !p.session.Respond(request.GetSequence(), nodeproto.Answer{}).GetNeedFull() {
		t.Error("a strange job does not lead to a full report")
	}
}

func TestJobsThatANodeDoesNotHaveAreLost(t *testing.T) {
	p := newPair(t)
	p.start(1, 2)
	p.exchange()
	request := p.heartbeat()
	request.Report.Jobs = request.Report.Jobs[:1]
	if report := p.receive(request); !slices.Equal(report.Lost, []uint64{2}) {
		t.Errorf("lost %v, want job 2, whose start was acknowledged", report.Lost)
	}
	request = p.heartbeat()
	request.Report = &nodev1.Report{Full: true}
	if report := p.receive(request); !slices.Equal(report.Lost, []uint64{1}) || len(report.Running) != 0 {
		t.Errorf("report %+v, want job 1 to be lost", report)
	}
}

func TestARegistrationCountsFromItsFirstHeartbeatOn(t *testing.T) {
	node := nodeproto.NewNodeSession(description(), 10, []nodeproto.RestoredJob{
		{Status: &nodev1.JobStatus{Number: 1, Phase: nodev1.Phase_PHASE_RUNNING, Identity: &nodev1.JobIdentity{Number: 1}}},
		{Status: &nodev1.JobStatus{Number: 2, Phase: nodev1.Phase_PHASE_RUNNING, Identity: &nodev1.JobIdentity{Number: 2}}, Result: completed(2)},
		{Status: &nodev1.JobStatus{}},
	})
	p := &pair{t: t, node: node}
	p.register(1)
	if err := p.session.Start(&nodev1.JobIdentity{Number: 9}, &nodev1.JobSpec{}, nil, nil); !errors.Is(err, nodeproto.ErrNotConfirmed) || len(p.session.Running()) != 0 {
		t.Errorf("a start before the first heartbeat: %v, running %v", err, p.session.Running())
	}
	report, _ := p.exchange()
	if !report.First || !report.Full || !slices.Equal(report.Running, []uint64{1}) || len(report.Finished) != 1 {
		t.Errorf("report %+v, want job 1 running and the result of job 2", report)
	}
}

func TestRegistrationsThatAreRefused(t *testing.T) {
	p := newPair(t)
	session := p.session
	late := p.node.Register()
	p.register(1)
	for _, c := range []struct {
		name    string
		request *nodev1.RegisterRequest
		want    any
	}{
		{"of an incarnation that is over", &nodev1.RegisterRequest{Incarnation: 9, Sequence: 100}, new(*nodeproto.RefusedError)},
		{"delayed in the network", late, new(*nodeproto.StaleError)},
	} {
		if err := p.session.Admits(c.request); err == nil || !errors.As(err, c.want) {
			t.Errorf("a registration %s: %v", c.name, err)
		}
	}
	if err := session.Admits(&nodev1.RegisterRequest{Incarnation: 11, Sequence: 1}); err != nil {
		t.Errorf("the next incarnation is refused: %v", err)
	}
	if err := (*nodeproto.Session)(nil).Admits(late); err != nil {
		t.Errorf("a node without a session is refused: %v", err)
	}
}

func TestALeaderThatWasReplacedIsNotBelieved(t *testing.T) {
	p := newPair(t)
	p.register(5)
	request := p.node.Register()
	var notLeader *nodeproto.NotLeaderError
	if _, err := nodeproto.NewSession(nodeproto.SessionID{Epoch: 4, Number: 1}, request, 0); !errors.As(err, &notLeader) || notLeader.Epoch != 5 {
		t.Errorf("a scheduler of epoch 4 takes a node that knows epoch 5: %v", err)
	}
	welcome := &nodev1.RegisterResponse{Session: &nodev1.SessionId{Epoch: 4, Number: 1}, Sequence: request.GetSequence()}
	if err := p.node.Welcome(welcome); err == nil {
		t.Error("the node takes a session of an epoch that is over")
	}
	if _, registered := p.node.Registered(); registered {
		t.Error("the node has a session of an epoch that is over")
	}
}

func TestAWelcomeToAnEarlierRegistrationIsNotTaken(t *testing.T) {
	node := nodeproto.NewNodeSession(description(), 10, nil)
	first := node.Register()
	second := node.Register()
	welcome := func(sequence uint64) *nodev1.RegisterResponse {
		return &nodev1.RegisterResponse{Session: &nodev1.SessionId{Epoch: 1, Number: sequence}, Sequence: sequence}
	}
	if err := node.Welcome(welcome(first.GetSequence())); !errors.Is(err, nodeproto.ErrNotAwaited) {
		t.Errorf("a welcome to the first of two registrations: %v", err)
	}
	if err := node.Welcome(welcome(second.GetSequence())); err != nil {
		t.Errorf("a welcome to the second: %v", err)
	}
	if _, err := node.Heartbeat(); err != nil {
		t.Fatal(err)
	}
	if err := node.Welcome(welcome(second.GetSequence())); !errors.Is(err, nodeproto.ErrNotAwaited) {
		t.Errorf("a welcome while a heartbeat is in flight: %v", err)
	}
}

func TestRegistrationsThatBreakRulesAreToldAllOfThem(t *testing.T) {
	_, err := nodeproto.NewSession(nodeproto.SessionID{Epoch: 1, Number: 1}, &nodev1.RegisterRequest{
		Node:            &nodev1.NodeDescription{Name: "*", Resources: &nodev1.Amounts{Cpu: -1}, Tags: []string{"a b", strings.Repeat("x", 300)}},
		ProtocolVersion: nodeproto.Version,
		Report: &nodev1.Report{
			Jobs:    []*nodev1.JobStatus{{Number: 0}, {Number: 3, Phase: 1, Identity: &nodev1.JobIdentity{Number: 4}}, {Number: 3, Phase: 2, Usage: &nodev1.Amounts{Memory: -5}}},
			Results: []*nodev1.JobResult{{Number: 0}, {Number: 6, State: 1, Identity: &nodev1.JobIdentity{Number: 7, Resources: &nodev1.Amounts{Gpu: -1}}}, {Number: 6, State: 1}},
			Node:    &nodev1.NodeStatus{Limits: &nodev1.Amounts{UserSlots: 1 << 62}, Usage: &nodev1.Amounts{Network: -1}},
		},
	}, 0)
	var refused *nodeproto.RefusedError
	if !errors.As(err, &refused) || refused.Reason != nodev1.RefusalReason_REFUSAL_REASON_INVALID {
		t.Fatalf("error %v, want a refusal as invalid", err)
	}
	for _, want := range []string{
		"node.name", "node.tags[0]", "node.tags[1]", "node.resources: cpu", "incarnation", "sequence", "report.full",
		"report.jobs[0]: job number 0", "report.jobs[0]: job 0 has no phase", "report.jobs[1]: job 3 has the identity of 4",
		"report.jobs[2]: job number 3", "report.jobs[2]: job 3: memory", "report.results[0]: job 0 has no state", "report.results[1]: job 6 has the identity of 7",
		"report.results[1]: job 6: gpu", "report.results[2]: job number 6", "report.node.limits: user_slots", "report.node.usage: network",
	} {
		if !strings.Contains(refused.Message, want) {
			t.Errorf("the refusal does not name %q:\n%s", want, refused.Message)
		}
	}
	_, err = nodeproto.NewSession(nodeproto.SessionID{}, &nodev1.RegisterRequest{ProtocolVersion: 0}, 0)
	if !errors.As(err, &refused) || refused.Reason != nodev1.RefusalReason_REFUSAL_REASON_VERSION {
		t.Errorf("a node without a version: %v", err)
	}
}

func TestHeartbeatsThatAreNotTaken(t *testing.T) {
	p := newPair(t)
	p.start(1)
	p.exchange()
	good := p.heartbeat()
	for name, change := range map[string]struct {
		do   func(*nodev1.HeartbeatRequest)
		want any
	}{
		"of another session":     {func(r *nodev1.HeartbeatRequest) { r.Session.Number++ }, new(*nodeproto.MustRegisterError)},
		"of another epoch":       {func(r *nodev1.HeartbeatRequest) { r.Session.Epoch++ }, new(*nodeproto.MustRegisterError)},
		"of another incarnation": {func(r *nodev1.HeartbeatRequest) { r.Incarnation++ }, new(*nodeproto.MustRegisterError)},
		"of another node":        {func(r *nodev1.HeartbeatRequest) { r.NodeName = "n2" }, new(*nodeproto.MustRegisterError)},
		"with too many orders":   {func(r *nodev1.HeartbeatRequest) { r.OrdersSeen = 2 }, new(*nodeproto.MustRegisterError)},
		"that is stale":          {func(r *nodev1.HeartbeatRequest) { r.Sequence = 1 }, new(*nodeproto.StaleError)},
		"that breaks a rule":     {func(r *nodev1.HeartbeatRequest) { r.Report.Jobs[0].Phase = 0 }, new(*nodeproto.RefusedError)},
	} {
		bad := proto.CloneOf(good)
		change.do(bad)
		if _, err := p.session.Receive(bad); err == nil || !errors.As(err, change.want) {
			t.Errorf("a heartbeat %s: %v", name, err)
		}
	}
	if report := p.receive(good); len(report.Jobs) != 1 {
		t.Errorf("after refusals the good heartbeat gives %+v", report)
	}
	back := proto.CloneOf(good)
	back.Sequence, back.OrdersSeen = good.GetSequence()+1, 0
	if _, err := p.session.Receive(back); !errors.As(err, new(*nodeproto.MustRegisterError)) {
		t.Errorf("a heartbeat that has forgotten an order: %v", err)
	}
	if report := p.receive(good); !report.Repeated || len(report.Jobs) != 0 {
		t.Errorf("a copy of a heartbeat gives %+v", report)
	}
}

func TestSpecificationsTravelOnceAndOrdersInPieces(t *testing.T) {
	node := nodeproto.NewNodeSession(description(), 10, nil)
	session, err := nodeproto.NewSession(nodeproto.SessionID{Epoch: 1, Number: 1}, node.Register(), 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Welcome(session.Registered(nodeproto.Settings{}, "")); err != nil {
		t.Fatal(err)
	}
	p := &pair{t: t, node: node, session: session}
	p.exchange()
	p.start(1, 2, 3, 4, 5)
	request := p.heartbeat()
	p.receive(request)
	response := p.session.Respond(request.GetSequence(), nodeproto.Answer{Next: time.Second, Skipped: nodev1.SkipReason_SKIP_REASON_OVERLOAD})
	if len(response.GetOrders()) != 3 || len(response.GetSpecs()) != 1 || !response.GetMore() {
		t.Errorf("%d orders, %d specifications, more %v; want 3, 1 and more", len(response.GetOrders()), len(response.GetSpecs()), response.GetMore())
	}
	if response.GetNextHeartbeatUs() != 1_000_000 || response.GetSchedulingSkipped() != nodev1.SkipReason_SKIP_REASON_OVERLOAD {
		t.Errorf("the answer is not in the response: %v", response)
	}
	if err := p.session.Start(&nodev1.JobIdentity{Number: 2}, &nodev1.JobSpec{}, nil, nil); err == nil {
		t.Error("a job is started again")
	}
}

func TestAChangedCPULimitIsCounted(t *testing.T) {
	p := newPair(t)
	p.start(1)
	p.exchange()
	p.exchange()
	p.node.JobChanged(&nodev1.JobStatus{Number: 1, Phase: nodev1.Phase_PHASE_RUNNING, Usage: &nodev1.Amounts{Cpu: 97}})
	request := p.heartbeat()
	p.receive(request)
	counted := p.session.Respond(request.GetSequence(), nodeproto.Answer{}).GetCpuLimitsCounted()
	if len(counted) != 1 || counted[0].GetNumber() != 1 || counted[0].GetCpu() != 97 {
		t.Errorf("counted %v, want 97 for job 1", counted)
	}
}

func TestTheNodeGivesAnIdentityBackAsItCame(t *testing.T) {
	// A newer scheduler added a field to the identity that this node does not know.
	identity := &nodev1.JobIdentity{Number: 1, OperationId: "op"}
	identity.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 900, protowire.BytesType), "news"))
	p := newPair(t)
	if err := p.session.Start(identity, &nodev1.JobSpec{}, nil, nil); err != nil {
		t.Fatal(err)
	}
	p.exchange()
	request := p.node.Register()
	data, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	back := &nodev1.RegisterRequest{}
	if err := proto.Unmarshal(data, back); err != nil {
		t.Fatal(err)
	}
	if got := back.GetReport().GetJobs()[0].GetIdentity(); !proto.Equal(got, identity) {
		t.Errorf("the identity came back as %v, want %v", got, identity)
	}
}

func TestThePaceOfANode(t *testing.T) {
	var pace nodeproto.Pace
	settings := nodeproto.DefaultSettings()
	pace.Adopt(settings)
	normal := &nodev1.HeartbeatResponse{}
	skipped := &nodev1.HeartbeatResponse{SchedulingSkipped: nodev1.SkipReason_SKIP_REASON_OVERLOAD}
	away := &nodev1.HeartbeatResponse{SchedulingSkipped: nodev1.SkipReason_SKIP_REASON_STORE_UNAVAILABLE}
	for i, step := range []struct {
		name string
		got  time.Duration
		want time.Duration
	}{
		{"after a heartbeat", pace.Succeeded(normal, 0.5), 5500 * time.Millisecond},
		{"after a registration", pace.Succeeded(nil, 0.5), 0},
		{"when there is more", pace.Succeeded(&nodev1.HeartbeatResponse{More: true}, 0.5), 0},
		{"when the scheduler holds heartbeats", pace.Succeeded(&nodev1.HeartbeatResponse{Holds: true}, 0.5), 5 * time.Millisecond},
		{"the longest hold", pace.Hold(0.5), 5500 * time.Millisecond},
		{"when it is told", pace.Succeeded(&nodev1.HeartbeatResponse{NextHeartbeatUs: 1000}, 0.5), time.Millisecond},
		{"after an error", pace.Failed(0, 0.999999), 5 * time.Second},
		{"after the second", pace.Failed(0, 0.999999), 10 * time.Second},
		{"after a skipped scheduling", pace.Succeeded(skipped, 0.999999), 20 * time.Second},
		{"after the fourth", pace.Failed(0, 0.999999), 40 * time.Second},
		{"after the fifth", pace.Failed(0, 0.999999), time.Minute},
		{"after many", pace.Failed(0, 0.999999), time.Minute},
		{"with the least luck", pace.Failed(0, 0), 30 * time.Second},
		{"when a refusal asks for more", pace.Failed(time.Hour, 0), time.Hour},
		{"when all is well again", pace.Succeeded(normal, 0), 5 * time.Second},
		{"after an error then", pace.Failed(0, 0), 2500 * time.Millisecond},
		{"when nobody leads", pace.AfterError(&nodeproto.NotLeaderError{}, 0.999999), time.Second},
		{"when nobody leads still", pace.AfterError(fmt.Errorf("scheduler s:1: %w", &nodeproto.NotLeaderError{}), 0.999999), time.Second},
		{"when nobody answers", pace.AfterError(connect.NewError(connect.CodeUnavailable, errors.New("it is gone")), 0.999999), time.Second},
		{"when the store is away", pace.Succeeded(away, 0.999999), time.Second},
		{"when nobody has led for long", leaderless(&pace, 7), 5 * time.Second},
		{"when somebody leads", pace.Succeeded(normal, 0), 5 * time.Second},
		{"when nobody leads again", leaderless(&pace, 1), time.Second},
		{"when it is not wanted", pace.AfterError(&nodeproto.RefusedError{RetryAfter: time.Hour}, 0), time.Hour},
	} {
		if difference := step.got - step.want; difference.Abs() > 100*time.Millisecond {
			t.Errorf("%d, %s: %v, want %v", i, step.name, step.got, step.want)
		}
	}
}

// leaderless is the pause after the last of several searches for a leader.
func leaderless(pace *nodeproto.Pace, searches int) (pause time.Duration) {
	for range searches {
		pause = pace.AfterError(&nodeproto.NotLeaderError{}, 0.999999)
	}
	return pause
}

func TestIncarnationsAndJobNumbersGrow(t *testing.T) {
	first := nodeproto.NextIncarnation(start, 0)
	if second := nodeproto.NextIncarnation(start.Add(-time.Hour), first); second != first+1 {
		t.Errorf("with a clock that went back %d follows %d", second, first)
	}
	if nodeproto.JobNumber(2, 1) <= nodeproto.JobNumber(1, 1<<40-1) {
		t.Error("epochs share job numbers")
	}
}
