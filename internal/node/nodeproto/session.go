package nodeproto

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// DefaultMaxOrders is how many orders one response carries unless a session sets another
// limit.
const DefaultMaxOrders = 500

// SessionID names a session.
type SessionID struct {
	Epoch  uint64
	Number uint64
}

func (id SessionID) message() *nodev1.SessionId {
	return &nodev1.SessionId{Epoch: id.Epoch, Number: id.Number}
}

func (id SessionID) String() string { return fmt.Sprintf("%d.%d", id.Epoch, id.Number) }

func sessionID(m *nodev1.SessionId) SessionID {
	return SessionID{Epoch: m.GetEpoch(), Number: m.GetNumber()}
}

// Session is the scheduler's end of a session with one node: the picture of the node as
// reported, and the orders that it has not acknowledged. The package comment has the contract.
//
// A method that returns an error has changed nothing. Messages passed in or returned are not
// modified afterwards, so that other goroutines may encode them at any time.
//
// Invariants: issued orders have the numbers seen+1 … issued; a job is in the picture from its
// first report until its acknowledgement is covered, or until it is lost.
type Session struct {
	id          SessionID
	node        string
	incarnation uint64
	maxOrders   int

	// registration is the provisional picture, until the first heartbeat.
	registration *nodev1.RegisterRequest
	sequence     uint64 // of the latest request
	jobs         map[uint64]*reportedJob
	status       *nodev1.NodeStatus
	needFull     bool
	counted      []*nodev1.CpuLimit // changes of the latest report

	seen    uint64         // orders up to this number are acknowledged
	pending []pendingOrder // numbered seen+1…, in responses until they are acknowledged
	queued  []pendingOrder // in no response yet

	after    uint64 // the commit that newly queued orders depend on
	released uint64 // the last commit that is durable
}

// reportedJob is a job in the picture.
type reportedJob struct {
	status    *nodev1.JobStatus // without identity
	identity  *nodev1.JobIdentity
	delivered bool // its result has been handed to the upper layer
}

// pendingOrder is an order without its number; start orders have their specification.
type pendingOrder struct {
	order *nodev1.Order
	spec  *nodev1.JobSpec
	after uint64 // the commit that it depends on
}

// Report is what a heartbeat reported that was not known before. All lists are sorted by job
// number.
type Report struct {
	// Repeated reports whether the request is a copy of the last: nothing in it is new. It is
	// answered like any other.
	Repeated bool
	// First reports whether this report confirms the session: the node may receive jobs.
	First bool
	// Full reports whether the picture is complete. Jobs then has every job, and Running the
	// numbers of all jobs that count as the node's, including those whose start it has not
	// seen and those whose result is still to come: any other job of this node does not exist.
	Full    bool
	Running []uint64
	// Jobs are jobs that appeared or changed, with their identities. A job that is finished
	// here has a result that is still to come in this session; the upper layer might have it
	// from an earlier session.
	Jobs []*nodev1.JobStatus
	// Finished are results not handed out before in this session, with identities. They
	// are to be made durable and then acknowledged, also those of unknown jobs.
	Finished []*nodev1.JobResult
	// Lost are jobs that the node had, or whose start it acknowledged, and no longer has.
	Lost []uint64
	// Node is the state of the node if it changed.
	Node *nodev1.NodeStatus
	// More reports whether the node has more results and will send them at once.
	More bool
}

// Admits reports whether a registration may replace the node's session, which may be nil: the
// registration must not be older than what the session has seen.
func (s *Session) Admits(request *nodev1.RegisterRequest) error {
	switch {
	case s == nil || request.GetIncarnation() > s.incarnation:
		return nil
	case request.GetIncarnation() < s.incarnation:
		return refusef(nodev1.RefusalReason_REFUSAL_REASON_OLD_INCARNATION,
			"incarnation %d of node %s is over: %d has registered", request.GetIncarnation(), s.node, s.incarnation)
	case request.GetSequence() <= s.sequence:
		return &StaleError{Sequence: s.sequence}
	}
	return nil
}

