package server

import (
	"encoding/json"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/resource"
)

// take carries out the core's decisions: orders to nodes, rows, events, records for
// readers.
func (t *term) take() {
	for {
		for i := range t.out.Stopped {
			t.stopped(&t.out.Stopped[i])
		}
		for i := range t.out.Ended {
			t.ended(&t.out.Ended[i])
		}
		for i := range t.out.Stopped {
			if s := &t.out.Stopped[i]; s.Timeout == 0 {
				t.archiveStopped(s)
			}
		}
		for i := range t.out.Started {
			t.started(&t.out.Started[i])
		}
		for _, id := range t.out.TakenBack {
			t.open.rows.Delete.Jobs = append(t.open.rows.Delete.Jobs, store.Job{Number: uint64(id)})
			if job := t.jobs[id]; job != nil {
				t.enterEnd(t.operations[job.Operation], job, ledger.End{NotBegun: true}, ledger.Aborted, nil, false)
			}
			t.removeJob(id)
		}
		for _, id := range t.out.FailRunning {
			t.failRunning(id)
		}
		for i := range t.out.Operations {
			t.changed(&t.out.Operations[i])
		}
		for i := range t.out.Gangs {
			t.assembled(&t.out.Gangs[i])
		}
		for _, m := range t.out.Moved {
			t.markDirty(m.Operation)
		}
		for _, id := range t.out.Changed {
			if op := t.operations[id]; op != nil {
				op.stale = true
				t.markDirty(id)
			}
		}
		t.out.Reset()
		if len(t.later) == 0 {
			t.enterUsage()
			return
		}
		ends := t.later
		t.later = nil
		t.happens(&core.ReportInput{Finished: ends})
	}
}

// markDirty notes that the rows of an operation are out of date.
func (t *term) markDirty(id core.OperationID) {
	if t.operations[id] != nil {
		t.dirty[id] = changedOperation
	}
}

// markProgress notes that the progress of an operation is out of date.
func (t *term) markProgress(id core.OperationID) {
	if t.operations[id] != nil {
		t.dirty[id] = max(t.dirty[id], changedProgress)
	}
}

// started orders a node to start a job.
func (t *term) started(s *core.Started) {
	op, node := t.operations[s.Operation], t.nodeList[s.Node]
	number, taskIndex := uint64(s.Job), s.TaskIndex
	job := &Job{
		Number: s.Job, ID: guid.OfJob(number), Operation: s.Operation, JobRef: s.JobRef,
		TaskName: op.record.Spec.Tasks[s.Task].Name, Tree: t.slots.names[s.Tree], Node: node.record.Name, State: "waiting",
		Start: t.now, Resources: s.Resources, Usage: s.Resources, Stage: s.Stage.String(), node: s.Node,
	}
	identity := &nodev1.JobIdentity{
		Number: number, Operation: int32(s.Operation), OperationId: op.record.ID.String(), Task: s.Task, TaskName: job.TaskName,
		Cookie: s.Cookie, Index: s.Index, TaskIndex: &taskIndex, GangIncarnation: s.Incarnation, Tree: int32(s.Tree), TreeName: job.Tree,
		StartTimeUs: nodeproto.ToMicros(t.now), Resources: nodeproto.ToAmounts(s.Resources), JobId: job.ID.String(), Stage: uint32(s.Stage),
		WaitTimeoutUs: s.WaitTimeout.Microseconds(),
	}
	if job.Reserve = t.reserveOfStarted(s); job.Reserve != nil {
		identity.Reserve = reserveMessage(job.Reserve)
	}
	identity.Proof = t.proofs.of(identity, job.Node)
	t.putJob(job)
	t.storeRunning(job)
	t.touched[s.Operation] = true
	if !op.begun {
		op.begun = true
		t.tell(news{kind: newsBegun, operation: s.Operation})
	}
	t.enterFirstStart(op, job.Tree)
	count(t.server.counters.jobsStarted[:], int(s.Stage))
	if err := t.ordersTo(node).Start(identity, op.spec(int(s.Task)), t.jobEnvironment(op, job), op.kept[work{s.Task, s.Cookie}].message()); err != nil {
		t.server.log.Error("a job cannot be ordered", "job", job.ID, "node", node.record.Name, "error", err)
		node.session.AskFull()
	}
	if t.server.settings().JobStarts {
		t.event(store.Event{Type: "job_started", Operation: int32(s.Operation), Job: number, Tree: job.Tree, Node: job.Node, Pool: op.pool(job.Tree)},
			fact{"stage", job.Stage}, fact{"task", job.TaskName}, fact{"resources", json.RawMessage(t.runningDocuments(job).resources)})
	}
}

