package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weirhq/weir/internal/node/cache"
	"github.com/weirhq/weir/internal/node/image"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/cpumonitor"
	"github.com/weirhq/weir/internal/value/resource"
)

// job is a job on the node, from its order to the acknowledgement of its result.
type job struct {
	number   uint64
	dir      string
	identity *nodev1.JobIdentity
	given    resource.Amounts // by the scheduler
	state    *jobproxy.State  // nil until the proxy has reported one
	result   *nodev1.JobResult
	launched bool
	// waiting are orders that arrived before the proxy was ready.
	waiting []jobproxy.Order
	ending  bool     // this node or an order is ending it
	queued  bool     // it waits for room
	uid     uint32   // the user id that it has taken; zero if none
	gpus    []string // the ids of its GPUs
	readers readers  // of its output
	// released means that its processes have ended and its resources are free, while its files are being kept.
	released bool
	// restore is the archive of an earlier attempt's files, nil if there is none.
	restore *nodev1.Content
	// preparing ends the preparation of its image; nil if there is none.
	preparing context.CancelFunc
	// layers are the files that its root is made of, or the archive that its image is in; none for an image of a registry or of the
	// node, and for the programs of the node.
	layers []*nodev1.Content
	// auth is how its user signs in to the registry of its image. It is in no file.
	auth *nodev1.RegistryAuth
	// archives are the directories that it brings along.
	archives []*nodev1.File
	// files are the contents of the cache that it uses. stop ends their fetching; nil while none are fetched.
	files []*cache.Content
	stop  func(jobproxy.Order)
}

// hasEnded reports whether the job has no processes any more.
func (j *job) hasEnded() bool { return j.released || j.result != nil }

// requested is the memory that the node counts for the job.
func (j *job) requested() int64 {
	if j.hasEnded() {
		return 0
	}
	requested := j.given[resource.Memory]
	if j.state != nil {
		requested = max(requested, j.state.RequestedMemory)
	}
	return requested
}

// uses is the memory that the job uses in fact.
func (j *job) uses() int64 {
	if j.state == nil || j.hasEnded() {
		return 0
	}
	return j.state.UserMemory + j.state.TmpfsUsage + j.state.ProxyMemory
}

// holds is what the job holds on the node.
func (j *job) holds() resource.Amounts {
	if j.hasEnded() {
		return resource.Amounts{}
	}
	held := j.given
	held[resource.Memory] = j.requested()
	if j.state != nil && j.state.CPULimit > 0 {
		held[resource.CPU] = j.state.CPULimit
	}
	return held
}

// restore finds the jobs that the previous incarnation of the agent left.
func (a *Agent) restore(ctx context.Context) ([]nodeproto.RestoredJob, error) {
	found, err := jobproxy.Sweep(ctx, a.root, a.Driver)
	if err != nil {
		a.Log.Error("not everything could be cleared up", "error", err)
	}
	var restored []nodeproto.RestoredJob
	for _, f := range found {
		if f.Err != nil {
			a.Log.Error("a job could not be cleared up", "job", filepath.Base(f.Dir), "error", f.Err)
			continue
		}
		description, err := jobproxy.ReadDescription(f.Dir)
		if err != nil {
			a.Log.Error("a job is not known", "job", filepath.Base(f.Dir), "error", err)
			if !f.Alive {
				err = jobproxy.Remove(ctx, f.Dir, a.Driver)
			}
			if err != nil {
				a.Log.Error("a job could not be removed", "job", filepath.Base(f.Dir), "error", err)
			}
			continue
		}
		identity := &nodev1.JobIdentity{}
		if err := proto.Unmarshal(description.Identity, identity); err != nil {
			return nil, fmt.Errorf("job %s: identity: %w", description.JobID, err)
		}
		j := &job{number: identity.GetNumber(), dir: f.Dir, identity: identity, given: nodeproto.FromAmounts(identity.GetResources()), launched: true}
		if state, err := jobproxy.ReadState(f.Dir); err == nil {
			j.state = state
		}
		if c := description.Credential; c != nil {
			j.uid, a.uids.taken[c.UID] = c.UID, true
		}
		a.keepGPUs(j, description)
		a.holdFiles(j, description)
		a.jobs[j.number] = j
		job := nodeproto.RestoredJob{Status: j.statusMessage()}
		job.Status.Identity = identity
		if f.Result != nil {
			// Large output and artifacts are uploaded first, as for a job that ends now: the job's watcher finds that it has ended.
			if result := a.resultMessage(j, f.Result); description.Artifacts == nil && a.inline(j, result) {
				j.result, job.Result = result, result
				a.freeGPUs(j)
			} else if description.Artifacts != nil {
				j.released = true
				a.freeGPUs(j)
			}
			job.Status = j.statusMessage()
			job.Status.Identity = identity
		}
		if j.result == nil {
			a.keepImage(description)
		}
		restored = append(restored, job)
	}
	if err := a.uids.inspect(); err != nil { // the ids of jobs that run are taken by now
		return nil, err
	}
	a.Log.Info("jobs of an earlier life", "count", len(restored))
	return restored, nil
}