// NewSession opens a session for a registration. It carries at most maxOrders orders in a
// response, DefaultMaxOrders if that is zero.
func NewSession(id SessionID, request *nodev1.RegisterRequest, maxOrders int) (*Session, error) {
	if known := request.GetKnownEpoch(); known > id.Epoch {
		return nil, &NotLeaderError{Epoch: known}
	}
	if version := request.GetProtocolVersion(); version < MinVersion {
		return nil, refusef(nodev1.RefusalReason_REFUSAL_REASON_VERSION,
			"the node speaks version %d of the protocol, this scheduler %d to %d", version, MinVersion, Version)
	}
	if problems := checkRegistration(request); len(problems) > 0 {
		return nil, invalidf("%v", errors.Join(problems...))
	}
	if maxOrders <= 0 {
		maxOrders = DefaultMaxOrders
	}
	return &Session{
		id: id, node: request.GetNode().GetName(), incarnation: request.GetIncarnation(), maxOrders: maxOrders,
		registration: request, sequence: request.GetSequence(), jobs: map[uint64]*reportedJob{},
	}, nil
}

// ID returns the name of the session.
func (s *Session) ID() SessionID { return s.id }

// Node returns the name of the node.
func (s *Session) Node() string { return s.node }

// Incarnation returns the incarnation of the node.
func (s *Session) Incarnation() uint64 { return s.incarnation }

// Confirmed reports whether a heartbeat of the session has arrived. Until then the node gets
// no jobs.
func (s *Session) Confirmed() bool { return s.registration == nil }

// Status returns the state of the node as last reported, nil if none was.
func (s *Session) Status() *nodev1.NodeStatus { return s.status }

// Registered answers the registration.
func (s *Session) Registered(settings Settings, tree string) *nodev1.RegisterResponse {
	return &nodev1.RegisterResponse{
		Session: s.id.message(), Settings: settings.message(), Tree: tree,
		ProtocolVersion: Version, Sequence: s.sequence,
	}
}

// Receive applies a heartbeat. The owner then acts on the report, makes durable what must be,
// and answers with Respond.
func (s *Session) Receive(request *nodev1.HeartbeatRequest) (Report, error) {
	switch {
	case sessionID(request.GetSession()) != s.id || request.GetNodeName() != s.node || request.GetIncarnation() != s.incarnation:
		return Report{}, &MustRegisterError{Reason: fmt.Sprintf("session %v of node %q is not the present one", sessionID(request.GetSession()), request.GetNodeName())}
	case request.GetSequence() < s.sequence, request.GetSequence() == s.sequence && !s.Confirmed():
		return Report{}, &StaleError{Sequence: s.sequence}
	case request.GetSequence() == s.sequence:
		return Report{Repeated: true, More: request.GetMore()}, nil
	case request.GetOrdersSeen() < s.seen || request.GetOrdersSeen()-s.seen > uint64(len(s.pending)):
		return Report{}, &MustRegisterError{Reason: fmt.Sprintf("the node has seen order %d, of %d to %d", request.GetOrdersSeen(), s.seen, s.seen+uint64(len(s.pending)))}
	}
	if problems := checkReport(request.GetReport()); len(problems) > 0 {
		return Report{}, invalidf("%v", errors.Join(problems...))
	}
	s.sequence = request.GetSequence()
	s.counted = nil
	started := s.cover(request.GetOrdersSeen())

	news := &gathered{jobs: map[uint64]bool{}}
	if !s.Confirmed() {
		registration := s.registration
		s.registration = nil
		news.first = true
		s.apply(registration.GetReport(), true, news)
	}
	s.apply(request.GetReport(), request.GetReport().GetFull(), news)
	for _, number := range started {
		if s.jobs[number] == nil {
			news.lost = append(news.lost, number)
		}
	}
	report := s.report(news)
	report.More = request.GetMore()
	return report, nil
}

// gathered collects what the reports of one request brought.
type gathered struct {
	first, full bool
	jobs        map[uint64]bool // appeared or changed
	results     []*nodev1.JobResult
	lost        []uint64
	node        *nodev1.NodeStatus
}