// storeRunning stores a job that a node is to run, so that a successor knows it before
// the node reports. The order is sent after that.
func (t *term) storeRunning(job *Job) {
	documents := t.runningDocuments(job)
	t.open.rows.Put.Jobs = append(t.open.rows.Put.Jobs, store.Job{
		Number: uint64(job.Number), Operation: int32(job.Operation), Task: job.TaskName, Cookie: job.Cookie, Type: t.operations[job.Operation].record.Type,
		Node: job.Node, Tree: job.Tree, State: "running", StartTime: job.Start,
		Resources: documents.resources, Attributes: documents.attributes,
	})
}

// runningJobs are the documents in the rows of running jobs, and all that they depend on. Jobs of
// one task mostly have the same.
type runningJobs struct {
	incarnation             uint32
	stage                   string
	holds                   resource.Amounts
	userFactor, proxyFactor float64
	resources, attributes   []byte
}

// runningDocuments returns the documents in the row of a running job. Nothing changes them afterwards.
func (t *term) runningDocuments(job *Job) *runningJobs {
	r := &t.running
	var user, proxy float64
	if job.Reserve != nil {
		user, proxy = job.Reserve.UserFactor, job.Reserve.ProxyFactor
	}
	if r.attributes == nil || r.incarnation != job.Incarnation || r.stage != job.Stage || r.holds != job.Resources || r.userFactor != user || r.proxyFactor != proxy {
		*r = runningJobs{incarnation: job.Incarnation, stage: job.Stage, holds: job.Resources, userFactor: user, proxyFactor: proxy}
		r.resources = amountsDocument(job.Resources)
		r.attributes = mustJSON(jobAttributes{Incarnation: job.Incarnation, Stage: job.Stage, Holds: &job.Resources, UserFactor: user, ProxyFactor: proxy})
	}
	return r
}

// spec returns the job specification that nodes get for a task; all of its jobs share
// it.
func (o *activeOperation) spec(task int) *nodev1.JobSpec {
	if more := len(o.record.Spec.Tasks) - len(o.specs); more > 0 { // an external operation gets tasks while it runs
		o.specs = append(o.specs, make([]*nodev1.JobSpec, more)...)
	}
	if o.specs[task] == nil {
		o.specs[task] = jobSpec(o.record.Spec, task, o.record)
		signIn(o.specs[task], o.account)
	}
	return o.specs[task]
}

// pool returns the operation's pool in a tree.
func (o *activeOperation) pool(tree string) string {
	for _, p := range o.record.Places {
		if p.Tree == tree {
			return p.Pool
		}
	}
	return ""
}

// jobEnvironment returns the environment variables that differ between jobs.
func (t *term) jobEnvironment(op *activeOperation, job *Job) []*nodev1.Variable {
	return []*nodev1.Variable{
		{Name: "YT_POOL_TREE", Value: job.Tree},
		{Name: "WEIR_POOL", Value: op.pool(job.Tree)},
	}
}

