package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
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

// nodeService is the server's interface for nodes.
type nodeService struct{ *Server }

// NodeService returns the server's interface for nodes.
func (s *Server) NodeService() nodeproto.Service { return nodeService{s} }

// notLeading turns an error into one that redirects a node to the leader.
func (s *Server) notLeading(err error) error {
	if !errors.Is(err, ErrNotLeading) {
		return err
	}
	leader := s.Leader()
	if leader.Address == s.address {
		leader.Address = "" // the request came slightly too early or too late
	}
	return &nodeproto.NotLeaderError{Leader: leader.Address, Epoch: uint64(leader.Epoch)}
}

// Register opens a session.
func (s nodeService) Register(ctx context.Context, _ nodeproto.Peer, request *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error) {
	response, err := askBounded(ctx, s.Server, func(t *term) (*nodev1.RegisterResponse, error) { return t.register(request) })
	if err == nil {
		s.registrations.put(request.GetNode().GetName(), jobNumbers(request.GetReport())) // before the node can know that it is registered
	}
	return response, s.notLeading(err)
}

// jobNumbers returns the numbers of all jobs in a report.
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
		if most := t.server.settings().MaxNodes; len(t.nodeList) >= most {
			return nil, &nodeproto.RefusedError{
				Reason: nodev1.RefusalReason_REFUSAL_REASON_OVERLOAD, Message: fmt.Sprintf("the scheduler knows %d nodes, which is the limit", most),
			}
		}
		node = t.newNode(name)
	}
	record := *node.record
	record.Address, record.Version, record.Cgroups = description.GetAddress(), description.GetSoftwareVersion(), description.GetCgroups()
	record.Isolation, record.DiskQuota = isolationOf(description.GetIsolation()), description.GetDiskQuota()
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
	t.held.replace(node, &nodeproto.MustRegisterError{Reason: "the node has registered again"})
	node.session, node.told, node.retold, node.tags = session, t.nodeSettings(), false, tags
	node.streams = description.GetStreams()
	t.showNode(node, &record)
	t.storeNode(node)
	t.event(store.Event{Type: "node_registered", Node: name, Tree: record.Tree}, fact{"resources", amountsFact(record.Resources)})
	return session.Registered(node.told, record.Tree), nil
}

// refuseTwin refuses an agent that registers under the name of another agent that is alive.
// Otherwise they would take the name from each other, and the jobs of one would run a second
// time. The other agent counts as alive until the core gives its jobs up.
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

// mergeTags returns the tags that node filters match: those of the agent, those of the
// administrators, and the node's name.
func mergeTags(agent, user []string, name string) []string {
	tags := slices.Concat(agent, user, []string{name})
	slices.Sort(tags)
	return slices.Compact(tags)
}

// newNode adds a node that has not appeared in this term.
func (t *term) newNode(name string) *activeNode {
	node := &activeNode{id: core.NodeID(len(t.nodeList)), record: &Node{Name: name}}
	t.nodes[name] = node
	t.nodeList = append(t.nodeList, node)
	return node
}

// addNode adds a node's resources to the core. A banned node keeps its session, so that it
// receives the aborts of its jobs, but it is not in the core.
func (t *term) addNode(node *activeNode, record *Node) error {
	if node.settings.Banned {
		t.happens(&core.NodeLossInput{Node: node.id})
		node.known, record.Tree = false, ""
		return nil
	}
	limits := record.Limits
	if node.settings.TakesNoJobs() || record.Status.JobsDisabled {
		limits = resource.Amounts{}
	}
	if err := t.apply(&core.NodeInput{Node: node.id, Name: record.Name, Resources: limits, Tags: record.Tags}); err != nil {
		return err
	}
	t.denyClasses(node)
	node.known = true
	record.Tree = t.treeOf(node)
	return nil
}

// treeOf returns the name of the pool tree that a node is in, empty if it is in none.
func (t *term) treeOf(node *activeNode) string {
	if tree, in := t.core.NodeTree(node.id); in {
		return t.slots.names[tree]
	}
	return ""
}

