package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/resource"
)

// nodeService is the server as its nodes see it.
type nodeService struct{ *Server }

// NodeService returns the server as its nodes see it.
func (s *Server) NodeService() nodeproto.Service { return nodeService{s} }

// notLeading makes an error one that sends a node to the leader.
func (s *Server) notLeading(err error) error {
	if !errors.Is(err, ErrNotLeading) {
		return err
	}
	leader := s.Leader()
	if leader.Address == s.address {
		leader.Address = "" // it is a moment too early or too late
	}
	return &nodeproto.NotLeaderError{Leader: leader.Address, Epoch: uint64(leader.Epoch)}
}

// Register opens a session.
func (s nodeService) Register(ctx context.Context, _ nodeproto.Peer, request *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error) {
	s.registrations.put(request.GetNode().GetName(), jobNumbers(request.GetReport()))
	response, err := ask(ctx, s.Server, func(t *term) (*nodev1.RegisterResponse, error) { return t.register(request) })
	return response, s.notLeading(err)
}

// jobNumbers are the numbers of all jobs in a report.
func jobNumbers(report *nodev1.Report) (numbers []uint64) {
	for _, j := range report.GetJobs() {
		numbers = append(numbers, j.GetNumber())
	}
	for _, r := range report.GetResults() {
		numbers = append(numbers, r.GetNumber())
	}
	return numbers
}

func (t *term) register(request *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error) {
	description := request.GetNode()
	name := description.GetName()
	node := t.nodes[name]
	var old *nodeproto.Session
	if node != nil {
		old = node.session
	}
	if err := old.Admits(request); err != nil {
		return nil, err
	}
	if known := request.GetKnownEpoch(); known > t.epoch {
		return nil, t.overtaken(name, known)
	}
	if err := t.refuseTwin(node, request); err != nil {
		return nil, err
	}
	session, err := nodeproto.NewSession(nodeproto.SessionID{Epoch: t.epoch, Number: t.sessions + 1}, request, 0)
	if err != nil {
		return nil, err
	}
	if node == nil {
		node = t.newNode(name)
	}
	record := *node.record
	record.Address, record.Version, record.Cgroups = description.GetAddress(), description.GetSoftwareVersion(), description.GetCgroups()
	record.Resources = nodeproto.FromAmounts(description.GetResources())
	tags := description.GetTags()
	record.Tags = mergeTags(tags, node.settings.UserTags, name)
	record.Online, record.LastSeen, record.Registered, record.RegistrationError = true, t.now, t.now, ""
	node.settings.Agent = description.GetAgentId()
	record.Limits = node.settings.LimitOverrides.Or(record.Resources)
	if err := t.addNode(node, &record); err != nil {
		record.Online, record.RegistrationError = false, err.Error()
		t.showNode(node, &record)
		t.server.alerts.raise(AlertNodesRefused, err.Error())
		var two *core.TwoTreesError
		if errors.As(err, &two) {
			return nil, &nodeproto.RefusedError{Reason: nodev1.RefusalReason_REFUSAL_REASON_TWO_TREES, Message: err.Error(), Trees: two.Trees}
		}
		return nil, err
	}
	t.sessions++
	node.session, node.told, node.retold, node.tags = session, t.nodeSettings(), false, tags
	t.showNode(node, &record)
	t.storeNode(node)
	t.event(store.Event{Type: "node_registered", Node: name, Tree: record.Tree}, fact{"resources", amountsFact(record.Resources)})
	return session.Registered(node.told, record.Tree), nil
}

// refuseTwin refuses an agent under the name of another one that lives: they would
// take the name from each other, and the jobs of one would run a second time. The
// other lives until the core gives its jobs up.
func (t *term) refuseTwin(node *activeNode, request *nodev1.RegisterRequest) error {
	agent := request.GetNode().GetAgentId()
	if node == nil || agent == "" || node.settings.Agent == "" || agent == node.settings.Agent || request.GetReplace() {
		return nil
	}
	name := node.record.Name
	alive := node.session != nil && node.record.Online || t.awaited[name] || node.session == nil && t.core.IsAwaited(node.id)
	if !alive {
		return nil
	}
	seen := node.record.LastSeen
	if node.known {
		seen = t.core.LastSeen(node.id)
	}
	return &nodeproto.RefusedError{Reason: nodev1.RefusalReason_REFUSAL_REASON_NAME_TAKEN, Message: fmt.Sprintf(
		"another agent is registered as node %s and was last seen %v ago; stop that agent, give this one another name, or replace the other one with --replace",
		name, t.now.Sub(seen).Round(time.Second))}
}

