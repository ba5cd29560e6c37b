package orchid

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// storedJobAttributes are the attributes of a finished job that have no columns.
type storedJobAttributes struct {
	Incarnation uint32    `json:"incarnation"`
	End         string    `json:"end"`
	Stage       string    `json:"stage"`
	Pool        string    `json:"pool"`
	ExecStart   time.Time `json:"exec_start"`
	ExitCode    *int32    `json:"exit_code"`

	CPU  *server.CPUHistory `json:"cpu_history"`
	GPUs []string           `json:"gpu_devices"`

	Artifacts *server.ArtifactState `json:"artifacts"`
}

// Describe writes a job with the named attributes, or with all of them but cpu_history, which is long. It ignores unknown
// names.
func (j *JobView) Describe(v *OperationView, names []string, now time.Time) ([]yson.Entry, error) {
	var entries []yson.Entry
	var err error
	if j.Live != nil {
		entries = append(j.describeLive(v), yson.Pair("cpu_history", cpuHistory(j.Live.CPU.History(now.Sub(j.Live.Start)))))
	} else if entries, err = j.describeRow(v); err != nil {
		return nil, err
	}
	if names == nil {
		return slices.DeleteFunc(entries, func(e yson.Entry) bool { return e.Key == "cpu_history" }), nil
	}
	if slices.Contains(names, "job_id") {
		names = append(slices.Clone(names), "id")
	}
	return slices.DeleteFunc(entries, func(e yson.Entry) bool { return e.Key != "id" && !slices.Contains(names, e.Key) }), nil
}

// common are the attributes that all jobs have.
func (j *JobView) common(v *OperationView) []yson.Entry {
	return []yson.Entry{
		yson.Pair("id", yson.String(j.ID.String())),
		yson.Pair("operation_id", yson.String(v.ID.String())),
		yson.Pair("allocation_id", yson.String(allocationOf(j.ID).String())),
		yson.Pair("type", yson.String(JobType)),
		yson.Pair("state", yson.String(j.State())),
		yson.Pair("address", yson.String(j.Node())),
		yson.Pair("addresses", yson.Map(yson.Pair("default", yson.String(j.Node())))),
		yson.Pair("start_time", wire.Instant(j.Start())),
		yson.Pair("task_name", yson.String(j.Task())),
		yson.Pair("pool_tree", yson.String(j.tree())),
		yson.Pair("has_spec", yson.Boolean(false)),
		yson.Pair("has_competitors", yson.Boolean(false)),
		yson.Pair("job_competition_id", yson.String(j.ID.String())),
		yson.Pair("fail_context_size", yson.Int64(0)),
		yson.Pair("monitoring_descriptor", yson.Entity()),
		yson.Pair("is_stale", yson.Boolean(false)),
		yson.Pair("exec_attributes", yson.Map()),
	}
}

// allocationOf is the allocation of a job: the job's id without the job counter in its top byte.
func allocationOf(job guid.ID) guid.ID {
	job[3] &= 0xffffff
	return job
}

// briefStatistics are a running job's usage, as its node last reported.
func briefStatistics(job *server.Job) yson.Node {
	return yson.Map(
		yson.Pair("user_job_memory", yson.Int64(job.UserMemory)),
		yson.Pair("job_proxy_memory", yson.Int64(job.ProxyMemory)),
		yson.Pair("tmpfs", yson.Int64(job.Tmpfs)),
		yson.Pair("smoothed_cpu", yson.Double(float64(job.SmoothedCPU)/100)))
}

// cpuHistory is a job's CPU over time: limit and usage in cores for steps of equal length, and nothing where they are
// unknown.
func cpuHistory(h *server.CPUHistory) yson.Node {
	list := func(hundredths []int32) yson.Node {
		values := make([]yson.Node, len(hundredths))
		for i, v := range hundredths {
			if values[i] = yson.Entity(); v >= 0 {
				values[i] = yson.Double(float64(v) / 100)
			}
		}
		return yson.List(values...)
	}
	return yson.Map(yson.Pair("step", yson.Int64(h.StepMS)), yson.Pair("limit", list(h.Limit)), yson.Pair("usage", list(h.Usage)))
}

