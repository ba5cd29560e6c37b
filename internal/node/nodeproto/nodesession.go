package nodeproto

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// NodeSession is the node's end: its jobs and results, what the scheduler knows about them,
// and which orders it has carried out. It outlives sessions; there is one per incarnation. The
// package comment has the contract.
//
// The owner calls Register or Heartbeat for the next request, and passes back either the
// response or the failure. A new request abandons the one in flight. Messages passed in or
// returned are not modified afterwards.
type NodeSession struct {
	description *nodev1.NodeDescription
	incarnation uint64
	sequence    uint64
	knownEpoch  uint64
	settings    Settings

	registered bool
	session    SessionID
	ordersSeen uint64
	needFull   bool

	jobs     map[uint64]*nodeJob
	order    []uint64 // keys of jobs, ascending
	revision uint64   // counts changes
	status   *nodev1.NodeStatus
	changed  uint64 // revision of status
	told     uint64 // revision of status that the scheduler has

	flight *flight
}

// nodeJob is a job on the node.
type nodeJob struct {
	identity *nodev1.JobIdentity
	status   *nodev1.JobStatus // without identity; replaced, never modified
	changed  uint64            // revision of status
	told     uint64            // revision of status that the scheduler has
	known    bool              // the scheduler has the identity
	result   *nodev1.JobResult // nil until the job has ended
	reported bool              // the scheduler has the result
}

// flight is the request that awaits an answer.
type flight struct {
	sequence     uint64
	registration bool
	carried      []carried
	status       uint64 // revision of the node's status, zero if it was not carried
}

// carried is what a request reports about one job.
type carried struct {
	job      *nodeJob
	revision uint64
	result   bool
}

// RestoredJob is a job that a starting agent finds: its status with the identity, and the
// result if it has ended.
type RestoredJob struct {
	Status *nodev1.JobStatus
	Result *nodev1.JobResult
}

// Orders are the new orders of a response, to be carried out kind by kind in this order. The
// owner makes the starts and the ended jobs durable before anything else happens to the
// session.
type Orders struct {
	Start []Start
	// Ended are results, with identities, of jobs that arrived and ended without a process.
	// They are reported and acknowledged like others.
	Ended        []*nodev1.JobResult
	Interrupt    []*nodev1.InterruptOrder
	Abort        []*nodev1.AbortOrder
	Acknowledged []uint64 // results that the node may forget
	Open         []*nodev1.OpenStreamOrder
	PruneImages  bool // delete the images that no job uses
}

// Start is a job to start.
type Start struct {
	Identity    *nodev1.JobIdentity
	Spec        *nodev1.JobSpec
	Environment []*nodev1.Variable
	Restore     *nodev1.Content // files of an earlier attempt; nil if there are none
}

// ErrNotAwaited is returned for a response that does not belong to the request in flight. The
// response has changed nothing.
var ErrNotAwaited = errors.New("the response answers no request that is awaited")

// ErrNotRegistered is returned by Heartbeat if there is no session.
var ErrNotRegistered = errors.New("the node is not registered")

// NewNodeSession returns the node's end of a new incarnation. Jobs are those that survived the
// last incarnation; a job without a number is ignored.
func NewNodeSession(description *nodev1.NodeDescription, incarnation uint64, jobs []RestoredJob) *NodeSession {
	n := &NodeSession{description: description, incarnation: incarnation, jobs: map[uint64]*nodeJob{}, settings: DefaultSettings()}
	for _, restored := range jobs {
		identity := restored.Status.GetIdentity()
		if identity.GetNumber() == 0 {
			continue
		}
		n.add(identity, bare(restored.Status)).result = restored.Result
	}
	return n
}

// bare is a status without its identity.
func bare(status *nodev1.JobStatus) *nodev1.JobStatus {
	if status.GetIdentity() == nil {
		return status
	}
	out := proto.CloneOf(status)
	out.Identity = nil
	return out
}

// add adds a job, or returns the existing one.
func (n *NodeSession) add(identity *nodev1.JobIdentity, status *nodev1.JobStatus) *nodeJob {
	number := identity.GetNumber()
	if job := n.jobs[number]; job != nil {
		return job
	}
	n.revision++
	job := &nodeJob{identity: identity, status: status, changed: n.revision}
	n.jobs[number] = job
	at, _ := slices.BinarySearch(n.order, number)
	n.order = slices.Insert(n.order, at, number)
	return job
}