// mergeTags are the tags of a node by which filters choose it: its agent's, its
// administrators' and its own name.
func mergeTags(agent, user []string, name string) []string {
	tags := slices.Concat(agent, user, []string{name})
	slices.Sort(tags)
	return slices.Compact(tags)
}

// newNode makes room for a node that has not been heard of in this term.
func (t *term) newNode(name string) *activeNode {
	node := &activeNode{id: core.NodeID(len(t.nodeList)), record: &Node{Name: name}}
	t.nodes[name] = node
	t.nodeList = append(t.nodeList, node)
	return node
}

// addNode makes the core know what a node has. A banned node keeps its session, so
// that it hears of the end of its jobs, but the core does not know it.
func (t *term) addNode(node *activeNode, record *Node) error {
	if node.settings.Banned {
		t.happens(&core.NodeLossInput{Node: node.id})
		node.known, record.Tree = false, ""
		return nil
	}
	limits := record.Limits
	if node.settings.TakesNoJobs() || record.Status.GetJobsDisabled() {
		limits = resource.Amounts{}
	}
	if err := t.apply(&core.NodeInput{Node: node.id, Name: record.Name, Resources: limits, Tags: record.Tags}); err != nil {
		return err
	}
	node.known = true
	record.Tree = ""
	if tree, in := t.core.NodeTree(node.id); in {
		record.Tree = t.slots.names[tree]
	}
	return nil
}

func amountsOf(status *nodev1.NodeStatus) resource.Amounts {
	return nodeproto.FromAmounts(status.GetLimits())
}

func (t *term) showNode(node *activeNode, record *Node) {
	record.NodeSettings = node.settings
	node.record = record
	t.server.nodes.put(record.Name, record)
}

// storedNode is what is written down of a node: what administrators have said, and what
// it is, once it has reported. Then all of its jobs are written down too, and a successor
// need not wait for it.
type storedNode struct {
	NodeSettings
	Reported *reportedNode `json:"reported,omitempty"`
}

type reportedNode struct {
	Limits resource.Amounts `json:"limits"`
	Tags   []string         `json:"tags,omitempty"`
}

func (n *activeNode) stored() storedNode {
	s := storedNode{NodeSettings: n.settings}
	if n.reported {
		s.Reported = &reportedNode{Limits: n.record.Limits, Tags: n.record.Tags}
	}
	return s
}

// storeNode writes down that a node is there, so that a successor waits for it.
func (t *term) storeNode(node *activeNode) {
	node.storedAt = t.now
	t.open.rows.Put.Nodes = append(t.open.rows.Put.Nodes, store.Node{
		Address: node.record.Name, Document: mustJSON(node.stored()), LastSeen: t.now,
	})
}

// longestBackoff is how many times as long as at first a node keeps silent after
// many errors.
const longestBackoff = 12

func (t *term) nodeSettings() nodeproto.Settings {
	s := t.server.settings()
	// Nodes that report often are also back soon when a leader has died.
	usual := nodeproto.DefaultSettings()
	backoff := min(s.HeartbeatPeriod, usual.BackoffMin)
	return nodeproto.Settings{
		HeartbeatPeriod: s.HeartbeatPeriod, HeartbeatSplay: s.HeartbeatSplay,
		BackoffMin: backoff, BackoffMax: min(longestBackoff*backoff, usual.BackoffMax),
	}
}

// Heartbeat takes in a report and answers with orders.
func (s nodeService) Heartbeat(ctx context.Context, _ nodeproto.Peer, request *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error) {
	began := time.Now()
	known, err := s.finishedBefore(ctx, request)
	if err != nil {
		return nil, err
	}
	var response *nodev1.HeartbeatResponse
	_, err = askHow(ctx, s.Server, true, func(t *term) (struct{}, error) {
		busy := time.Now()
		defer func() { s.counters.heartbeatProcessing.observe(time.Since(busy)) }()
		return struct{}{}, t.heartbeat(request, known, &response)
	})
	if err != nil {
		return nil, s.notLeading(err)
	}
	s.counters.heartbeat(time.Since(began))
	return response, nil
}

