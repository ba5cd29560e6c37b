// Package fakescheduler provides a scheduler for tests of nodes. It speaks the real protocol of package
// nodeproto, assigns equal jobs to nodes with free slots, and keeps in a Store what a real scheduler
// would store, so that it can be killed and replaced. It does not know shares.
//
// It imports nodeproto and must not know the real server.
package fakescheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// Store is what survives a scheduler: one operation of many equal jobs, identified by their cookies,
// and their outcomes. The zero value is empty. It is safe for concurrent use.
type Store struct {
	mu      sync.Mutex
	epoch   uint64 // of the current leader: writes of others are refused
	pending []int32
	running map[uint64]place
	byNode  map[string]map[uint64]bool // the same jobs
	results map[uint64]*nodev1.JobResult
	done    map[int32]int // number of completions of each cookie
	uploads map[uint64][]byte
	changed chan struct{} // closed at the next change
}

type place struct {
	node   string
	cookie int32
}

// Submit adds jobs to do.
func (s *Store) Submit(count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := int32(len(s.pending) + len(s.running) + len(s.done))
	for i := range int32(count) {
		s.pending = append(s.pending, first+i)
	}
	s.change()
}

// add records that a job runs. The caller holds the lock.
func (s *Store) add(number uint64, where place) {
	s.running[number] = where
	if s.byNode[where.node] == nil {
		s.byNode[where.node] = map[uint64]bool{}
	}
	s.byNode[where.node][number] = true
}

// remove records that a job no longer runs. The caller holds the lock.
func (s *Store) remove(number uint64) {
	delete(s.byNode[s.running[number].node], number)
	delete(s.running, number)
}

// change wakes all waiters. The caller holds the lock.
func (s *Store) change() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// Progress counts jobs by outcome.
type Progress struct {
	Pending, Running, Results int
	Done                      int // completed cookies
	Twice                     int // cookies completed more than once: must be zero
}

func (s *Store) progress() Progress {
	p := Progress{Pending: len(s.pending), Running: len(s.running), Results: len(s.results), Done: len(s.done)}
	for _, times := range s.done {
		if times > 1 {
			p.Twice++
		}
	}
	return p
}

// Progress returns the current counts.
func (s *Store) Progress() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress()
}

// Await waits until a condition on the progress holds.
func (s *Store) Await(ctx context.Context, holds func(Progress) bool) error {
	for {
		s.mu.Lock()
		p := s.progress()
		if holds(p) {
			s.mu.Unlock()
			return nil
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w; progress %+v", ctx.Err(), p)
		}
	}
}

// Result returns the durable result of a job, nil if there is none.
func (s *Store) Result(job uint64) *nodev1.JobResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.results[job]
}

// Scheduler is one leader. The lock of the store serializes everything, as the loop of a real leader
// would.
type Scheduler struct {
	nodeproto.NoFiles

	store    *Store
	epoch    uint64
	settings nodeproto.Settings
	spec     *nodev1.JobSpec

	// The lock of the store guards the rest.
	sessions  map[string]*nodeproto.Session
	number    uint64 // of sessions
	jobs      uint64 // started by this leader
	standby   *nodeproto.NotLeaderError
	skip      nodev1.SkipReason
	holding   bool // commit nothing
	held      []heldResult
	refuse    map[string]*nodeproto.RefusedError
	onReport  func(node string, report nodeproto.Report)
	resources *nodev1.Amounts
}

// heldResult is a result that waits to be committed.
type heldResult struct {
	node   string
	result *nodev1.JobResult
}

// New returns a new leader on a store; the old leader can change nothing any more.
func New(store *Store, settings nodeproto.Settings) *Scheduler {
	store.mu.Lock()
	defer store.mu.Unlock()
	store.epoch++
	if store.running == nil {
		store.running, store.byNode = map[uint64]place{}, map[string]map[uint64]bool{}
		store.results, store.done, store.uploads = map[uint64]*nodev1.JobResult{}, map[int32]int{}, map[uint64][]byte{}
	}
	return &Scheduler{
		store: store, epoch: store.epoch, settings: settings, spec: &nodev1.JobSpec{Command: "true"},
		sessions: map[string]*nodeproto.Session{}, refuse: map[string]*nodeproto.RefusedError{},
		resources: &nodev1.Amounts{UserSlots: 1, Cpu: 100, Memory: 1 << 20},
	}
}