// Describe changes the node's description; the node then registers again.
func (n *NodeSession) Describe(description *nodev1.NodeDescription) {
	n.description = description
	n.leave()
}

// NodeChanged sets the state of the node.
func (n *NodeSession) NodeChanged(status *nodev1.NodeStatus) {
	if n.status != nil && proto.Equal(n.status, status) {
		return
	}
	n.revision++
	n.status, n.changed = status, n.revision
}

// JobChanged sets the state of a job; the identity may be absent. It reports whether there is
// such a job that has not ended. The session itself keeps the preemption mark: a status cannot
// clear it.
func (n *NodeSession) JobChanged(status *nodev1.JobStatus) bool {
	job := n.jobs[status.GetNumber()]
	if job == nil || job.result != nil {
		return false
	}
	status = bare(status)
	if status.GetPreemption() < job.status.GetPreemption() {
		status = proto.CloneOf(status)
		status.Preemption = job.status.GetPreemption()
		status.PreemptionReason = job.status.GetPreemptionReason()
		status.InterruptionDeadlineUs = job.status.GetInterruptionDeadlineUs()
	}
	if !proto.Equal(job.status, status) {
		n.revision++
		job.status, job.changed = status, n.revision
	}
	return true
}

// JobSpared withdraws the preemption mark of a job, which the node refuses to end. A later
// order may end the job.
func (n *NodeSession) JobSpared(number uint64) {
	if job := n.jobs[number]; job != nil && job.result == nil {
		status := proto.CloneOf(job.status)
		status.Preemption, status.PreemptionReason, status.InterruptionDeadlineUs = nodev1.PreemptionState_PREEMPTION_STATE_NONE, "", 0
		n.replace(job, status)
	}
}

// JobFinished sets the result of a job. It reports whether there is such a job that had not
// ended.
func (n *NodeSession) JobFinished(result *nodev1.JobResult) bool {
	job := n.jobs[result.GetNumber()]
	if job == nil || job.result != nil {
		return false
	}
	job.result = result
	return true
}

// Job returns the state of a job with its identity, and its result if it has ended; nil if
// there is no such job.
func (n *NodeSession) Job(number uint64) (*nodev1.JobStatus, *nodev1.JobResult) {
	job := n.jobs[number]
	if job == nil {
		return nil, nil
	}
	return statusWithIdentity(job.status, job.identity), job.result
}

// Jobs returns the numbers of the jobs that are not acknowledged, in order.
func (n *NodeSession) Jobs() []uint64 { return slices.Clone(n.order) }

// Incarnation returns the incarnation of the node.
func (n *NodeSession) Incarnation() uint64 { return n.incarnation }

// Settings returns the scheduler's settings.
func (n *NodeSession) Settings() Settings { return n.settings }

// Registered returns the session and whether there is one.
func (n *NodeSession) Registered() (SessionID, bool) { return n.session, n.registered }

// Urgent reports whether a report should be sent now, ahead of its time: a job has ended and
// the scheduler does not know.
func (n *NodeSession) Urgent() bool {
	for _, job := range n.jobs {
		if job.result != nil && !job.reported {
			return true
		}
	}
	return false
}

// Register starts a registration. It abandons the request in flight and ends the present
// session.
func (n *NodeSession) Register() *nodev1.RegisterRequest {
	n.leave()
	n.sequence++
	n.flight = &flight{sequence: n.sequence, registration: true}
	report, _ := n.report(true)
	return &nodev1.RegisterRequest{
		Node: n.description, Incarnation: n.incarnation, Sequence: n.sequence,
		ProtocolVersion: Version, Report: report, KnownEpoch: n.knownEpoch,
	}
}

// leave ends the present session: no scheduler knows anything about this node any more.
func (n *NodeSession) leave() {
	n.registered, n.flight, n.ordersSeen, n.needFull = false, nil, 0, false
	n.told = 0
	for _, job := range n.jobs {
		job.told, job.known, job.reported = 0, false, false
	}
}

// Welcome applies the response to a registration.
func (n *NodeSession) Welcome(response *nodev1.RegisterResponse) error {
	if n.flight == nil || !n.flight.registration || response.GetSequence() != n.flight.sequence {
		return ErrNotAwaited
	}
	id := sessionID(response.GetSession())
	if id.Epoch < n.knownEpoch {
		n.flight = nil
		return fmt.Errorf("the scheduler's epoch %d is over: %d has begun", id.Epoch, n.knownEpoch)
	}
	n.registered, n.session, n.knownEpoch = true, id, id.Epoch
	n.settings = SettingsOf(response.GetSettings())
	n.confirm()
	return nil
}