// carryOut carries out the scheduler's orders.
func (a *Agent) carryOut(orders *nodeproto.Orders) {
	for _, number := range orders.Acknowledged {
		if j := a.jobs[number]; j != nil {
			delete(a.jobs, number)
			j.releaseFiles()
			a.work(func() {
				a.remove(j)
				a.post(func() { a.uids.free(j.uid) })
			})
		}
	}
	for i := range orders.Start {
		a.start(&orders.Start[i])
	}
	for _, order := range orders.Interrupt {
		a.order(order.GetNumber(), jobproxy.Order{
			Command: jobproxy.Interrupt, Reason: order.GetAbortReason(), Message: order.GetReason(),
			Timeout: jobproxy.Duration(nodeproto.Duration(order.GetTimeoutUs())),
		})
	}
	for _, order := range orders.Abort {
		command := jobproxy.Abort
		if order.GetFailGracefully() {
			command = jobproxy.Fail
		}
		a.order(order.GetNumber(), jobproxy.Order{
			Command: command, Reason: order.GetAbortReason(), Message: order.GetMessage(),
			Timeout: jobproxy.Duration(nodeproto.Duration(order.GetTimeoutUs())),
		})
	}
	for _, order := range orders.Open {
		a.openStream(order)
	}
	if orders.PruneImages {
		a.pruneImages()
	}
	a.tellNode()
}

// remove deletes the files of a job whose result is durable.
func (a *Agent) remove(j *job) {
	if j.dir == "" {
		return
	}
	j.readers.await()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), time.Minute)
	defer cancel()
	if err := jobproxy.Remove(ctx, j.dir, a.Driver); err != nil {
		a.Log.Error("a job could not be removed", "job", j.identity.GetJobId(), "error", err)
	}
}

// start launches the proxy of a job.
func (a *Agent) start(s *nodeproto.Start) {
	j := &job{number: s.Identity.GetNumber(), identity: s.Identity, given: nodeproto.FromAmounts(s.Identity.GetResources()), restore: s.Restore, layers: s.Spec.GetImage().GetLayers()}
	j.auth = s.Spec.GetImage().GetAuth()
	j.archives = slices.DeleteFunc(slices.Clone(s.Spec.GetFiles()), func(f *nodev1.File) bool { return f.GetArchive() == nil })
	a.jobs[j.number] = j
	description, err := a.describe(s)
	if err == nil {
		err = a.describeImage(description, s.Spec.GetImage())
	}
	if err == nil {
		err = a.isolate(j, description, s.Spec)
		a.limitDisk(j, description)
	}
	if err != nil {
		a.finish(j, cannotStart(j, err))
		return
	}
	if reason := a.refusal(); reason != "" {
		a.finish(j, notStarted(j, reasonJobsDisabled, reason))
		return
	}
	if j.identity.GetWaitTimeoutUs() > 0 && !a.hasRoom(j) {
		a.enqueue(j, description)
		return
	}
	a.launch(j, description)
}

// begin starts a job whose files are there, as soon as its image is ready.
func (a *Agent) begin(j *job, description *jobproxy.Description) {
	if description.Image != nil {
		a.prepareImage(j, description)
		return
	}
	a.launchPrepared(j, description)
}

// launchPrepared starts a job.
func (a *Agent) launchPrepared(j *job, description *jobproxy.Description) {
	a.work(func() {
		a.launches <- struct{}{}
		dir, err := a.launchIn(description)
		<-a.launches
		a.post(func() {
			if err != nil {
				a.checkHealth()
				a.finish(j, cannotStart(j, err))
				return
			}
			j.dir, j.launched = dir, true
			orders := j.waiting
			j.waiting = nil
			a.watch(j)
			for _, order := range orders {
				a.order(j.number, order)
			}
		})
	})
}