// Epoch returns the epoch of the leader.
func (s *Scheduler) Epoch() uint64 { return s.epoch }

// Stand makes the scheduler a standby that refers to a leader; nil makes it lead again.
func (s *Scheduler) Stand(by *nodeproto.NotLeaderError) { s.locked(func() { s.standby = by }) }

// Skip makes heartbeats get no jobs, for this reason.
func (s *Scheduler) Skip(reason nodev1.SkipReason) { s.locked(func() { s.skip = reason }) }

// Refuse makes the scheduler refuse a node; nil makes it accept the node again.
func (s *Scheduler) Refuse(node string, why *nodeproto.RefusedError) {
	s.locked(func() {
		s.refuse[node] = why
		delete(s.sessions, node)
	})
}

// Hold delays committing results until it is called with false.
func (s *Scheduler) Hold(hold bool) {
	s.locked(func() {
		s.holding = hold
		if hold {
			return
		}
		for _, h := range s.held {
			s.commit(h.node, h.result)
		}
		s.held = nil
	})
}

// OnReport sets a function that is called with every report, under the lock.
func (s *Scheduler) OnReport(function func(node string, report nodeproto.Report)) {
	s.locked(func() { s.onReport = function })
}

// Spec sets the specification and resources of new jobs.
func (s *Scheduler) Spec(spec *nodev1.JobSpec, resources *nodev1.Amounts) {
	s.locked(func() { s.spec, s.resources = spec, resources })
}

// Forget drops the session of a node, as a leader does after a timeout.
func (s *Scheduler) Forget(node string) { s.locked(func() { delete(s.sessions, node) }) }

// Session calls a function with the session of a node, nil if it has none.
func (s *Scheduler) Session(node string, function func(*nodeproto.Session)) {
	s.locked(func() { function(s.sessions[node]) })
}

// Uploaded returns the uploaded output of a job.
func (s *Scheduler) Uploaded(job uint64) (data []byte) {
	s.locked(func() { data = slices.Clone(s.store.uploads[job]) })
	return data
}

func (s *Scheduler) locked(function func()) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	function()
	s.store.change()
}

// leads returns why the scheduler must not answer, nil if it may.
func (s *Scheduler) leads(node string) error {
	switch {
	case s.standby != nil:
		return s.standby
	case s.epoch != s.store.epoch:
		return &nodeproto.NotLeaderError{Epoch: s.store.epoch}
	case s.refuse[node] != nil:
		return s.refuse[node]
	}
	return nil
}

// Register opens a session.
func (s *Scheduler) Register(_ context.Context, _ nodeproto.Peer, request *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	name := request.GetNode().GetName()
	if err := s.leads(name); err != nil {
		return nil, err
	}
	if err := s.sessions[name].Admits(request); err != nil {
		return nil, err
	}
	session, err := nodeproto.NewSession(nodeproto.SessionID{Epoch: s.epoch, Number: s.number + 1}, request, 0)
	if err != nil {
		return nil, err
	}
	s.number++
	s.sessions[name] = session
	return session.Registered(s.settings, "default"), nil
}

// Heartbeat processes a report, commits results and returns orders.
func (s *Scheduler) Heartbeat(_ context.Context, _ nodeproto.Peer, request *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	name := request.GetNodeName()
	if err := s.leads(name); err != nil {
		return nil, err
	}
	session := s.sessions[name]
	if session == nil {
		return nil, &nodeproto.MustRegisterError{Reason: "there is no session of " + name}
	}
	report, err := session.Receive(request)
	if err != nil {
		return nil, err
	}
	if s.onReport != nil {
		s.onReport(name, report)
	}
	s.reconcile(name, session, report)
	if s.skip == nodev1.SkipReason_SKIP_REASON_NOT_SKIPPED && !session.Status().GetDraining() {
		s.assign(name, session)
	}
	s.store.change()
	return session.Respond(request.GetSequence(), nodeproto.Answer{Skipped: s.skip}), nil
}