// showTreesOfNodes publishes the pool trees that online nodes are in: filters may have changed, or
// nodes have come back.
func (t *term) showTreesOfNodes() {
	for _, node := range t.nodeList {
		if !node.known || !node.record.Online {
			continue
		}
		if tree := t.treeOf(node); tree != node.record.Tree {
			record := *node.record
			record.Tree = tree
			t.showNode(node, &record)
		}
	}
}

func (t *term) showNode(node *activeNode, record *Node) {
	record.NodeSettings = node.settings
	node.record = record
	t.server.nodes.put(record.Name, record)
}

// storedNode is the stored form of a node: the administrators' settings and, once it has
// reported, what it is. From then on all of its jobs are stored too, and a successor need not
// wait for it.
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

// storeNode records that a node is online, so that a successor waits for it.
func (t *term) storeNode(node *activeNode) {
	node.storedAt = t.now
	t.open.rows.Put.Nodes = append(t.open.rows.Put.Nodes, store.Node{
		Address: node.record.Name, Document: mustJSON(node.stored()), LastSeen: t.now,
	})
}

// longestBackoff is the limit of a node's backoff after many errors, as a multiple of the first
// delay.
const longestBackoff = 12

func (t *term) nodeSettings() nodeproto.Settings {
	s := t.server.settings()
	// Nodes that report often also come back soon after a leader has failed.
	usual := nodeproto.DefaultSettings()
	backoff := min(s.HeartbeatPeriod, usual.BackoffMin)
	return nodeproto.Settings{
		HeartbeatPeriod: s.HeartbeatPeriod, HeartbeatSplay: s.HeartbeatSplay,
		BackoffMin: backoff, BackoffMax: min(longestBackoff*backoff, usual.BackoffMax),
	}
}

// Heartbeat processes a report and answers with orders.
func (s nodeService) Heartbeat(ctx context.Context, _ nodeproto.Peer, request *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error) {
	began := time.Now()
	known, err := s.finishedBefore(ctx, request)
	if err != nil {
		return nil, err
	}
	var beat exchange
	_, err = askHow(ctx, s.Server, true, func(t *term) (struct{}, error) {
		busy := time.Now()
		defer func() { s.counters.heartbeatProcessing.observe(time.Since(busy)) }()
		return struct{}{}, t.heartbeat(request, known, &beat)
	})
	if err != nil {
		beat.gone.Store(true)
		return nil, s.notLeading(err)
	}
	s.counters.heartbeat(time.Since(began) - beat.held)
	return beat.response, nil
}

// exchange is a heartbeat between its handler and the loop. The loop writes response and held before it answers the
// request.
type exchange struct {
	response *nodev1.HeartbeatResponse
	held     time.Duration // how long the loop held the answer
	gone     atomic.Bool   // the handler no longer waits
}