// launch fetches the files of a job and starts it.
func (a *Agent) launch(j *job, description *jobproxy.Description) {
	if err := a.giveGPUs(j, description); err != nil {
		a.finish(j, notStarted(j, reasonJobsDisabled, err.Error()))
		return
	}
	if !needsContents(description) && j.restore == nil && len(j.archives) == 0 {
		a.begin(j, description)
		return
	}
	a.fetchFiles(j, description)
}

// launchIn starts a job in the node's supervisor, or with a proxy of its own.
func (a *Agent) launchIn(description *jobproxy.Description) (dir string, err error) {
	if a.supervisor == nil {
		return jobproxy.Launch(a.Proxy, a.root, description)
	}
	ctx, cancel := context.WithTimeout(a.ctx, supervisorPatience)
	defer cancel()
	return a.supervisor.Launch(ctx, description)
}

// supervisorPatience is how long a new supervisor may take to adopt the jobs of its predecessor.
const supervisorPatience = time.Minute

// isAdopted reports whether a job whose supervisor is gone has another one, which the agent starts if there is none.
func (a *Agent) isAdopted(dir string) bool {
	if _, err := jobproxy.ReadResult(dir); a.supervisor == nil || err == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(a.ctx, supervisorPatience)
	defer cancel()
	if err := a.supervisor.Ensure(ctx); err != nil {
		a.Log.Error("the supervisor of jobs cannot be started", "error", err)
		return false
	}
	return jobproxy.IsAlive(dir)
}

// reasonNoLocalUser is the abort reason of a job whose user has no account on the node.
const reasonNoLocalUser = "no_local_user"

// reasonNotIsolated is the abort reason of a job that needs more isolation than its node gives.
const reasonNotIsolated = "isolation_unavailable"

// cannotStart is the result of a job whose proxy cannot start. An invalid description is the job's fault.
func cannotStart(j *job, err error) *nodev1.JobResult {
	result := notStarted(j, jobproxy.ProxyFailed, "the job proxy cannot be started: "+err.Error())
	var failed *image.Error
	if errors.As(err, &failed) {
		return imageResult(j, failed)
	}
	if errors.Is(err, errNoLocalUser) {
		result.AbortReason, result.Error.Message = reasonNoLocalUser, err.Error()
	}
	if errors.Is(err, errNoNetworkOfItsOwn) {
		result.AbortReason, result.Error.Message = reasonNotIsolated, err.Error()
	}
	if errors.Is(err, jobproxy.ErrInvalid) {
		result.State, result.AbortReason = nodev1.JobState_JOB_STATE_FAILED, ""
	}
	return result
}

// notStarted is the result of a job that this node could not start.
func notStarted(j *job, reason, message string) *nodev1.JobResult {
	return &nodev1.JobResult{
		Number: j.number, Identity: j.identity, State: nodev1.JobState_JOB_STATE_ABORTED, AbortReason: reason,
		Error:   &nodev1.Error{Code: jobproxy.CodeNotPrepared, Message: message},
		Timings: &nodev1.Timings{FinishedUs: nodeproto.ToMicros(time.Now())},
	}
}

// taskIndexOf is the number of a job in its task. A scheduler of an earlier version does not count
// jobs by task; its jobs have their cookie.
func taskIndexOf(identity *nodev1.JobIdentity) int64 {
	if identity.TaskIndex == nil {
		return int64(identity.GetCookie())
	}
	return int64(identity.GetTaskIndex())
}