// Heartbeat starts a heartbeat and abandons the request in flight.
func (n *NodeSession) Heartbeat() (*nodev1.HeartbeatRequest, error) {
	if !n.registered {
		return nil, ErrNotRegistered
	}
	n.sequence++
	n.flight = &flight{sequence: n.sequence}
	report, more := n.report(n.needFull)
	return &nodev1.HeartbeatRequest{
		Session: n.session.message(), NodeName: n.description.GetName(), Incarnation: n.incarnation,
		Sequence: n.sequence, OrdersSeen: n.ordersSeen, Report: report, More: more,
	}, nil
}

// report builds a report and records in the flight what it carries. It includes every job that
// the scheduler might not know, even if the job's result has to wait for the next report:
// orders_seen promises that the report shows every job whose start has been received.
func (n *NodeSession) report(full bool) (report *nodev1.Report, more bool) {
	report = &nodev1.Report{Full: full}
	for _, number := range n.order {
		job := n.jobs[number]
		tellResult := job.result != nil && (full || !job.reported)
		if tellResult && len(report.Results) >= n.settings.MaxResultsPerReport {
			tellResult, more = false, true
		}
		tellStatus := full || job.result == nil && job.changed > job.told || !job.known && !tellResult
		if tellStatus {
			status := job.present()
			if full || !job.known {
				status = statusWithIdentity(status, job.identity)
			}
			report.Jobs = append(report.Jobs, status)
		}
		if tellResult {
			result := job.result
			if !job.known && !tellStatus && result.GetIdentity() == nil {
				result = withIdentity(result, job.identity)
			}
			report.Results = append(report.Results, result)
		}
		if tellStatus || tellResult {
			n.flight.carried = append(n.flight.carried, carried{job: job, revision: job.changed, result: tellResult})
		}
	}
	if n.status != nil && (full || n.changed > n.told) {
		report.Node, n.flight.status = n.status, n.changed
	}
	return report, more
}

// present is the status of a job: finished if there is a result.
func (j *nodeJob) present() *nodev1.JobStatus {
	if j.result == nil || j.status.GetPhase() == nodev1.Phase_PHASE_FINISHED {
		return j.status
	}
	status := proto.CloneOf(j.status)
	status.Phase = nodev1.Phase_PHASE_FINISHED
	return status
}

// confirm records that the scheduler has what the request in flight carried.
func (n *NodeSession) confirm() {
	for _, c := range n.flight.carried {
		c.job.known = true
		c.job.told = max(c.job.told, c.revision)
		c.job.reported = c.job.reported || c.result
	}
	n.told = max(n.told, n.flight.status)
	n.flight = nil
}

// Failed records that a request ended in an error. It ignores a request that is no longer in
// flight.
func (n *NodeSession) Failed(sequence uint64, err error) {
	if n.flight == nil || n.flight.sequence != sequence {
		return
	}
	n.flight = nil
	var (
		register *MustRegisterError
		refused  *RefusedError
		stale    *StaleError
	)
	switch {
	case errors.As(err, &register), errors.As(err, &refused):
		n.leave()
	case errors.As(err, &stale):
		n.sequence = max(n.sequence, stale.Sequence)
	}
}

// Receive applies the response to a heartbeat and returns the new orders. With an error other
// than ErrNotAwaited the session is over, but the returned orders still count as received.
func (n *NodeSession) Receive(now time.Time, response *nodev1.HeartbeatResponse) (Orders, error) {
	if n.flight == nil || n.flight.registration || response.GetSequence() != n.flight.sequence || sessionID(response.GetSession()) != n.session {
		return Orders{}, ErrNotAwaited
	}
	n.confirm()
	n.needFull = response.GetNeedFull()
	if response.GetSettings() != nil {
		n.settings = SettingsOf(response.GetSettings())
	}
	var taken Orders
	for _, order := range response.GetOrders() {
		number := order.GetNumber()
		if number <= n.ordersSeen {
			continue
		}
		if number != n.ordersSeen+1 {
			err := fmt.Errorf("order %d follows %d", number, n.ordersSeen)
			n.leave()
			return taken, err
		}
		n.ordersSeen = number
		n.take(now, order, response.GetSpecs(), &taken)
	}
	return taken, nil
}