// finishedBefore finds which jobs of a report, started by earlier leaders, have
// ended according to the store: those are not adopted, whatever the node says.
func (s nodeService) finishedBefore(ctx context.Context, request *nodev1.HeartbeatRequest) (map[uint64]bool, error) {
	t := s.term.Load()
	if t == nil || !s.holdsLease() {
		return nil, s.notLeading(ErrNotLeading)
	}
	first := nodeproto.JobNumber(t.epoch, 0)
	// A registration counts from the first heartbeat on.
	registered, _ := s.registrations.get(request.GetNodeName())
	var numbers []uint64
	for _, number := range slices.Concat(registered, jobNumbers(request.GetReport())) {
		if _, adopted := s.jobs.get(core.JobID(number)); !adopted && number < first {
			numbers = append(numbers, number)
		}
	}
	if len(numbers) == 0 {
		return nil, nil
	}
	slices.Sort(numbers)
	return s.store.EndedJobs(ctx, slices.Compact(numbers))
}

// heartbeat runs on the loop. The response is made when what the node reported is
// on disk, or at once if the store is stalled; then it acknowledges nothing.
func (t *term) heartbeat(request *nodev1.HeartbeatRequest, finished map[uint64]bool, response **nodev1.HeartbeatResponse) error {
	node := t.nodes[request.GetNodeName()]
	if node == nil || node.session == nil {
		return &nodeproto.MustRegisterError{Reason: "this leader does not know the node"}
	}
	report, err := node.session.Receive(request)
	if err != nil {
		return err
	}
	t.receive(node, &report, finished)
	answer := t.schedule(node, &report)
	// Once they differ from what the node heard first, every answer has them: one may get lost.
	if settings := t.nodeSettings(); node.retold || settings != node.told {
		node.retold, answer.Settings = true, &settings
	}
	t.take()
	session, sequence := node.session, request.GetSequence()
	session.Release(t.durable)
	switch {
	case t.stalled():
		answer.Skipped, answer.SkipMessage = nodev1.SkipReason_SKIP_REASON_STORE_UNAVAILABLE, "the store does not answer"
		t.acknowledgeLater(session, report.Finished)
		fallthrough
	case len(report.Finished) == 0 && !session.Held():
		// It tells nothing that could be forgotten: no need to wait.
		*response = session.Respond(sequence, answer)
		t.answerNow = true
	default:
		t.open.published = append(t.open.published, func(store.Receipt) {
			t.acknowledge(session, report.Finished)
			session.Release(t.durable)
			*response = session.Respond(sequence, answer)
		})
	}
	return nil
}

// ordersTo is the session of a node, for orders that follow from what the open batch
// writes: they leave when it is on disk.
func (t *term) ordersTo(node *activeNode) *nodeproto.Session {
	node.session.After(t.open.number)
	return node.session
}

// acknowledge tells a node that results are on disk.
func (t *term) acknowledge(session *nodeproto.Session, results []*nodev1.JobResult) {
	numbers := make([]uint64, len(results))
	for i, r := range results {
		numbers[i] = r.GetNumber()
	}
	session.After(t.durable)
	session.Acknowledge(numbers...)
}

// acknowledgeLater acknowledges results when they are on disk, in whatever
// response comes next.
func (t *term) acknowledgeLater(session *nodeproto.Session, results []*nodev1.JobResult) {
	if len(results) > 0 {
		t.open.published = append(t.open.published, func(store.Receipt) { t.acknowledge(session, results) })
	}
}

// receive tells the core what a node has reported.
func (t *term) receive(node *activeNode, report *nodeproto.Report, finished map[uint64]bool) {
	if report.Node != nil || !node.record.Online {
		t.nodeChanged(node, report.Node)
	}
	if report.First {
		delete(t.awaited, node.record.Name)
		t.server.registrations.remove(node.record.Name)
		defer func() { // with its jobs
			node.reported = true
			t.storeNode(node)
		}()
	}
	for _, job := range report.Jobs {
		t.jobReported(node, job, finished)
	}
	var ends []core.Finished
	for _, result := range report.Finished {
		if end, ok := t.resultReported(node, result, finished); ok {
			ends = append(ends, end)
		}
	}
	for _, number := range report.Lost {
		if job := t.jobs[core.JobID(number)]; job == nil || job.node != node.id {
			continue
		}
		ends = append(ends, core.Finished{Job: core.JobID(number), State: core.JobAborted, Reason: operation.AbortDisappearedFromNode})
	}
	if len(ends) > 0 {
		t.happens(&core.ReportInput{Finished: ends})
	}
	if report.Full {
		running := make([]core.JobID, len(report.Running))
		for i, number := range report.Running {
			running[i] = core.JobID(number)
		}
		t.happens(&core.ReconcileInput{Node: node.id, Running: running})
	}
	t.take()
	clear(t.results)
}