// stopped orders a node to end a job. It does not wait for a job that has already ended
// for the core.
func (t *term) stopped(s *core.Stopped) {
	node := t.nodeList[s.Node]
	job := t.jobAt(s)
	reason := s.Reason.String()
	var preemptedFor *nodev1.PreemptedFor
	if s.For != core.NoOperation {
		preemptedFor = &nodev1.PreemptedFor{Operation: int32(s.For)}
		if other := t.operations[s.For]; other != nil {
			preemptedFor.OperationId = other.record.ID.String()
		}
	}
	if node.session != nil && node.session.Confirmed() {
		if s.Timeout > 0 && t.isInterruptible(job) {
			t.ordersTo(node).Interrupt(&nodev1.InterruptOrder{
				Number: uint64(s.Job), TimeoutUs: s.Timeout.Microseconds(), Reason: s.Preemption.String(), PreemptedFor: preemptedFor,
				AbortReason: reason,
			})
		} else if never := t.ordersTo(node).Abort(&nodev1.AbortOrder{Number: uint64(s.Job), AbortReason: reason, PreemptedFor: preemptedFor}); never && s.Timeout > 0 {
			// No result will come: the core gets the end of the job as soon as this
			// round is over.
			t.later = append(t.later, core.Finished{Job: s.Job, State: core.JobAborted, Reason: s.Reason})
		}
	}
	if job != nil {
		stopping := *job
		stopping.State, stopping.Stopping = "aborting", reason
		t.putJob(&stopping)
	}
	if s.Preemption != 0 || s.For != core.NoOperation {
		t.preempted(s, job)
	}
}

// jobAt returns the job that a node is to stop, or nil if the node has no such job: a
// node that claims another node's job is ordered to stop it, and the job itself
// continues.
func (t *term) jobAt(s *core.Stopped) *Job {
	if job := t.jobs[s.Job]; job != nil && job.node == s.Node {
		return job
	}
	return nil
}

// archiveStopped stores a job that its controller has stopped together with all other
// jobs of its operation. A revived controller need not replay this end.
func (t *term) archiveStopped(s *core.Stopped) {
	job := t.jobAt(s)
	if job == nil {
		return
	}
	op := t.operations[job.Operation]
	t.enterEnd(op, job, ledger.End{NotBegun: job.ExecStart.IsZero()}, ledger.Aborted, nil, false)
	t.removeJob(s.Job)
	if op == nil {
		return
	}
	t.tellJobEnd(job, false)
	pool := op.pool(job.Tree)
	// The snapshot in this commit includes it.
	op.ends++
	t.open.rows.Put.Jobs = append(t.open.rows.Put.Jobs, store.Job{
		Number: uint64(job.Number), Operation: int32(job.Operation), Sequence: op.ends, Task: job.TaskName, Cookie: job.Cookie, Type: op.record.Type,
		Node: job.Node, Tree: job.Tree, State: "aborted", AbortReason: s.Reason.String(), StartTime: job.Start, FinishTime: t.now,
		Resources: amountsDocument(job.Resources), Attributes: mustJSON(jobAttributes{Incarnation: job.Incarnation, Stage: job.Stage, Pool: pool}),
	})
	t.event(store.Event{
		Type: "job_aborted", Operation: int32(job.Operation), Job: uint64(job.Number), Tree: job.Tree, Node: job.Node, Pool: pool,
	}, fact{"reason", s.Reason.String()}, fact{"ran_ms", t.now.Sub(job.Start).Milliseconds()}, fact{"task", job.TaskName})
	t.server.counters.jobsEnded[core.JobAborted].Add(1)
	count(t.server.counters.jobsAborted[:], int(s.Reason))
}

// isInterruptible reports whether a job has a signal that asks it to stop.
func (t *term) isInterruptible(job *Job) bool {
	if job == nil {
		return false
	}
	op := t.operations[job.Operation]
	return op != nil && op.record.Spec.Tasks[job.Task].Value.InterruptionSignal.Value() != ""
}