// describe builds the description that a job's proxy needs.
func (a *Agent) describe(s *nodeproto.Start) (*jobproxy.Description, error) {
	identity, spec := s.Identity, s.Spec
	packed, err := proto.Marshal(identity)
	if err != nil {
		return nil, err
	}
	d := &jobproxy.Description{
		Version: jobproxy.DescriptionVersion, JobID: identity.GetJobId(), OperationID: identity.GetOperationId(),
		TaskName: identity.GetTaskName(), Tree: identity.GetTreeName(), Node: a.Description.GetName(),
		Index: int64(identity.GetIndex()), TaskIndex: taskIndexOf(identity), Cookie: int64(identity.GetCookie()),
		Identity: packed, AcceptedAt: time.Now(), Command: spec.GetCommand(), Stdin: spec.GetStdin(),
		MaxStderrSize: spec.GetMaxStderrSize(), KeepStdout: spec.GetKeepStdout(), MaxStdoutSize: spec.GetMaxStdoutSize(),
		RedirectStdoutToStderr: spec.GetRedirectStdoutToStderr(), CPULimit: float64(spec.GetCpuLimit()) / 100,
		SetContainerCPULimit: spec.GetSetContainerCpuLimit(), TimeLimit: jobproxy.Duration(nodeproto.Duration(spec.GetJobTimeLimitUs())),
		PrepareTimeLimit: jobproxy.Duration(nodeproto.Duration(spec.GetPrepareTimeLimitUs())),
		Interruption:     jobproxy.Interruption{Signal: spec.GetInterruption().GetSignal(), RootProcessOnly: spec.GetInterruption().GetRootProcessOnly()},
		Container:        jobproxy.Container{Parent: a.Driver.Parent(), Mode: a.Driver.Mode(), ProcessLimit: a.Rules.processLimit(spec.GetCpuLimit())},
		Memory:           a.memoryOf(identity, spec),
	}
	d.DiskRequest = spec.GetDiskSpaceLimit()
	if a.Rules.Disk.LimitJobs {
		d.Disk = jobproxy.Disk{Space: cmp.Or(spec.GetDiskSpaceLimit(), a.Rules.Disk.JobSize), Files: spec.GetInodeLimit()}
	}
	if a.Rules.KernelLimit > 0 && spec.GetMemoryLimit() > 0 && !a.Rules.IgnoreLimit {
		d.Container.MemoryLimit = spec.GetMemoryLimit() + a.Rules.KernelLimit
	}
	if spec.RestartExitCode != nil {
		code := int(spec.GetRestartExitCode())
		d.RestartExitCode = &code
	}
	for _, v := range slices.Concat(spec.GetEnvironment(), s.Environment) {
		d.Environment = append(d.Environment, jobproxy.Variable{Name: v.GetName(), Value: v.GetValue()})
	}
	if check := spec.GetGpuCheck(); check != nil && spec.GetGpuLimit() > 0 {
		d.GPUCheck = append([]string{check.GetPath()}, check.GetArgs()...)
	}
	for _, v := range spec.GetTmpfsVolumes() {
		d.Tmpfs = append(d.Tmpfs, jobproxy.Tmpfs{Path: v.GetPath(), Size: v.GetSize()})
	}
	for _, f := range spec.GetFiles() {
		if f.GetArchive() != nil {
			continue // a directory, which is unpacked before the job starts
		}
		file := jobproxy.File{Path: f.GetPath(), Executable: f.GetExecutable(), Content: f.GetContent(), Source: f.GetNodePath()}
		if len(f.GetSha256()) > 0 {
			if file, err = contentFile(f); err != nil {
				return nil, err
			}
		} else if file.Source != "" {
			if file.Root = a.allowing(file.Source); file.Root == "" {
				return nil, fmt.Errorf("%w: file_paths: %s is a file of the node, and its operator has not allowed it (node/files/allow); "+
					"put the file into the tree, or start the job with weir run --file", jobproxy.ErrInvalid, file.Source)
			}
		}
		d.Files = append(d.Files, file)
	}
	if kept := spec.GetArtifacts(); kept != nil {
		d.KeepSandbox = true
		d.Artifacts = &jobproxy.Artifacts{
			Patterns: kept.GetPatterns(), OnlyCompleted: kept.GetOnlyCompleted(), MaxSize: kept.GetMaxSize(), MaxCount: kept.GetMaxCount(),
			OfAborted: kept.GetOfAborted(),
		}
	}
	if m := spec.GetCpuMonitor(); m != nil {
		d.CPUMonitor = &cpumonitor.Options{
			EnableReclaim: m.GetEnableCpuReclaim(), CheckPeriod: nodeproto.Duration(m.GetCheckPeriodUs()), StartDelay: nodeproto.Duration(m.GetStartDelayUs()),
			SmoothingFactor: m.GetSmoothingFactor(), RelativeUpperBound: m.GetRelativeUpperBound(), RelativeLowerBound: m.GetRelativeLowerBound(),
			IncreaseCoefficient: m.GetIncreaseCoefficient(), DecreaseCoefficient: m.GetDecreaseCoefficient(),
			VoteWindowSize: int(m.GetVoteWindowSize()), VoteDecisionThreshold: int(m.GetVoteDecisionThreshold()), MinCPULimit: m.GetMinCpuLimit(),
		}
	}
	return d, nil
}