// describeLive writes a running job.
func (j *JobView) describeLive(v *OperationView) []yson.Entry {
	job := j.Live
	pool := ""
	for _, p := range v.Places() {
		if p.Tree == job.Tree {
			pool = p.Pool
		}
	}
	events := []yson.Node{jobEvent("created", job.Start)}
	if !job.ExecStart.IsZero() {
		events = append(events, jobEvent("running", job.ExecStart))
	}
	entries := append(j.common(v),
		yson.Pair("controller_state", yson.String(job.State)),
		yson.Pair("job_cookie", yson.Int64(int64(job.Cookie))),
		yson.Pair("pool", yson.String(pool)),
		yson.Pair("progress", yson.Double(0)),
		yson.Pair("stderr_size", yson.Int64(0)),
		yson.Pair("statistics", statisticsNode(job.Statistics)),
		yson.Pair("brief_statistics", briefStatistics(job)),
		yson.Pair("events", yson.List(events...)),
		yson.Pair("resources", wire.AmountsNode(job.Resources)),
		yson.Pair("resource_usage", wire.AmountsNode(job.Usage)),
		yson.Pair("gpu_devices", wire.Texts(job.GPUs)),
		yson.Pair("scheduling_stage", yson.String(job.Stage)),
		yson.Pair("interruption_info", yson.Map()))
	if r := job.Reserve; r != nil {
		entries = append(entries, yson.Pair("memory_reserve", yson.Map(
			yson.Pair("user_job", yson.Int64(r.User)), yson.Pair("job_proxy", yson.Int64(r.Proxy)),
			yson.Pair("footprint", yson.Int64(r.Footprint)),
			yson.Pair("user_job_factor", yson.Double(r.UserFactor)),
			yson.Pair("job_proxy_factor", yson.Double(r.ProxyFactor)))))
	}
	if job.Stopping != "" {
		entries = append(entries, yson.Pair("abort_reason", yson.String(job.Stopping)))
	}
	return entries
}

// describeRow writes an archived job.
func (j *JobView) describeRow(v *OperationView) ([]yson.Entry, error) {
	row := j.Row
	var own storedJobAttributes
	if len(row.Attributes) > 0 {
		if err := json.Unmarshal(row.Attributes, &own); err != nil {
			return nil, err
		}
	}
	statistics, err := StoredJSON(row.Statistics)
	if err != nil {
		return nil, err
	}
	resources, err := StoredJSON(row.Resources)
	if err != nil {
		return nil, err
	}
	events := []yson.Node{jobEvent("created", row.StartTime)}
	if !own.ExecStart.IsZero() {
		events = append(events, jobEvent("running", own.ExecStart))
	}
	events = append(events, jobEvent(row.State, row.FinishTime))
	progress := 0.0
	if row.State == "completed" {
		progress = 1
	}
	interrupted := yson.Map()
	if own.End == "interrupted" {
		interrupted = yson.Map(yson.Pair("interruption_reason", yson.String("preemption")))
	}
	entries := append(j.common(v),
		yson.Pair("archive_state", yson.String(row.State)),
		yson.Pair("controller_state", yson.String(row.State)),
		yson.Pair("finish_time", wire.Instant(row.FinishTime)),
		yson.Pair("job_cookie", yson.Int64(int64(row.Cookie))),
		yson.Pair("pool", yson.String(own.Pool)),
		yson.Pair("progress", yson.Double(progress)),
		yson.Pair("stderr_size", yson.Int64(row.StderrSize)),
		yson.Pair("statistics", statistics),
		yson.Pair("brief_statistics", yson.Map()),
		yson.Pair("events", yson.List(events...)),
		yson.Pair("resources", resources),
		yson.Pair("gpu_devices", wire.Texts(own.GPUs)),
		yson.Pair("scheduling_stage", yson.String(own.Stage)),
		yson.Pair("interruption_info", interrupted))
	if own.CPU != nil {
		entries = append(entries, yson.Pair("cpu_history", cpuHistory(own.CPU)))
	}
	if a := own.Artifacts; a != nil {
		entries = append(entries, yson.Pair("artifacts", yson.Map(yson.Pair("state", yson.String(a.State)), yson.Pair("count", yson.Int64(int64(a.Count))),
			yson.Pair("reason", yson.String(a.Reason)), yson.Pair("message", yson.String(a.Message)))))
	}
	if own.ExitCode != nil {
		entries = append(entries, yson.Pair("exit_code", yson.Int64(int64(*own.ExitCode))))
	}
	if row.AbortReason != "" {
		entries = append(entries, yson.Pair("abort_reason", yson.String(row.AbortReason)))
	}
	failure, there, err := jobError(row.Error, row.AbortReason)
	if err != nil {
		return nil, err
	}
	if there {
		entries = append(entries, yson.Pair("error", failure))
	}
	return entries, nil
}