// preempted logs a preemption: the job, its resources, and the operation that it was
// preempted for.
func (t *term) preempted(s *core.Stopped, job *Job) {
	facts := []fact{
		{"reason", s.Preemption.String()}, {"abort_reason", s.Reason.String()}, {"class", s.Class.String()},
		{"resources", amountsFact(s.Held)}, {"timeout_ms", s.Timeout.Milliseconds()},
	}
	e := store.Event{Type: "job_preempted", Operation: int32(s.Operation), Job: uint64(s.Job), Node: t.nodeList[s.Node].record.Name}
	if job != nil {
		e.Tree = job.Tree
		facts = append(facts, fact{"ran_ms", t.now.Sub(job.Start).Milliseconds()})
		if op := t.operations[job.Operation]; op != nil {
			e.Pool = op.pool(job.Tree)
		}
	}
	forPool := ""
	if other := t.operations[s.For]; s.For != core.NoOperation && other != nil {
		forPool = other.pool(e.Tree)
		facts = append(facts, fact{"preempted_for", other.record.ID.String()}, fact{"preempted_for_pool", forPool})
	}
	if s.Limiter != "" {
		facts = append(facts, fact{"limiter", s.Limiter})
	}
	t.event(e, facts...)
	t.server.counters.preemptions.Add(1)
	t.server.counters.preemption(s.Preemption, e.Tree, e.Pool, forPool)
	t.enterPreemption(s, job, e.Pool, forPool)
}

// failRunning asks the jobs of an operation that exceeded its time limit to fail.
func (t *term) failRunning(id core.OperationID) {
	op := t.operations[id]
	timeout := op.record.Spec.TimeLimitJobFailTimeout.Value()
	for _, job := range t.jobsOf(id) {
		if node := t.nodeList[job.node]; node.session != nil && node.session.Confirmed() {
			t.ordersTo(node).Abort(&nodev1.AbortOrder{
				Number: uint64(job.Number), AbortReason: "operation_failed", FailGracefully: true, TimeoutUs: timeout.Microseconds(),
			})
		}
	}
}

// jobAttributes are what a job's row has beside its columns. They suffice to replay the
// job's end.
type jobAttributes struct {
	Incarnation uint32             `json:"incarnation,omitempty"`
	End         string             `json:"end,omitempty"`
	Failure     *operation.Failure `json:"failure,omitempty"`
	Stage       string             `json:"stage,omitempty"`
	Pool        string             `json:"pool,omitempty"`
	ExecStart   time.Time          `json:"exec_start,omitzero"`
	ExitCode    *int32             `json:"exit_code,omitempty"`
	Usage       *operation.Usage   `json:"usage,omitempty"`
	NotBegun    bool               `json:"not_begun,omitempty"`
	Holds       *resource.Amounts  `json:"holds,omitempty"` // for running jobs only, as are the next two
	UserFactor  float64            `json:"user_factor,omitempty"`
	ProxyFactor float64            `json:"proxy_factor,omitempty"`
	CPU         *CPUHistory        `json:"cpu_history,omitempty"`
	GPUs        []string           `json:"gpu_devices,omitempty"`
	Artifacts   *ArtifactState     `json:"artifacts,omitempty"`
}

var jobStates = [...]string{core.JobCompleted: "completed", core.JobFailed: "failed", core.JobAborted: "aborted", core.JobInterrupted: "completed"}