// allowing returns the allowed directory that a path of the node is in, empty if there is none.
func (a *Agent) allowing(name string) string {
	for _, parent := range a.Files {
		if inside, err := filepath.Rel(parent, name); err == nil && filepath.IsLocal(inside) {
			return parent
		}
	}
	return ""
}

func (a *Agent) memoryOf(identity *nodev1.JobIdentity, spec *nodev1.JobSpec) jobproxy.Memory {
	reserve := identity.GetReserve()
	ahead := spec.GetAheadMemoryReserve()
	if ahead == 0 {
		ahead = a.Rules.Ahead
	}
	limit := spec.GetMemoryLimit()
	if a.Rules.IgnoreLimit {
		limit = 0
	}
	return jobproxy.Memory{
		Limit: limit, ExcludeMapped: !spec.GetIncludeMemoryMappedFiles(),
		WatchdogPeriod: jobproxy.Duration(a.Rules.WatchdogPeriod), Allocation: identity.GetResources().GetMemory(), Ahead: ahead,
		UserReserve: reserve.GetUserJob(), ProxyEstimate: reserve.GetJobProxyEstimate(), ProxyReserve: reserve.GetJobProxy(),
		Footprint: reserve.GetFootprint(), ProxyOvercommit: spec.GetJobProxyMemoryOvercommitLimit(),
		AbortOnOverdraft: a.Rules.AbortOnOverdraft || spec.GetAlwaysAbortOnReserveOverdraft(), OOMScoreAdj: a.Rules.OOMScoreAdj,
	}
}

// watch follows a job's proxy until the job ends.
func (a *Agent) watch(j *job) {
	dir := j.dir
	a.work(func() {
		a.follow(j, dir)
		for a.ctx.Err() == nil && a.isAdopted(dir) {
			a.follow(j, dir)
		}
		if a.ctx.Err() != nil {
			return
		}
		result, err := jobproxy.Recover(a.ctx, dir, a.Driver)
		for err != nil && a.ctx.Err() == nil {
			a.Log.Error("a job cannot be ended", "job", j.identity.GetJobId(), "error", err)
			select {
			case <-a.ctx.Done():
			case <-time.After(time.Second):
			}
			result, err = jobproxy.Recover(a.ctx, dir, a.Driver)
		}
		if err == nil {
			a.ended(j, result)
		}
	})
}

// follow posts every state of a job to the loop until its proxy is gone.
func (a *Agent) follow(j *job, dir string) {
	connection, err := jobproxy.Attach(dir)
	if err != nil {
		return
	}
	stop := context.AfterFunc(a.ctx, func() { _ = connection.Close() }) // the job does not notice
	defer stop()
	if err := connection.Watch(); err != nil {
		return
	}
	for {
		state, err := connection.Next()
		if err != nil {
			return
		}
		a.post(func() { a.changed(j, state) })
	}
}

// order passes an order on to a job's proxy.
func (a *Agent) order(number uint64, order jobproxy.Order) {
	j := a.jobs[number]
	switch {
	case j == nil || j.result != nil:
		return
	case j.queued: // it has no process yet
		a.finish(j, notStarted(j, order.Reason, order.Message))
		return
	case j.preparing != nil:
		j.preparing()
		a.finish(j, notStarted(j, order.Reason, order.Message))
		return
	}
	j.ending = j.ending || order.Command == jobproxy.Abort
	if j.stop != nil {
		j.stop(order)
		return
	}
	if !j.launched {
		j.waiting = append(j.waiting, order)
		return
	}
	a.work(func() {
		err := deliver(j.dir, order)
		// A job whose supervisor is being replaced takes the order from the next one. Otherwise it has ended, and its
		// watcher reports it.
		for errors.Is(err, jobproxy.ErrGone) && a.ctx.Err() == nil && a.isAdopted(j.dir) {
			select {
			case <-a.ctx.Done():
			case <-time.After(adoptionPause):
			}
			err = deliver(j.dir, order)
		}
		if err != nil && !errors.Is(err, jobproxy.ErrGone) {
			a.Log.Warn("a job proxy does not take an order", "job", j.identity.GetJobId(), "order", order.Command, "error", err)
		}
	})
}

// adoptionPause is how long an order waits for the next supervisor before it is tried again.
const adoptionPause = 20 * time.Millisecond