// nodeChanged notes a change of what a node can give.
func (t *term) nodeChanged(node *activeNode, status *nodev1.NodeStatus) {
	record := *node.record
	record.Online, record.LastSeen = true, t.now
	if status != nil {
		record.Status = status
		if limits := nodeproto.FromAmounts(status.GetLimits()); status.GetLimits() != nil {
			record.Limits = node.settings.LimitOverrides.Or(limits)
		}
	}
	if err := t.addNode(node, &record); err != nil {
		record.RegistrationError = err.Error()
	}
	t.showNode(node, &record)
}

// jobReported takes in the state of a job, which an earlier leader may have
// started.
func (t *term) jobReported(node *activeNode, status *nodev1.JobStatus, finished map[uint64]bool) {
	id := core.JobID(status.GetNumber())
	job := t.jobs[id]
	if job != nil && job.node != node.id {
		return // another node's: this one has no say in it, and Reconcile has it stopped here
	}
	if job == nil {
		if job = t.adopt(node, status.GetIdentity(), finished); job == nil {
			if !node.known { // otherwise ReconcileInput has it stopped
				t.ordersTo(node).Abort(&nodev1.AbortOrder{Number: status.GetNumber(), AbortReason: operation.AbortNodeBanned.String()})
			}
			return
		}
	}
	changed := *job
	if changed.State != "aborting" {
		changed.State = "waiting"
		if status.GetPhase() != nodev1.Phase_PHASE_PREPARING {
			changed.State = "running"
		}
	}
	if reserve := status.GetIdentity().GetReserve(); reserve != nil {
		changed.Reserve = reserve
	}
	changed.ExecStart = nodeproto.FromMicros(status.GetExecStartTimeUs())
	if job.ExecStart.IsZero() && !changed.ExecStart.IsZero() {
		t.server.counters.jobStartLatency.observe(changed.ExecStart.Sub(job.Start))
	}
	changed.UserMemory, changed.ProxyMemory, changed.Tmpfs = status.GetUserJobMemory(), status.GetJobProxyMemory(), status.GetTmpfsUsage()
	changed.SmoothedCPU = status.GetSmoothedCpu()
	if len(status.GetStatistics()) > 0 {
		changed.Statistics = status.GetStatistics()
	}
	if usage := nodeproto.FromAmounts(status.GetUsage()); status.GetUsage() != nil && usage != job.Usage {
		changed.Usage = usage
		t.happens(&core.JobUsageInput{Job: id, Usage: usage})
	}
	if changed.State == "running" {
		changed.CPU.observe(t.now.Sub(job.Start), cpuPointOf(changed.Usage[resource.CPU], changed.SmoothedCPU))
	}
	t.putJob(&changed)
}

// adopt takes over a job that an earlier leader started. It returns nil if the
// job has to be stopped.
func (t *term) adopt(node *activeNode, identity *nodev1.JobIdentity, finished map[uint64]bool) *Job {
	number := identity.GetNumber()
	op := t.operations[core.OperationID(identity.GetOperation())]
	if number >= nodeproto.JobNumber(t.epoch, 0) || finished[number] || op == nil || op.record.ID.String() != identity.GetOperationId() {
		return nil
	}
	if !t.proofs.holds(identity, node.record.Name) {
		t.server.log.Warn("a node reports a job that was not given to it", "job", identity.GetJobId(), "node", node.record.Name)
		return nil
	}
	task := slices.IndexFunc(op.record.Spec.Tasks, func(n document.Named[operation.Task]) bool { return n.Name == identity.GetTaskName() })
	adopted := core.Adopted{
		Job: core.JobID(number), Operation: op.record.Number,
		JobRef: operation.JobRef{Task: int32(task), Cookie: identity.GetCookie(), Incarnation: identity.GetGangIncarnation()},
		Node:   node.id, Resources: nodeproto.FromAmounts(identity.GetResources()), Started: nodeproto.FromMicros(identity.GetStartTimeUs()),
		UserFactor: identity.GetReserve().GetUserJobFactor(), ProxyFactor: identity.GetReserve().GetJobProxyFactor(),
	}
	if err := t.apply(&core.AdoptInput{Adopted: adopted}); err != nil {
		t.server.log.Info("a job cannot be adopted", "job", identity.GetJobId(), "node", node.record.Name, "reason", err)
		return nil
	}
	job := &Job{
		Number: adopted.Job, ID: guid.OfJob(number), Operation: adopted.Operation, JobRef: adopted.JobRef, TaskName: identity.GetTaskName(),
		Tree: identity.GetTreeName(), Node: node.record.Name, State: "running", Start: adopted.Started,
		Resources: adopted.Resources, Usage: adopted.Resources, Reserve: identity.GetReserve(), Stage: scheduling.Stage(identity.GetStage()).String(), node: node.id,
	}
	t.putJob(job)
	t.storeRunning(job)
	t.touched[job.Operation] = true
	t.server.counters.adopted.Add(1)
	return job
}