// cover removes the orders that the node has acknowledged. It returns the jobs that the node
// must have started.
func (s *Session) cover(seen uint64) (started []uint64) {
	count := int(seen - s.seen)
	for _, p := range s.pending[:count] {
		if start := p.order.GetStart(); start != nil {
			started = append(started, start.GetIdentity().GetNumber())
		}
		for _, number := range p.order.GetAcknowledge().GetNumbers() {
			delete(s.jobs, number)
		}
	}
	s.seen = seen
	s.pending = slices.Delete(s.pending, 0, count)
	return started
}

// apply merges a report into the picture.
func (s *Session) apply(report *nodev1.Report, full bool, news *gathered) {
	if full {
		news.full = true
		s.needFull = false
		s.dropAbsent(report, news)
	}
	for _, status := range report.GetJobs() {
		s.applyStatus(status, news)
	}
	for _, result := range report.GetResults() {
		s.applyResult(result, news)
	}
	if report.GetNode() != nil {
		s.status, news.node = report.GetNode(), report.GetNode()
	}
}

// dropAbsent removes jobs that are missing from a full report.
func (s *Session) dropAbsent(report *nodev1.Report, news *gathered) {
	present := make(map[uint64]bool, len(report.GetJobs())+len(report.GetResults()))
	for _, status := range report.GetJobs() {
		present[status.GetNumber()] = true
	}
	for _, result := range report.GetResults() {
		present[result.GetNumber()] = true
	}
	for number, job := range s.jobs {
		if present[number] {
			continue
		}
		if !job.delivered {
			news.lost = append(news.lost, number)
		}
		delete(s.jobs, number)
		delete(news.jobs, number)
	}
}

// reported returns the entry of a job, and creates it if the report introduces the job. It
// returns nil if the session does not know the job, and then requests a full report.
func (s *Session) reported(number uint64, identity *nodev1.JobIdentity) *reportedJob {
	job := s.jobs[number]
	switch {
	case job != nil:
		return job
	case identity == nil:
		s.needFull = true
		return nil
	}
	job = &reportedJob{identity: identity}
	s.jobs[number] = job
	return job
}

func (s *Session) applyStatus(status *nodev1.JobStatus, news *gathered) {
	job := s.reported(status.GetNumber(), status.GetIdentity())
	if job == nil || job.delivered {
		return // unknown, or its result says more
	}
	before := job.status.GetUsage().GetCpu()
	if job.status == nil {
		before = job.identity.GetResources().GetCpu()
	}
	if cpu := status.GetUsage().GetCpu(); status.GetUsage() != nil && cpu != before {
		s.counted = append(s.counted, &nodev1.CpuLimit{Number: status.GetNumber(), Cpu: cpu})
	}
	job.status = status
	news.jobs[status.GetNumber()] = true
}

func (s *Session) applyResult(result *nodev1.JobResult, news *gathered) {
	job := s.reported(result.GetNumber(), result.GetIdentity())
	if job == nil || job.delivered {
		return
	}
	job.delivered = true
	delete(news.jobs, result.GetNumber())
	if result.GetIdentity() == nil {
		result = withIdentity(result, job.identity)
	}
	news.results = append(news.results, result)
}