// jobError is the error of a job. An aborted job's error carries the reason.
func jobError(stored []byte, reason string) (yson.Node, bool, error) {
	if len(stored) == 0 && reason == "" {
		return yson.Entity(), false, nil
	}
	n := yson.Map(
		yson.Pair("code", yson.Int64(wire.CodeGeneric)), yson.Pair("message", yson.String("Job aborted")),
		yson.Pair("attributes", yson.Map()), yson.Pair("inner_errors", yson.List()))
	if len(stored) > 0 {
		read, err := StoredJSON(stored)
		if err != nil {
			return n, false, err
		}
		n = read
	}
	if reason != "" {
		attributes, _ := n.Get("attributes")
		n = n.With("attributes", attributes.With("abort_reason", yson.String(reason)))
	}
	return n, true, nil
}

func jobEvent(state string, at time.Time) yson.Node {
	return yson.Map(yson.Pair("state", yson.String(state)), yson.Pair("time", wire.Instant(at)))
}

// statisticsNode writes a running job's statistics as a tree by the parts of their paths.
func statisticsNode(list []server.Statistic) yson.Node {
	tree := yson.Map()
	for _, s := range list {
		tree = withStatistic(tree, strings.Split(s.Path, "/"), yson.Map(
			yson.Pair("sum", yson.Int64(s.Sum)), yson.Pair("count", yson.Int64(s.Count)), yson.Pair("min", yson.Int64(s.Min)),
			yson.Pair("max", yson.Int64(s.Max)), yson.Pair("last", yson.Int64(s.Last))))
	}
	return tree
}

func withStatistic(tree yson.Node, path []string, leaf yson.Node) yson.Node {
	if len(path) == 1 {
		return tree.With(path[0], leaf)
	}
	below, there := tree.Get(path[0])
	if !there {
		below = yson.Map()
	}
	return tree.With(path[0], withStatistic(below, path[1:], leaf))
}

// JobType is the type of all jobs.
const JobType = "vanilla"

// JobView is a job as one request sees it: running, or from the archive.
type JobView struct {
	ID        guid.ID
	Operation core.OperationID
	Live      *server.Job
	Row       *store.Job
}

// State is the state of the job, such as running or failed.
func (j *JobView) State() string {
	if j.Live != nil {
		return j.Live.State
	}
	return j.Row.State
}

// Start is when the job was started.
func (j *JobView) Start() time.Time {
	if j.Live != nil {
		return j.Live.Start
	}
	return j.Row.StartTime
}

// Node is the name of the job's node.
func (j *JobView) Node() string {
	if j.Live != nil {
		return j.Live.Node
	}
	return j.Row.Node
}

// Task is the name of the job's task.
func (j *JobView) Task() string {
	if j.Live != nil {
		return j.Live.TaskName
	}
	return j.Row.Task
}

func (j *JobView) tree() string {
	if j.Live != nil {
		return j.Live.Tree
	}
	return j.Row.Tree
}

// Number is the job's key in the store.
func (j *JobView) Number() uint64 {
	if j.Live != nil {
		return uint64(j.Live.Number)
	}
	return j.Row.Number
}

// Finish is when the job ended; zero while it runs.
func (j *JobView) Finish() time.Time {
	if j.Live != nil {
		return time.Time{}
	}
	return j.Row.FinishTime
}