// resultReported takes in the end of a job. What the core does not know is only
// acknowledged: it is in the store, or it is no loss. So is the result of another
// node's job.
func (t *term) resultReported(node *activeNode, result *nodev1.JobResult, finished map[uint64]bool) (core.Finished, bool) {
	id := core.JobID(result.GetNumber())
	job := t.jobs[id]
	if job != nil && job.node != node.id {
		return core.Finished{}, false
	}
	if job == nil {
		if job = t.adopt(node, result.GetIdentity(), finished); job == nil {
			return core.Finished{}, false
		}
	}
	t.results[id] = result
	end := core.Finished{Job: id, Usage: usageOf(result, job, t.now), NotBegun: !result.GetStarted()}
	switch result.GetState() {
	case nodev1.JobState_JOB_STATE_COMPLETED:
		end.State = core.JobCompleted
	case nodev1.JobState_JOB_STATE_FAILED:
		end.State, end.Failure = core.JobFailed, failureOf(result.GetError(), node.record.Name)
	case nodev1.JobState_JOB_STATE_INTERRUPTED:
		end.State = core.JobInterrupted
	default:
		end.State = core.JobAborted
		if err := end.Reason.UnmarshalText([]byte(result.GetAbortReason())); err != nil {
			end.Reason = operation.AbortOther
		}
	}
	return end, true
}

// schedule gives a node work, unless something speaks against it.
func (t *term) schedule(node *activeNode, report *nodeproto.Report) nodeproto.Answer {
	skip := nodev1.SkipReason_SKIP_REASON_NOT_SKIPPED
	status := node.session.Status()
	switch {
	case t.reviving:
		skip = nodev1.SkipReason_SKIP_REASON_REVIVING
	case node.settings.Banned:
		skip = nodev1.SkipReason_SKIP_REASON_BANNED
	case status.GetDraining():
		skip = nodev1.SkipReason_SKIP_REASON_DRAINING
	case status.GetJobsDisabled() || node.settings.TakesNoJobs():
		skip = nodev1.SkipReason_SKIP_REASON_JOBS_DISABLED
	case node.record.Tree == "":
		skip = nodev1.SkipReason_SKIP_REASON_NO_TREE
	case report.Repeated || report.More:
		// It comes again at once.
	case t.overload():
		skip = nodev1.SkipReason_SKIP_REASON_OVERLOAD
	case t.stalled():
		skip = nodev1.SkipReason_SKIP_REASON_STORE_UNAVAILABLE
	default:
		t.beat.Node = node.id
		t.happens(&t.beat)
		return nodeproto.Answer{}
	}
	t.happens(&core.SeenInput{Node: node.id})
	if skip != nodev1.SkipReason_SKIP_REASON_NOT_SKIPPED {
		t.server.counters.skipped.Add(1)
		count(t.server.counters.skippedFor[:], int(skip))
	}
	if skip == nodev1.SkipReason_SKIP_REASON_REVIVING {
		// That is soon over, and nobody's fault: the node comes again in a moment and
		// does not keep away for longer each time, as it does when it is not wanted.
		return nodeproto.Answer{Next: min(time.Second, t.server.settings().HeartbeatPeriod)}
	}
	return nodeproto.Answer{Skipped: skip}
}

// overload says whether so many requests wait that nodes must do without work for
// now, and tells people.
func (t *term) overload() bool {
	waiting := len(t.requests)
	over := waiting > t.server.settings().SoftQueue
	if over != t.overloaded {
		t.overloaded = over
		message := ""
		if over {
			message = fmt.Sprintf("%d requests wait: nodes report, but get no new jobs", waiting)
		}
		t.server.alerts.set(AlertOverload, message)
		t.event(store.Event{Type: "overload"}, fact{"began", over}, fact{"waiting", waiting})
	}
	return over
}
