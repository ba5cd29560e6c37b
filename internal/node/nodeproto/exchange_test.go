package nodeproto_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// world is schedulers and a node, connected by a network that loses, duplicates, delays and reorders
// messages. Either end may crash at any moment. It keeps a ledger of everything and fails the test as
// soon as a guarantee of the package comment is broken.
type world struct {
	t   *rapid.T
	now time.Time

	// The network. As with HTTP, a response belongs to its request.
	requests  []proto.Message
	responses []response

	node        *nodeproto.NodeSession
	incarnation uint64

	leader *leader
	zombie *leader // was replaced and does not know it; cannot make anything durable

	// The store.
	epoch     uint64
	stored    map[uint64]bool // jobs whose start is stored
	committed map[uint64]*nodev1.JobResult
	gone      map[uint64]bool // concluded not to run

	// The node's ledger.
	begun    map[uint64]int // number of starts
	ended    map[uint64]*nodev1.JobResult
	wiped    map[uint64]bool // lost with the node's disk
	specs    []*nodev1.JobSpec
	finishes int
}

// leader is a scheduler's memory.
type leader struct {
	*world
	epoch    uint64
	session  *nodeproto.Session
	sessions uint64
	numbers  uint64
	believed map[uint64]bool              // jobs it counts as running on the node
	results  map[uint64]*nodev1.JobResult // handed out but not durable
	handed   map[uint64]bool              // handed out in this session
}

type response struct {
	sequence uint64
	message  proto.Message
	err      error
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, now: time.Unix(1_800_000_000, 0),
		stored: map[uint64]bool{}, committed: map[uint64]*nodev1.JobResult{}, gone: map[uint64]bool{},
		begun: map[uint64]int{}, ended: map[uint64]*nodev1.JobResult{}, wiped: map[uint64]bool{},
		specs: []*nodev1.JobSpec{{Command: "one"}, {Command: "two"}},
	}
	w.restartNode(nil)
	w.elect()
	return w
}

func (w *world) restartNode(jobs []nodeproto.RestoredJob) {
	w.incarnation = nodeproto.NextIncarnation(w.now, w.incarnation)
	w.node = nodeproto.NewNodeSession(&nodev1.NodeDescription{Name: "n1", Resources: &nodev1.Amounts{Cpu: 1600, UserSlots: 16}}, w.incarnation, jobs)
	w.node.NodeChanged(&nodev1.NodeStatus{MemoryInUse: int64(w.incarnation % 1000)})
}

// disk returns what survives a restart of the agent.
func (w *world) disk() (jobs []nodeproto.RestoredJob) {
	for _, number := range w.node.Jobs() {
		status, result := w.node.Job(number)
		jobs = append(jobs, nodeproto.RestoredJob{Status: status, Result: result})
	}
	return jobs
}

// elect makes a new leader, which knows only the store.
func (w *world) elect() {
	w.epoch++
	w.leader = &leader{world: w, epoch: w.epoch, believed: map[uint64]bool{}, results: map[uint64]*nodev1.JobResult{}, handed: map[uint64]bool{}}
	for number := range w.stored {
		if w.committed[number] == nil && !w.gone[number] {
			w.leader.believed[number] = true
		}
	}
}