// reconcile makes the store agree with a node's report.
func (s *Scheduler) reconcile(name string, session *nodeproto.Session, report nodeproto.Report) {
	for _, result := range report.Finished {
		if s.holding {
			s.held = append(s.held, heldResult{name, result})
		} else {
			s.commit(name, result)
		}
	}
	for _, status := range report.Jobs {
		number := status.GetNumber()
		if _, known := s.store.running[number]; known || status.GetPhase() == nodev1.Phase_PHASE_FINISHED {
			continue
		}
		cookie := status.GetIdentity().GetCookie()
		if at := slices.Index(s.store.pending, cookie); at >= 0 { // not started elsewhere: adopt it
			s.store.pending = slices.Delete(s.store.pending, at, at+1)
			s.store.add(number, place{name, cookie})
			continue
		}
		session.Abort(&nodev1.AbortOrder{Number: number, AbortReason: "other", Message: "the job is not known"})
	}
	for _, number := range report.Lost {
		s.requeue(number)
	}
	if !report.Full {
		return
	}
	for number := range s.store.byNode[name] {
		if _, exists := slices.BinarySearch(report.Running, number); !exists && !s.isHeld(number) {
			s.requeue(number)
		}
	}
}

func (s *Scheduler) isHeld(number uint64) bool {
	return slices.ContainsFunc(s.held, func(h heldResult) bool { return h.result.GetNumber() == number })
}

// requeue gives up a job; its work becomes pending again.
func (s *Scheduler) requeue(number uint64) {
	if where, ok := s.store.running[number]; ok {
		s.store.remove(number)
		s.store.pending = append(s.store.pending, where.cookie)
	}
}

// commit makes a result durable and acknowledges it, new or not.
func (s *Scheduler) commit(node string, result *nodev1.JobResult) {
	number := result.GetNumber()
	if s.store.results[number] == nil {
		s.store.results[number] = result
		where, ours := s.store.running[number]
		switch {
		case !ours: // given up before; its work is done elsewhere
		case result.GetState() == nodev1.JobState_JOB_STATE_COMPLETED:
			s.store.remove(number)
			s.store.done[where.cookie]++
		default:
			s.requeue(number)
		}
	}
	if session := s.sessions[node]; session != nil {
		session.Acknowledge(number)
	}
}

// assign assigns jobs while the node has free slots.
func (s *Scheduler) assign(name string, session *nodeproto.Session) {
	if !session.Confirmed() {
		return
	}
	free := int(session.Status().GetLimits().GetUserSlots()) - len(session.Running())
	for ; free > 0 && len(s.store.pending) > 0; free-- {
		s.jobs++
		number := nodeproto.JobNumber(s.epoch, s.jobs)
		cookie := s.store.pending[0]
		identity := &nodev1.JobIdentity{
			Number: number, Operation: 1, OperationId: "1-1", TaskName: "task", Cookie: cookie, TreeName: "default",
			Resources: s.resources,
		}
		if session.Start(identity, s.spec, nil, nil) != nil {
			return
		}
		s.store.pending = s.store.pending[1:]
		s.store.add(number, place{name, cookie})
	}
}

// Upload stores a piece of output.
func (s *Scheduler) Upload(_ context.Context, _ nodeproto.Peer, request *nodev1.UploadRequest) (*nodev1.UploadResponse, error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if err := s.leads(request.GetNodeName()); err != nil {
		return nil, err
	}
	kept := s.store.uploads[request.GetJob()]
	if request.GetOffset() == int64(len(kept)) {
		s.store.uploads[request.GetJob()] = append(kept, request.GetData()...)
	}
	return &nodev1.UploadResponse{NextOffset: int64(len(s.store.uploads[request.GetJob()]))}, nil
}

// Stream returns to the node what it writes, as input.
func (s *Scheduler) Stream(_ context.Context, _ nodeproto.Peer, _ *nodev1.NodeFrame, stream nodeproto.SchedulerStream) error {
	for {
		frame, err := stream.Receive()
		if err != nil {
			return nil // the node has ended it
		}
		if err := stream.Send(&nodev1.SchedulerFrame{Input: frame.GetOutput().GetData()}); err != nil {
			return err
		}
	}
}