// deliver gives an order to the proxy of a job.
func deliver(dir string, order jobproxy.Order) error {
	connection, err := jobproxy.Attach(dir)
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = connection.Do(order, 10*time.Second)
	return err
}

// changed applies a new state of a job.
func (a *Agent) changed(j *job, state *jobproxy.State) {
	if j.result != nil {
		return
	}
	grew := j.state == nil || state.RequestedMemory > j.state.RequestedMemory
	before := j.holds()
	j.state = state
	a.session.JobChanged(j.statusMessage())
	if grew {
		a.checkMemory(j)
	}
	a.tellNode()
	if j.holds()[resource.CPU] != before[resource.CPU] {
		a.admit()
		a.tellRelease()
	}
}

var phases = map[jobproxy.Phase]nodev1.Phase{
	jobproxy.Preparing: nodev1.Phase_PHASE_PREPARING, jobproxy.Running: nodev1.Phase_PHASE_RUNNING,
	jobproxy.Finishing: nodev1.Phase_PHASE_FINISHING, jobproxy.Finished: nodev1.Phase_PHASE_FINISHING,
}

// statusMessage is the job's status for the scheduler.
func (j *job) statusMessage() *nodev1.JobStatus {
	status := &nodev1.JobStatus{Number: j.number, Phase: nodev1.Phase_PHASE_PREPARING, Usage: nodeproto.ToAmounts(j.holds()), GpuDevices: j.gpus}
	if s := j.state; s != nil {
		status.Phase = phases[s.Phase]
		status.UserJobMemory, status.JobProxyMemory, status.TmpfsUsage, status.SmoothedCpu = s.UserMemory, s.ProxyMemory, s.TmpfsUsage, s.SmoothedCPU
		status.ExecStartTimeUs = nodeproto.ToMicros(s.Timings.ExecStarted)
		status.InterruptionDeadlineUs = nodeproto.ToMicros(s.InterruptionDeadline)
		status.Statistics = statisticsMessage(s.Statistics)
		if s.InterruptionReason != "" {
			status.Preemption, status.PreemptionReason = nodev1.PreemptionState_PREEMPTION_STATE_INTERRUPTED, s.InterruptionReason
		}
	}
	return status
}

func statisticsMessage(list []jobproxy.Statistic) []*nodev1.Statistic {
	out := make([]*nodev1.Statistic, len(list))
	for i, s := range list {
		out[i] = &nodev1.Statistic{Path: s.Path, Sum: s.Value, Count: 1, Min: s.Value, Max: s.Value, Last: s.Value}
	}
	return out
}

var outcomes = map[jobproxy.Outcome]nodev1.JobState{
	jobproxy.Completed: nodev1.JobState_JOB_STATE_COMPLETED, jobproxy.Failed: nodev1.JobState_JOB_STATE_FAILED,
	jobproxy.Aborted: nodev1.JobState_JOB_STATE_ABORTED, jobproxy.Interrupted: nodev1.JobState_JOB_STATE_INTERRUPTED,
}

// resultMessage is the job's result for the scheduler, without its output.
func (a *Agent) resultMessage(j *job, r *jobproxy.Result) *nodev1.JobResult {
	out := &nodev1.JobResult{
		Number: j.number, Identity: j.identity, State: outcomes[r.Outcome], AbortReason: r.AbortReason, GpuDevices: j.gpus,
		Statistics: statisticsMessage(r.Statistics), Started: !r.Timings.ExecStarted.IsZero() && r.AbortReason != jobproxy.GPUCheckFailed,
		Timings: &nodev1.Timings{
			AcceptedUs: nodeproto.ToMicros(r.Timings.Accepted), ExecStartedUs: nodeproto.ToMicros(r.Timings.ExecStarted),
			ExecFinishedUs: nodeproto.ToMicros(r.Timings.ExecFinished), FinishedUs: nodeproto.ToMicros(r.Timings.Finished),
		},
	}
	if r.Error != nil {
		out.Error = errorMessage(r.Error)
	}
	if r.ExitCode != nil {
		code := int32(*r.ExitCode)
		out.ExitCode = &code
	}
	if r.Signal != nil {
		signal := int32(*r.Signal)
		out.Signal = &signal
	}
	return out
}

func errorMessage(e *jobproxy.Error) *nodev1.Error {
	out := &nodev1.Error{Code: int32(e.Code), Message: e.Message}
	names := make([]string, 0, len(e.Attributes))
	for name := range e.Attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		out.Attributes = append(out.Attributes, &nodev1.Attribute{Name: name, Value: string(e.Attributes[name])})
	}
	for i := range e.Inner {
		out.InnerErrors = append(out.InnerErrors, errorMessage(&e.Inner[i]))
	}
	return out
}

