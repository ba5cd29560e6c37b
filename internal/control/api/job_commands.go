package api

import (
	"errors"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

var _ = register(
	command{name: "list_jobs", run: listJobs},
	command{name: "get_job", run: getJob},
	command{name: "get_job_stderr", output: rawBytes, heavy: true, run: getJobStderr},
	command{name: "get_job_fail_context", output: rawBytes, heavy: true, run: getJobFailContext},
	command{name: "get_job_input", output: rawBytes, heavy: true, run: getJobInput},
	command{name: "abort_job", volatile: true, silentV3: true, run: abortJob},
	command{name: "abandon_job", volatile: true, silentV3: true, run: abandonJob},
)

// noJob is the answer about a job that was never there or is forgotten.
func noJob(id guid.ID) *Error {
	return errorf(codeNoSuchJob, "No such job %s", id).with("job_id", yson.String(id.String()))
}

// jobOf finds the job of a request: running, or in the archive.
func (c *call) jobOf() (*jobView, error) {
	id, err := c.parameters.needID("job_id")
	if err != nil {
		return nil, err
	}
	if live, there := c.server.Job(id); there {
		return &jobView{id: id, operation: live.Operation, live: live}, nil
	}
	number, ok := guid.JobNumber(id)
	if !ok {
		return nil, noJob(id)
	}
	row, err := c.server.Store().Job(c.ctx, number)
	if errors.Is(err, store.ErrNotFound) {
		return nil, noJob(id)
	}
	if err != nil {
		return nil, err
	}
	return &jobView{id: id, operation: core.OperationID(row.Operation), row: &row}, nil
}

// operationOfJob returns the operation of a job. If the request names one it must
// be that.
func (c *call) operationOfJob(j *jobView) (*operationView, error) {
	if c.parameters.has("operation_id", "operation_alias") {
		v, err := c.findOperation()
		if err != nil {
			return nil, err
		}
		if v.number != j.operation {
			return nil, noJob(j.id).with("operation_id", yson.String(v.id.String()))
		}
		return v, nil
	}
	if live, there := c.server.OperationByNumber(j.operation); there {
		return viewOfLive(live), nil
	}
	row, err := c.server.Store().OperationByNumber(c.ctx, int32(j.operation))
	if errors.Is(err, store.ErrNotFound) {
		return nil, noJob(j.id)
	}
	if err != nil {
		return nil, err
	}
	return c.viewOfRow(&row)
}

func getJob(c *call) (yson.Node, error) {
	j, err := c.jobOf()
	if err != nil {
		return yson.Node{}, err
	}
	v, err := c.operationOfJob(j)
	if err != nil {
		return yson.Node{}, err
	}
	names, err := c.parameters.attributeNamesOf("attributes")
	if err != nil {
		return yson.Node{}, err
	}
	entries, err := j.describe(v, names, c.now)
	if err != nil {
		return yson.Node{}, err
	}
	for i := range entries {
		if entries[i].Key == "id" {
			entries[i].Key = "job_id"
		}
	}
	return yson.Map(entries...), nil
}

// getJobStderr returns what a job wrote, or a part of it.
func getJobStderr(c *call) (yson.Node, error) {
	kind, err := c.parameters.text("type", "stderr")
	if err != nil {
		return yson.Node{}, err
	}
	switch kind {
	case "stderr", "user_job_stderr", "stdout":
		if kind != "stdout" {
			kind = "stderr"
		}
	default:
		return yson.Node{}, errorf(codeGeneric, "Error parsing parameter /type: it must be stderr or stdout, not %q", cutText(kind, 100))
	}
	j, err := c.readableJob()
	if err != nil {
		return yson.Node{}, err
	}
	output, err := c.server.Store().JobOutput(c.ctx, j.number(), kind)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return yson.Node{}, err
	}
	return c.answerPart(output.Data)
}

// answerPart answers with the part of some data that the request asks for.
func (c *call) answerPart(data []byte) (yson.Node, error) {
	offset, err := c.parameters.integer("offset", 0)
	if err != nil {
		return yson.Node{}, err
	}
	limit, err := c.parameters.integer("limit", int64(len(data)))
	if err != nil {
		return yson.Node{}, err
	}
	if offset < 0 || limit < 0 {
		return yson.Node{}, errorf(codeGeneric, "Parameters /offset and /limit must not be negative")
	}
	total := int64(len(data))
	from := min(offset, total)
	to := from + min(limit, total-from)
	return c.answerBytes(data[from:to], yson.Pair("total_size", yson.Int64(total)), yson.Pair("end_offset", yson.Int64(to)))
}

// readableJob finds the job of a request and refuses it to those who may not read
// its operation.
func (c *call) readableJob() (*jobView, error) {
	j, err := c.jobOf()
	if err != nil {
		return nil, err
	}
	v, err := c.operationOfJob(j)
	if err != nil {
		return nil, err
	}
	return j, c.mayRead(v)
}

func getJobFailContext(c *call) (yson.Node, error) {
	j, err := c.readableJob()
	if err != nil {
		return yson.Node{}, err
	}
	return yson.Node{}, errorf(codeNoSuchJob, "Fail context of job %s is not found: jobs of vanilla operations read no tables, so nothing is kept", j.id).
		with("job_id", yson.String(j.id.String()))
}

func getJobInput(c *call) (yson.Node, error) {
	j, err := c.readableJob()
	if err != nil {
		return yson.Node{}, err
	}
	return yson.Node{}, errorf(codeNoSuchJob, "Input of job %s is not found: jobs of vanilla operations read no tables", j.id).
		with("job_id", yson.String(j.id.String()))
}

// managedJob finds the running job of a request for somebody who may manage its
// operation.
func (c *call) managedJob() (*jobView, error) {
	j, err := c.jobOf()
	if err != nil {
		return nil, err
	}
	v, err := c.operationOfJob(j)
	if err != nil {
		return nil, err
	}
	chain, err := v.chain(c)
	if err != nil {
		return nil, err
	}
	if err := c.require(auth.ManageOperation(chain)); err != nil {
		return nil, err
	}
	if j.live == nil {
		return nil, errorf(codeNoSuchAllocation, "No such job %s: it is %s", j.id, j.row.State).
			with("job_id", yson.String(j.id.String())).with("state", yson.String(j.row.State))
	}
	return j, nil
}

func abortJob(c *call) (yson.Node, error) {
	interrupt, err := c.parameters.duration("interrupt_timeout", 0)
	if err != nil {
		return yson.Node{}, err
	}
	j, err := c.managedJob()
	if err != nil {
		return yson.Node{}, err
	}
	return nothing(c.server.AbortJob(c.ctx, c.caller(j.id.String()), j.id, interrupt))
}

func abandonJob(c *call) (yson.Node, error) {
	j, err := c.managedJob()
	if err != nil {
		return yson.Node{}, err
	}
	return yson.Node{}, errorf(codeGeneric, "Job %s cannot be abandoned: a vanilla operation needs the end of every job; abort the job, or complete the operation", j.id).
		with("job_id", yson.String(j.id.String()))
}

func (j *jobView) number() uint64 {
	if j.live != nil {
		return uint64(j.live.Number)
	}
	return j.row.Number
}

func (j *jobView) finish() time.Time {
	if j.live != nil {
		return time.Time{}
	}
	return j.row.FinishTime
}