// report sorts what was gathered.
func (s *Session) report(news *gathered) Report {
	report := Report{First: news.first, Full: news.full, Finished: news.results, Lost: news.lost, Node: news.node}
	numbers := make([]uint64, 0, len(news.jobs))
	for number := range news.jobs {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	for _, number := range numbers {
		job := s.jobs[number]
		report.Jobs = append(report.Jobs, statusWithIdentity(job.status, job.identity))
	}
	slices.SortFunc(report.Finished, func(a, b *nodev1.JobResult) int { return compareNumbers(a.GetNumber(), b.GetNumber()) })
	slices.Sort(report.Lost)
	report.Lost = slices.Compact(report.Lost)
	if report.Full {
		report.Running = s.Running()
	}
	return report
}

// Running returns the numbers of the jobs that count as the node's: those in the picture
// without a result, and those whose start it has not seen, in order.
func (s *Session) Running() []uint64 {
	var numbers []uint64
	for number, job := range s.jobs {
		if !job.delivered {
			numbers = append(numbers, number)
		}
	}
	for _, orders := range [][]pendingOrder{s.pending, s.queued} {
		for _, p := range orders {
			if start := p.order.GetStart(); start != nil {
				numbers = append(numbers, start.GetIdentity().GetNumber())
			}
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// Unacknowledged returns, in order, the numbers of jobs whose results were delivered and whose
// acknowledgement the node has not received.
func (s *Session) Unacknowledged() []uint64 {
	var numbers []uint64
	for number, job := range s.jobs {
		if job.delivered {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// Job returns the last reported state of a job, with its identity, and whether its result has
// been delivered; nil if the job is not in the picture.
func (s *Session) Job(number uint64) (status *nodev1.JobStatus, finished bool) {
	job := s.jobs[number]
	if job == nil || job.status == nil {
		return nil, job != nil && job.delivered
	}
	return statusWithIdentity(job.status, job.identity), job.delivered
}

// AskFull makes the next response request a full report.
func (s *Session) AskFull() { s.needFull = true }

// Answer is the content of a response besides orders.
type Answer struct {
	Skipped     nodev1.SkipReason
	SkipMessage string
	// Next is when the node should report again; zero means by the settings.
	Next time.Duration
	// MinSpare is how much must be free for a report out of turn; nil means never.
	MinSpare *nodev1.Amounts
	// Settings are set if they have changed.
	Settings *Settings
	// Holds reports whether the scheduler will hold the next heartbeat, so that the node should send it soon.
	Holds bool
}

// IsIdle reports whether a response has nothing to say to the node: there are no orders, whether sent or not, no
// request for a full report and no accounted CPU limits.
func (s *Session) IsIdle() bool {
	return len(s.pending) == 0 && len(s.queued) == 0 && !s.needFull && len(s.counted) == 0
}

// Respond answers the request with this sequence number. The response has all unacknowledged
// orders, then all that are queued and released.
func (s *Session) Respond(sequence uint64, answer Answer) *nodev1.HeartbeatResponse {
	room := max(s.maxOrders-len(s.pending), 0)
	more := false
	s.queued = slices.DeleteFunc(s.queued, func(p pendingOrder) bool {
		switch {
		case p.after > s.released:
			return false
		case room == 0:
			more = true
			return false
		}
		room--
		s.pending = append(s.pending, p)
		return true
	})

	response := &nodev1.HeartbeatResponse{
		Session: s.id.message(), Sequence: sequence, NeedFull: s.needFull, CpuLimitsCounted: s.counted,
		SchedulingSkipped: answer.Skipped, SkipMessage: answer.SkipMessage, NextHeartbeatUs: Micros(answer.Next),
		MinSpareResources: answer.MinSpare, More: more, Holds: answer.Holds,
	}
	if answer.Settings != nil {
		response.Settings = answer.Settings.message()
	}
	if len(s.pending) == 0 {
		return response
	}
	response.Orders = make([]*nodev1.Order, len(s.pending))
	table := map[*nodev1.JobSpec]uint32{}
	for i, p := range s.pending {
		response.Orders[i] = p.numbered(s.seen+uint64(i)+1, table, response)
	}
	return response
}

// numbered is the order as a response carries it. It does not modify messages shared with
// earlier responses, because those might be being encoded.
func (p pendingOrder) numbered(number uint64, table map[*nodev1.JobSpec]uint32, response *nodev1.HeartbeatResponse) *nodev1.Order {
	start := p.order.GetStart()
	if start == nil {
		return &nodev1.Order{Number: number, Order: p.order.Order}
	}
	index, ok := table[p.spec]
	if !ok {
		index = uint32(len(response.Specs))
		table[p.spec] = index
		response.Specs = append(response.Specs, p.spec)
	}
	return &nodev1.Order{Number: number, Order: &nodev1.Order_Start{Start: &nodev1.StartOrder{
		Identity: start.GetIdentity(), Environment: start.GetEnvironment(), Restore: start.GetRestore(), Spec: index,
	}}}
}