// ended stores the end of a job.
func (t *term) ended(e *core.Ended) {
	op := t.operations[e.Operation]
	if op == nil {
		return
	}
	op.ends++
	t.touched[e.Operation] = true
	if e.State != core.JobCompleted {
		t.held.stir() // its work waits again
	}
	if e.State == core.JobFailed && !op.hasFailedJobs {
		op.hasFailedJobs = true
		t.markDirty(e.Operation)
	}
	job := t.jobs[e.Job]
	if job == nil {
		job = &Job{Number: e.Job, Operation: e.Operation, JobRef: e.JobRef, TaskName: op.record.Spec.Tasks[e.Task].Name, Start: t.now}
	} else {
		t.tellJobEnd(job, e.State == core.JobCompleted)
	}
	attributes := jobAttributes{
		Incarnation: e.Incarnation, End: endNames[e.State], Stage: job.Stage, Pool: op.pool(job.Tree), ExecStart: job.ExecStart,
		Usage: e.Usage, NotBegun: e.NotBegun, CPU: job.CPU.archived(t.now.Sub(job.Start)), GPUs: job.GPUs,
	}
	if e.State == core.JobFailed {
		attributes.Failure = &e.Failure
	}
	row := store.Job{
		Number: uint64(e.Job), Operation: int32(e.Operation), Sequence: op.ends, Task: job.TaskName, Cookie: e.Cookie, Type: op.record.Type,
		Node: job.Node, Tree: job.Tree, State: jobStates[e.State], StartTime: job.Start, FinishTime: t.now,
		Resources: amountsDocument(job.Resources),
	}
	if e.State == core.JobAborted {
		row.AbortReason = e.Reason.String()
	}
	if result := t.results[e.Job]; result != nil {
		t.describeResult(&row, &attributes, result)
	}
	row.Attributes = mustJSON(attributes)
	t.open.rows.Put.Jobs = append(t.open.rows.Put.Jobs, row)
	t.enterEnd(op, job, ledger.End{Done: e.State == core.JobCompleted || e.State == core.JobInterrupted, NotBegun: e.NotBegun},
		outcomeOf(e.State, e.Reason), e.Usage, e.State == core.JobAborted && e.Reason == operation.AbortResourceOverdraft)
	t.removeJob(e.Job)
	t.event(store.Event{
		Type: "job_" + row.State, Operation: row.Operation, Job: row.Number, Tree: row.Tree, Node: row.Node, Pool: attributes.Pool,
	}, fact{"reason", row.AbortReason}, fact{"ran_ms", row.FinishTime.Sub(row.StartTime).Milliseconds()}, fact{"task", row.Task})
	t.server.counters.jobsEnded[e.State].Add(1)
	if e.State == core.JobAborted {
		count(t.server.counters.jobsAborted[:], int(e.Reason))
	}
	if limit := t.server.settings().SnapshotJobs; limit > 0 && op.ends-op.position >= limit {
		op.stale = true
		t.markDirty(e.Operation)
	}
}

var endNames = [...]string{core.JobCompleted: "completed", core.JobFailed: "failed", core.JobAborted: "aborted", core.JobInterrupted: "interrupted"}

// describeResult adds the node's report to a row.
func (t *term) describeResult(row *store.Job, attributes *jobAttributes, result *nodev1.JobResult) {
	row.Statistics = statisticsDocument(result.GetStatistics())
	if result.GetError() != nil {
		row.Error = errorDocument(result.GetError())
	}
	if at := result.GetTimings().GetFinishedUs(); at != 0 {
		// Nodes' clocks differ: a job must not end in the future, or before it started.
		finish := nodeproto.FromMicros(at)
		if finish.After(row.StartTime) && finish.Before(row.FinishTime) {
			row.FinishTime = finish
		}
	}
	if at := result.GetTimings().GetExecStartedUs(); at != 0 {
		if attributes.ExecStart.IsZero() {
			t.server.counters.jobStartLatency.observe(nodeproto.FromMicros(at).Sub(row.StartTime))
		}
		attributes.ExecStart = nodeproto.FromMicros(at)
	}
	attributes.GPUs = result.GetGpuDevices()
	attributes.Artifacts = artifactsState(result.GetArtifacts())
	if result.ExitCode != nil {
		attributes.ExitCode = result.ExitCode
	}
	for _, out := range []struct {
		kind   string
		stream nodev1.Stream
		output *nodev1.Output
	}{{"stderr", nodev1.Stream_STREAM_STDERR, result.GetStderr()}, {"stdout", nodev1.Stream_STREAM_STDOUT, result.GetStdout()}} {
		text := outputText(out.output)
		if out.output.GetUploaded() || len(text) == 0 {
			continue
		}
		if out.kind == "stderr" {
			row.StderrSize = int64(len(text))
		}
		t.open.rows.Put.JobOutputs = append(t.open.rows.Put.JobOutputs, store.JobOutput{
			Job: row.Number, Kind: out.kind, Operation: row.Operation, Written: t.now, Data: text,
		})
	}
	if result.GetStderr().GetUploaded() {
		row.StderrSize = result.GetStderr().GetSize()
	}
}