// finishedBefore returns the reported jobs that earlier leaders started and that have ended
// according to the store. They are not adopted, whatever the node reports.
func (s nodeService) finishedBefore(ctx context.Context, request *nodev1.HeartbeatRequest) (map[uint64]bool, error) {
	t := s.term.Load()
	if t == nil || !s.holdsLease() {
		return nil, s.notLeading(ErrNotLeading)
	}
	first := nodeproto.JobNumber(t.epoch, 0)
	// A registration takes effect with the first heartbeat.
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

// heartbeat runs on the loop. It builds the response after the node's report is on disk, or at
// once if the store is stalled; in that case the response acknowledges nothing.
func (t *term) heartbeat(request *nodev1.HeartbeatRequest, finished map[uint64]bool, beat *exchange) error {
	node := t.nodes[request.GetNodeName()]
	if node == nil || node.session == nil {
		return &nodeproto.MustRegisterError{Reason: "this leader does not know the node"}
	}
	report, err := node.session.Receive(request)
	if err != nil {
		return err
	}
	t.held.replace(node, &nodeproto.StaleError{Sequence: request.GetSequence()})
	t.receive(node, &report, finished)
	answer := t.schedule(node, &report)
	answer.Holds = request.GetHoldUs() > 0 && answer.Skipped == nodev1.SkipReason_SKIP_REASON_NOT_SKIPPED && !t.reviving && !report.Repeated && !report.More
	holds := t.tellSettings(node, &answer) && answer.Holds
	t.take()
	session, sequence := node.session, request.GetSequence()
	session.Release(t.durable)
	switch {
	case t.stalled():
		answer.Skipped, answer.SkipMessage = nodev1.SkipReason_SKIP_REASON_STORE_UNAVAILABLE, "the store does not answer"
		answer.Holds = false
		t.acknowledgeLater(node, report.Finished)
		fallthrough
	case len(report.Finished) == 0 && !session.Held() && !(holds && session.IsIdle()):
		// The answer contains nothing that a crash could lose, so it need not wait.
		beat.response = session.Respond(sequence, answer)
		t.answerNow = true
	case len(report.Finished) == 0 && !session.Held():
		t.hold(node, request, beat)
	default:
		t.open.published = append(t.open.published, func(store.Receipt) {
			t.acknowledge(session, report.Finished)
			session.Release(t.durable)
			beat.response = session.Respond(sequence, answer)
		})
	}
	return nil
}

// tellSettings adds the settings to an answer if the node may not have them. It reports whether an earlier answer had
// them. Once they differ from those that the node got when it registered, every answer includes them: an answer may
// get lost.
func (t *term) tellSettings(node *activeNode, answer *nodeproto.Answer) (known bool) {
	settings := t.nodeSettings()
	known = settings == node.told
	if node.retold || !known {
		node.retold, node.told, answer.Settings = true, settings, &settings
	}
	return known
}

// ordersTo returns the session of a node for orders that follow from the open batch: they are
// sent when it is on disk.
func (t *term) ordersTo(node *activeNode) *nodeproto.Session {
	node.session.After(t.open.number)
	if node.held != nil {
		t.open.ordered = append(t.open.ordered, node)
	}
	return node.session
}

// acknowledge notifies a node that results are on disk.
func (t *term) acknowledge(session *nodeproto.Session, results []*nodev1.JobResult) {
	numbers := make([]uint64, len(results))
	for i, r := range results {
		numbers[i] = r.GetNumber()
	}
	session.After(t.durable)
	session.Acknowledge(numbers...)
}

// acknowledgeLater acknowledges results when they are on disk, in the next response after that.
func (t *term) acknowledgeLater(node *activeNode, results []*nodev1.JobResult) {
	if session := node.session; len(results) > 0 {
		t.open.published = append(t.open.published, func(store.Receipt) { t.acknowledge(session, results) })
		t.open.ordered = append(t.open.ordered, node)
	}
}

// receive passes a node's report to the core.
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

// nodeChanged processes a change of a node's resources.
func (t *term) nodeChanged(node *activeNode, status *nodev1.NodeStatus) {
	record := *node.record
	record.Online, record.LastSeen, record.RegistrationError = true, t.now, ""
	if status != nil {
		node.denied = status.GetDeniedClasses()
		record.Status = nodeStatusOf(status)
		if limits := record.Status.Limits; limits != nil {
			record.Limits = node.settings.LimitOverrides.Or(*limits)
		}
	}
	if err := t.addNode(node, &record); err != nil {
		record.RegistrationError = err.Error()
	}
	t.showNode(node, &record)
}

// jobReported processes the state of a job, which an earlier leader may have started.
func (t *term) jobReported(node *activeNode, status *nodev1.JobStatus, finished map[uint64]bool) {
	id := core.JobID(status.GetNumber())
	job := t.jobs[id]
	if job != nil && job.node != node.id {
		return // another node's job: this report does not count, and Reconcile has it stopped here
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
		changed.Reserve = reserveOf(reserve)
	}
	changed.ExecStart = nodeproto.FromMicros(status.GetExecStartTimeUs())
	if job.ExecStart.IsZero() && !changed.ExecStart.IsZero() {
		t.server.counters.jobStartLatency.observe(changed.ExecStart.Sub(job.Start))
	}
	changed.UserMemory, changed.ProxyMemory, changed.Tmpfs = status.GetUserJobMemory(), status.GetJobProxyMemory(), status.GetTmpfsUsage()
	changed.SmoothedCPU = status.GetSmoothedCpu()
	changed.GPUs = status.GetGpuDevices()
	if len(status.GetStatistics()) > 0 {
		changed.Statistics = statisticsOf(status.GetStatistics())
	}
	if usage := nodeproto.FromAmounts(status.GetUsage()); status.GetUsage() != nil && usage != job.Usage {
		changed.Usage = usage
		t.happens(&core.JobUsageInput{Job: id, Usage: usage})
	}
	if pinned := nodeproto.FromMicros(status.GetPinnedUntilUs()); !pinned.Equal(job.PinnedUntil) {
		changed.PinnedUntil = pinned
		t.happens(&core.PinInput{Job: id, Until: pinned})
		if info, there := t.core.JobInfo(id); there && info.Stopping == operation.NotAborted && changed.Stopping == operation.AbortPreemption.String() {
			changed.State, changed.Stopping = "running", "" // its owner refuses to stop it
		}
	}
	if changed.State == "running" {
		changed.CPU.observe(t.now.Sub(job.Start), cpuPointOf(changed.Usage[resource.CPU], changed.SmoothedCPU))
	}
	t.putJob(&changed)
}

// adopt adopts a job that an earlier leader started. It returns nil if the job must be stopped.
func (t *term) adopt(node *activeNode, identity *nodev1.JobIdentity, finished map[uint64]bool) *Job {
	number := identity.GetNumber()
	op := t.operations[core.OperationID(identity.GetOperation())]
	if number >= nodeproto.JobNumber(t.epoch, 0) || finished[number] || op == nil || op.record.ID.String() != identity.GetOperationId() {
		return nil
	}
	if !t.proofs.holds(identity, node.record.Name) {
		t.server.log.Warn("a node reports a job that was not assigned to it", "job", identity.GetJobId(), "node", node.record.Name)
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
		Resources: adopted.Resources, Usage: adopted.Resources, Reserve: reserveOf(identity.GetReserve()), Stage: scheduling.Stage(identity.GetStage()).String(), node: node.id,
	}
	t.putJob(job)
	t.storeRunning(job)
	t.touched[job.Operation] = true
	t.server.counters.adopted.Add(1)
	return job
}

// resultReported processes the end of a job. If the core does not know the job, the result is
// only acknowledged: it is in the store, or it is no loss. The same holds for the result of
// another node's job.
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

// unfit returns why a node gets no jobs, apart from how busy the scheduler is.
func (t *term) unfit(node *activeNode) nodev1.SkipReason {
	status := node.session.Status()
	switch {
	case t.reviving:
		return nodev1.SkipReason_SKIP_REASON_REVIVING
	case node.settings.Banned:
		return nodev1.SkipReason_SKIP_REASON_BANNED
	case status.GetDraining():
		return nodev1.SkipReason_SKIP_REASON_DRAINING
	case status.GetJobsDisabled() || node.settings.TakesNoJobs():
		return nodev1.SkipReason_SKIP_REASON_JOBS_DISABLED
	case t.treeOf(node) == "":
		return nodev1.SkipReason_SKIP_REASON_NO_TREE
	}
	return nodev1.SkipReason_SKIP_REASON_NOT_SKIPPED
}

// schedule gives a node work, unless there is a reason not to.
func (t *term) schedule(node *activeNode, report *nodeproto.Report) nodeproto.Answer {
	skip := t.unfit(node)
	switch {
	case skip != nodev1.SkipReason_SKIP_REASON_NOT_SKIPPED:
	case report.Repeated || report.More:
		// It comes back at once.
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
		// This is temporary and not the node's fault. The node comes back soon, without the
		// growing delay that it applies when it is refused.
		return nodeproto.Answer{Next: min(time.Second, t.server.settings().HeartbeatPeriod)}
	}
	return nodeproto.Answer{Skipped: skip}
}

// overload reports whether so many requests wait that nodes get no work for now. It also
// updates the alert and the event log.
func (t *term) overload() bool {
	waiting := len(t.requests)
	over := waiting > t.server.settings().SoftQueue
	if over != t.overloaded {
		t.overloaded, t.overloadedSince = over, t.now
		message := ""
		if over {
			message = fmt.Sprintf("%d requests wait: nodes report, but get no new jobs", waiting)
		}
		t.server.alerts.set(AlertOverload, message)
		t.event(store.Event{Type: "overload"}, fact{"began", over}, fact{"waiting", waiting})
	}
	return over
}