// overTheWire returns a message as the other end receives it.
func overTheWire[M proto.Message](t *rapid.T, m M) M {
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out := m.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// send makes the node send a message.
func (w *world) send() {
	if _, registered := w.node.Registered(); !registered {
		w.requests = append(w.requests, overTheWire(w.t, w.node.Register()))
		return
	}
	request, err := w.node.Heartbeat()
	if err != nil {
		w.t.Fatal(err)
	}
	w.requests = append(w.requests, overTheWire(w.t, request))
}

// serve makes a scheduler answer a request.
func (l *leader) serve(request proto.Message) {
	switch request := request.(type) {
	case *nodev1.RegisterRequest:
		answer, err := l.register(request)
		l.responses = append(l.responses, response{request.GetSequence(), answer, err})
	case *nodev1.HeartbeatRequest:
		answer, err := l.heartbeat(request)
		l.responses = append(l.responses, response{request.GetSequence(), answer, err})
	}
}

func (l *leader) register(request *nodev1.RegisterRequest) (proto.Message, error) {
	if err := l.session.Admits(request); err != nil {
		return nil, err
	}
	session, err := nodeproto.NewSession(nodeproto.SessionID{Epoch: l.epoch, Number: l.sessions + 1}, request, 3)
	if err != nil {
		var notLeader *nodeproto.NotLeaderError
		if l == l.leader || !errors.As(err, &notLeader) {
			l.t.Fatalf("registration: %v", err)
		}
		return nil, err
	}
	l.sessions++
	l.session, l.handed = session, map[uint64]bool{}
	settings := nodeproto.DefaultSettings()
	settings.MaxResultsPerReport = 2
	return overTheWire(l.t, session.Registered(settings, "default")), nil
}

func (l *leader) heartbeat(request *nodev1.HeartbeatRequest) (proto.Message, error) {
	if l.session == nil {
		return nil, &nodeproto.MustRegisterError{Reason: "unknown"}
	}
	report, err := l.session.Receive(request)
	if err != nil {
		var refused *nodeproto.RefusedError
		if errors.As(err, &refused) {
			l.t.Fatalf("heartbeat: %v", err)
		}
		return nil, err
	}
	for _, result := range report.Finished {
		l.deliver(result)
	}
	for _, status := range report.Jobs { // adopt them if necessary
		number := status.GetNumber()
		if l.results[number] != nil || l.committed[number] != nil {
			continue // the scheduler has its result; only the acknowledgement is missing
		}
		if !l.gone[number] {
			l.believed[number] = true
		} else if l == l.leader {
			l.t.Fatalf("job %d was given up and is reported", number)
		}
	}
	for _, number := range report.Lost {
		l.conclude(number)
	}
	if report.Full {
		for number := range l.believed {
			if !slices.Contains(report.Running, number) {
				l.conclude(number)
			}
		}
	}
	return overTheWire(l.t, l.session.Respond(request.GetSequence(), nodeproto.Answer{})), nil
}

// deliver acts as the upper layer that receives a result.
func (l *leader) deliver(result *nodev1.JobResult) {
	number := result.GetNumber()
	if l.handed[number] {
		l.t.Fatalf("the result of job %d is handed out twice in one session", number)
	}
	l.handed[number] = true
	if result.GetIdentity().GetNumber() != number {
		l.t.Fatalf("the result of job %d comes without its identity", number)
	}
	if ended := l.ended[number]; ended == nil || ended.GetExitCode() != result.GetExitCode() {
		l.t.Fatalf("job %d ended with %v and is reported with %v", number, ended, result)
	}
	delete(l.believed, number)
	if l.committed[number] == nil {
		l.results[number] = result
	} else {
		l.session.Acknowledge(number) // durable since an earlier session
	}
}

// conclude acts as the upper layer that gives up a job which the node does not have.
func (l *leader) conclude(number uint64) {
	delete(l.believed, number)
	if l != l.leader {
		return // it cannot store this
	}
	if status, _ := l.node.Job(number); status != nil {
		l.t.Fatalf("job %d is declared lost, but the node has it", number)
	}
	l.gone[number] = true
}

// commit makes everything handed out durable and acknowledges it.
func (l *leader) commit() {
	if l != l.leader {
		return
	}
	numbers := make([]uint64, 0, len(l.results))
	for number := range l.results {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	for _, number := range numbers {
		if l.committed[number] != nil {
			l.t.Fatalf("the result of job %d is committed twice", number)
		}
		l.committed[number] = l.results[number]
		if l.session != nil {
			l.session.Acknowledge(number)
		}
	}
	clear(l.results)
}

// start orders a new job.
func (l *leader) start() {
	if l.session == nil || !l.session.Confirmed() {
		return
	}
	l.numbers++
	number := nodeproto.JobNumber(l.epoch, l.numbers)
	err := l.session.Start(&nodev1.JobIdentity{Number: number, OperationId: "op", Resources: &nodev1.Amounts{Cpu: 100}}, l.specs[number%2], nil, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	l.believed[number] = true
	if l == l.leader && rapid.Bool().Draw(l.t, "stored") {
		l.stored[number] = true
	}
}

// hear makes the node process a response.
func (w *world) hear(r response) {
	if r.err != nil {
		w.node.Failed(r.sequence, r.err)
		return
	}
	if welcome, ok := r.message.(*nodev1.RegisterResponse); ok {
		_ = w.node.Welcome(welcome) // ignored if it is not awaited or its epoch is old
		return
	}
	orders, err := w.node.Receive(w.now, r.message.(*nodev1.HeartbeatResponse))
	if err != nil && !errors.Is(err, nodeproto.ErrNotAwaited) {
		w.t.Fatalf("response: %v", err)
	}
	for _, start := range orders.Start {
		number := start.Identity.GetNumber()
		w.begun[number]++
		if w.begun[number] > 1 {
			w.t.Fatalf("job %d begins twice", number)
		}
		if w.gone[number] {
			w.t.Fatalf("job %d begins after it was given up", number)
		}
		if start.Spec.GetCommand() != w.specs[number%2].GetCommand() {
			w.t.Fatalf("job %d begins with the specification of another", number)
		}
	}
	for _, number := range orders.Acknowledged {
		if w.committed[number] == nil {
			w.t.Fatalf("the result of job %d is acknowledged before it is durable", number)
		}
	}
	for _, result := range orders.Ended {
		if w.ended[result.GetNumber()] != nil || w.begun[result.GetNumber()] > 0 {
			w.t.Fatalf("job %d ended without a process and has one", result.GetNumber())
		}
		w.ended[result.GetNumber()] = result
	}
	for _, order := range orders.Abort {
		w.finish(order.GetNumber())
	}
}

// finish ends a job on the node.
func (w *world) finish(number uint64) {
	w.finishes++
	code := int32(w.finishes)
	result := &nodev1.JobResult{Number: number, State: nodev1.JobState_JOB_STATE_COMPLETED, ExitCode: &code, Started: true}
	if w.node.JobFinished(result) {
		w.ended[number] = result
	}
}

// running returns the node's jobs that have not ended.
func (w *world) running() (numbers []uint64) {
	for _, number := range w.node.Jobs() {
		if _, result := w.node.Job(number); result == nil {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// exchange is a request and a response that both arrive.
func (w *world) exchange() {
	w.send()
	last := len(w.requests) - 1
	request := w.requests[last]
	w.requests = w.requests[:last]
	w.leader.serve(request)
	last = len(w.responses) - 1
	answer := w.responses[last]
	w.responses = w.responses[:last]
	w.hear(answer)
}

// settle exchanges messages until nothing changes any more.
func (w *world) settle() {
	w.requests, w.responses, w.zombie = nil, nil, nil
	for range 200 {
		w.exchange()
		w.leader.commit()
		session := w.leader.session
		if session != nil && session.Confirmed() && session.Outstanding() == 0 && !w.node.Urgent() && len(session.Unacknowledged()) == 0 {
			w.exchange() // report the changes that are not urgent
			return
		}
	}
	w.t.Fatal("the ends do not come to rest")
}

// agree checks that both ends have the same state and that nothing is lost.
func (w *world) agree() {
	w.settle()
	running, session := w.running(), w.leader.session
	if !slices.Equal(running, session.Running()) {
		w.t.Fatalf("the node runs %v, the session thinks %v", running, session.Running())
	}
	for _, number := range w.node.Jobs() {
		status, result := w.node.Job(number)
		if result != nil {
			w.t.Fatalf("the result of job %d is not acknowledged", number)
		}
		if seen, _ := session.Job(number); !proto.Equal(seen, status) {
			w.t.Fatalf("job %d is %v, the session thinks %v", number, status, seen)
		}
	}
	for number := range w.ended {
		if w.committed[number] == nil && !w.wiped[number] {
			w.t.Fatalf("the result of job %d is lost", number)
		}
	}
	for number := range w.begun {
		if w.committed[number] == nil && !w.wiped[number] && !slices.Contains(running, number) {
			w.t.Fatalf("job %d began and is nowhere", number)
		}
	}
	for number := range w.leader.believed {
		if !slices.Contains(running, number) {
			w.t.Fatalf("the scheduler believes in job %d, the node does not", number)
		}
	}
}

// draw returns the index of a random element of a list that is not empty.
func draw[T any](t *rapid.T, from []T) int { return rapid.IntRange(0, len(from)-1).Draw(t, "index") }

// takeOut removes an element from a list and returns it.
func takeOut[T any](from *[]T, i int) T {
	value := (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	return value
}

// anyScheduler returns the leader, or sometimes the zombie.
func (w *world) anyScheduler() *leader {
	if w.zombie != nil && rapid.Bool().Draw(w.t, "zombie") {
		return w.zombie
	}
	return w.leader
}

// percent is uniform. A plain range prefers small numbers, and long runs need all kinds of events.
var percent = rapid.Custom(func(t *rapid.T) int {
	n := 0
	for range 10 {
		n *= 2
		if rapid.Bool().Draw(t, "bit") {
			n++
		}
	}
	return n * 100 / 1024
})

// act is one random event. The weights leave long quiet stretches between disasters, without which runs
// would not reach deep states.
func (w *world) act() {
	t := w.t
	what := percent.Draw(t, "event")
	for _, event := range []struct {
		below int
		do    func()
	}{
		{18, w.exchange},
		{28, w.send},
		{38, func() {
			if len(w.requests) > 0 {
				request := takeOut(&w.requests, draw(t, w.requests))
				w.anyScheduler().serve(request)
			}
		}},
		{42, func() { // a request is duplicated
			if len(w.requests) > 0 {
				w.anyScheduler().serve(w.requests[draw(t, w.requests)])
			}
		}},
		{44, func() {
			if len(w.requests) > 0 {
				takeOut(&w.requests, draw(t, w.requests))
			}
		}},
		{54, func() {
			if len(w.responses) > 0 {
				w.hear(takeOut(&w.responses, draw(t, w.responses)))
			}
		}},
		{57, func() { // a response is duplicated
			if len(w.responses) > 0 {
				w.hear(w.responses[draw(t, w.responses)])
			}
		}},
		{59, func() {
			if len(w.responses) > 0 {
				takeOut(&w.responses, draw(t, w.responses))
			}
		}},
		{67, func() { w.anyScheduler().start() }},
		{71, func() { w.leader.start(); w.leader.start(); w.leader.start(); w.leader.start() }},
		{78, func() {
			if running := w.running(); len(running) > 0 {
				w.finish(running[draw(t, running)])
			}
		}},
		{83, func() { w.leader.commit() }},
		{88, func() {
			if running := w.running(); len(running) > 0 {
				w.node.JobChanged(&nodev1.JobStatus{Number: running[draw(t, running)], Phase: nodev1.Phase_PHASE_RUNNING,
					Usage: &nodev1.Amounts{Cpu: rapid.Int64Range(1, 100).Draw(t, "cpu")}})
			}
		}},
		{93, w.stop},
		{95, func() {
			if w.leader.session != nil {
				w.leader.session.AskFull()
			}
		}},
		{96, func() { w.restartNode(w.disk()) }},
		{98, w.agree},
		{100, w.disaster},
	} {
		if what < event.below {
			event.do()
			break
		}
	}
	w.now = w.now.Add(time.Second)
}

// stop aborts or interrupts a job.
func (w *world) stop() {
	session := w.leader.session
	if session == nil || len(session.Running()) == 0 {
		return
	}
	running := session.Running()
	number := running[draw(w.t, running)]
	if rapid.Bool().Draw(w.t, "interrupt") {
		session.Interrupt(&nodev1.InterruptOrder{Number: number, TimeoutUs: 1000})
	} else if session.Abort(&nodev1.AbortOrder{Number: number, AbortReason: "user_request"}) {
		w.leader.conclude(number)
	}
}

func (w *world) disaster() {
	switch rapid.IntRange(0, 4).Draw(w.t, "disaster") {
	case 0: // the node loses its disk
		for _, number := range w.node.Jobs() {
			w.wiped[number] = w.committed[number] == nil
		}
		w.restartNode(nil)
	case 1, 2: // the scheduler crashes
		w.elect()
	default: // it is replaced while it is paused
		w.zombie = w.leader
		w.elect()
	}
}

func TestAnUnreliableNetworkLosesNothingAndRunsNothingTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.SampledFrom([]int{20, 60, 120, 250}).Draw(t, "events") {
			w.act()
		}
		w.agree()
		// Repeat from the settled state, to check that the leftovers of recovery work.
		for range 3 {
			w.leader.start()
		}
		w.agree()
		for _, number := range w.running() {
			w.finish(number)
		}
		w.agree()
		if left := w.node.Jobs(); len(left) > 0 {
			t.Fatalf("all jobs are over, but the node keeps %v", left)
		}
	})
}