// maxOutput bounds what the agent sends of one stream; the proxy keeps no more than the specification allows.
const maxOutput = 64 << 20

// maxUploads is how many jobs upload large output at once, one piece at a time each: it bounds the agent's memory.
const maxUploads = 4

// streams are the streams of a job, with the names of their files.
var streams = [...]struct {
	name string
	kind nodev1.Stream
	in   func(*nodev1.JobResult) **nodev1.Output
}{
	{"stderr", nodev1.Stream_STREAM_STDERR, func(r *nodev1.JobResult) **nodev1.Output { return &r.Stderr }},
	{"stdout", nodev1.Stream_STREAM_STDOUT, func(r *nodev1.JobResult) **nodev1.Output { return &r.Stdout }},
}

// inline puts small output into a result. It returns false, and adds nothing, if some output must be uploaded first.
func (a *Agent) inline(j *job, result *nodev1.JobResult) bool {
	limit := nodeproto.DefaultSettings().MaxInlineOutput
	for _, stream := range streams {
		kept, err := jobproxy.FindOutput(j.dir, stream.name, maxOutput)
		switch {
		case err != nil || kept.Size == 0:
		case kept.Len() > limit:
			return false
		default:
			output, err := jobproxy.ReadOutput(j.dir, stream.name, maxOutput)
			if err == nil {
				*stream.in(result) = &nodev1.Output{Head: output.Head, Tail: output.Tail, Size: output.Size, Skipped: output.Skipped}
			}
		}
	}
	return true
}

// ended uploads large output and then notifies the loop that the job has ended.
func (a *Agent) ended(j *job, r *jobproxy.Result) {
	result := a.resultMessage(j, r)
	result.Artifacts = a.keepArtifacts(j, r)
	if a.ctx.Err() != nil {
		return // the next incarnation of the agent sends the result
	}
	if !a.inline(j, result) {
		a.uploads <- struct{}{}
		for _, stream := range streams {
			kept, err := jobproxy.FindOutput(j.dir, stream.name, maxOutput)
			if err == nil && kept.Size > 0 && a.upload(j, stream.kind, kept) {
				*stream.in(result) = &nodev1.Output{Size: kept.Size, Skipped: kept.Skipped, Uploaded: true}
			}
		}
		<-a.uploads
		if a.ctx.Err() != nil {
			return // the next incarnation of the agent sends the result
		}
	}
	a.post(func() { a.finish(j, result) })
}

// finish records the end of a job.
func (a *Agent) finish(j *job, result *nodev1.JobResult) {
	j.result, j.queued = result, false
	if result.GetAbortReason() == jobproxy.GPUCheckFailed {
		a.setGPUsAside(j, time.Now())
	}
	a.freeGPUs(j)
	a.releaseImage(j)
	j.releaseFiles()
	if j.restore != nil {
		a.work(func() { _ = os.RemoveAll(a.restoredOf(j)) }) // what is there if the job did not start
	}
	a.session.JobFinished(result)
	a.admit()
	a.tellNode()
}

// upload sends output that is too large for a result, piece by piece, and retries until the scheduler has it. It
// returns false if the agent stops or the output is no longer readable.
func (a *Agent) upload(j *job, stream nodev1.Stream, kept *jobproxy.Kept) bool {
	settings := nodeproto.DefaultSettings()
	total := kept.Len()
	buffer := make([]byte, min(settings.MaxUploadPiece, total))
	for offset := int64(0); offset < total; {
		piece := buffer[:min(int64(len(buffer)), total-offset)]
		if _, err := kept.ReadAt(piece, offset); err != nil {
			a.Log.Error("the output of a job cannot be read", "job", j.identity.GetJobId(), "error", err)
			return false
		}
		response, err := a.Caller.Upload(a.ctx, &nodev1.UploadRequest{
			NodeName: a.Description.GetName(), Incarnation: a.session.Incarnation(), Job: j.number, Stream: stream,
			Offset: offset, Data: piece, Total: total,
		})
		if err == nil {
			offset = min(response.GetNextOffset(), total)
			continue
		}
		select {
		case <-a.ctx.Done():
			return false
		case <-time.After(settings.BackoffMin):
		}
	}
	return true
}