// changed records that an operation entered a state.
func (t *term) changed(c *core.OperationChange) {
	op := t.operations[c.Operation]
	if op == nil {
		return
	}
	t.markDirty(c.Operation)
	t.held.stir()
	if c.State == operation.Pending {
		if c.Waiting != "" {
			record := *op.record
			record.Waiting = append(record.Waiting[:len(record.Waiting):len(record.Waiting)], c.Waiting)
			op.record = &record
			t.event(store.Event{Type: "operation_pending", Operation: int32(c.Operation), Pool: c.Waiting})
		}
		return
	}
	op.stale = true
	if c.State.IsFinished() {
		n := news{kind: newsEnded, operation: c.Operation}
		if c.State == operation.Completed {
			n.kind = newsCompleted
		}
		t.tell(n)
	}
	kind := "operation_" + c.State.String()
	facts := op.facts()
	if c.Error != nil {
		facts = append(facts, fact{"error", c.Error})
	}
	e := store.Event{Type: kind, Operation: int32(c.Operation)}
	places := op.record.Places
	if now := t.core.PlacesOf(c.Operation); len(now) > 0 { // the record of a new operation has none yet
		places = now
	}
	if len(places) > 0 {
		e.Tree, e.Pool = places[0].Tree, places[0].Pool
	}
	t.event(e, facts...)
	if c.State.IsFinished() {
		op.final = c.Last
		t.finish(op, c)
	}
}

// facts are what notifications of an operation tell.
func (o *activeOperation) facts() []fact {
	facts := []fact{{"operation", o.record.ID.String()}, {"user", o.record.User}, {"title", o.record.Spec.Title.Value()}}
	if targets := o.record.Spec.Notify.Value(); len(targets) > 0 {
		facts = append(facts, fact{"notify", targets})
	}
	return facts
}

// assembled logs that a gang starts, or that it steps aside because its jobs found no room in time.
func (t *term) assembled(a *core.Assembled) {
	t.server.counters.gangAssembly[a.Result].observe(t.now.Sub(a.Since))
	op := t.operations[a.Operation]
	if op == nil || a.Result == scheduling.GangChanged {
		return
	}
	kind := "gang_started"
	facts := []fact{
		{"jobs", a.Members}, {"needed", a.Needed}, {"preempted", a.Victims}, {"assembled_ms", t.now.Sub(a.Since).Milliseconds()},
	}
	if a.Result == scheduling.GangTimedOut {
		kind = "gang_stepped_aside"
		facts = append(facts, fact{"reason", a.Result.String()}, fact{"aside_ms", a.Aside.Sub(t.now).Milliseconds()})
	}
	tree := t.slots.names[a.Tree]
	t.event(store.Event{Type: kind, Operation: int32(a.Operation), Tree: tree, Pool: op.pool(tree)}, facts...)
}

// finish builds the last record of an operation.
func (t *term) finish(op *activeOperation, c *core.OperationChange) {
	record := *op.record
	record.State, record.Result, record.Finish = c.State, c.Error, t.now
	record.Events = c.Last.Life().Events
	record.Waiting = nil
	record.count(c.Last, t.now)
	op.record = &record
	t.endings = append(t.endings, c.Operation)
	t.dropAccount(op)
	t.enterDeparture(c.Operation)
	count(t.server.counters.operationsEnded[:], int(c.State))
}

// count copies the job counts from a controller.
func (o *Operation) count(c *operation.Controller, now time.Time) {
	o.Jobs, o.Built = c.Statistics(), now
	o.Tasks = make([]document.Named[operation.Statistics], len(o.Spec.Tasks))
	for i := range o.Spec.Tasks {
		o.Tasks[i] = document.Named[operation.Statistics]{Name: o.Spec.Tasks[i].Name, Value: c.TaskStatistics(i)}
	}
	o.Progress = controllerProgress(c)
}

func (t *term) putJob(job *Job) {
	t.jobs[job.Number] = job
	t.server.jobs.put(job.Number, job)
}

// removeJob removes a job whose end is in the open rows. Readers find it until they are
// on disk.
func (t *term) removeJob(id core.JobID) {
	if job := t.jobs[id]; job != nil {
		last := *job
		last.ended = true
		t.server.jobs.put(id, &last)
	}
	delete(t.jobs, id)
	t.dropUploadsOf(id)
	t.server.live.jobEnded(id)
	t.open.published = append(t.open.published, func(store.Receipt) { t.server.jobs.remove(id) })
}
