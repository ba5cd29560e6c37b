package api

import (
	"errors"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// noJob is the error for a job that never existed or is no longer stored.
func noJob(id guid.ID) *wire.Error {
	return wire.Errorf(wire.CodeNoSuchJob, "No such job %s", id).With("job_id", yson.String(id.String()))
}

// jobOf finds the job of a request, running or archived.
func (c *call) jobOf() (*orchid.JobView, error) {
	id, err := c.Parameters.NeedID("job_id")
	if err != nil {
		return nil, err
	}
	if live, there := c.Server.Job(id); there {
		return &orchid.JobView{ID: id, Operation: live.Operation, Live: live}, nil
	}
	number, ok := guid.JobNumber(id)
	if !ok {
		return nil, noJob(id)
	}
	row, err := c.Server.Store().Job(c.Context, number)
	if errors.Is(err, store.ErrNotFound) {
		return nil, noJob(id)
	}
	if err != nil {
		return nil, err
	}
	return &orchid.JobView{ID: id, Operation: core.OperationID(row.Operation), Row: &row}, nil
}

// operationOfJob returns a job's operation. If the request names an operation, it must be that one.
func (c *call) operationOfJob(j *orchid.JobView) (*orchid.OperationView, error) {
	if c.Parameters.Has("operation_id", "operation_alias") {
		v, err := orchid.FindOperation(c.Request)
		if err != nil {
			return nil, err
		}
		if v.Number != j.Operation {
			return nil, noJob(j.ID).With("operation_id", yson.String(v.ID.String()))
		}
		return v, nil
	}
	if live, there := c.Server.OperationByNumber(j.Operation); there {
		return orchid.ViewOfLive(live), nil
	}
	row, err := c.Server.Store().OperationByNumber(c.Context, int32(j.Operation))
	if errors.Is(err, store.ErrNotFound) {
		return nil, noJob(j.ID)
	}
	if err != nil {
		return nil, err
	}
	return orchid.ViewOfRow(c.Request, &row)
}

func getJob(c *call) (yson.Node, error) {
	names, err := c.Parameters.AttributeNamesOf("attributes")
	if err != nil {
		return yson.Node{}, err
	}
	entries, err := c.job.Describe(c.operation, names, c.Now)
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

// getJobStderr returns a job's stderr, or a part of it.
func getJobStderr(c *call) (yson.Node, error) {
	kind, err := c.Parameters.Text("type", "stderr")
	if err != nil {
		return yson.Node{}, err
	}
	switch kind {
	case "stderr", "user_job_stderr", "stdout":
		if kind != "stdout" {
			kind = "stderr"
		}
	default:
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /type: it must be stderr or stdout, not %q", wire.CutText(kind, 100))
	}
	if c.job.Live != nil {
		done, err := c.liveOutput(kind == "stdout")
		if done || err != nil {
			return yson.Map(), err
		}
	}
	output, err := c.Server.Store().JobOutput(c.Context, c.job.Number(), kind)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return yson.Node{}, err
	}
	return c.answerPart(output.Data)
}

// answerPart answers with the part of the data that the request asks for.
func (c *call) answerPart(data []byte) (yson.Node, error) {
	offset, err := c.Parameters.Integer("offset", 0)
	if err != nil {
		return yson.Node{}, err
	}
	limit, err := c.Parameters.Integer("limit", int64(len(data)))
	if err != nil {
		return yson.Node{}, err
	}
	if offset < 0 || limit < 0 {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Parameters /offset and /limit must not be negative")
	}
	total := int64(len(data))
	from := min(offset, total)
	to := from + min(limit, total-from)
	return c.answerBytes(data[from:to], yson.Pair("total_size", yson.Int64(total)), yson.Pair("end_offset", yson.Int64(to)),
		yson.Pair("ended", yson.Boolean(to == total)))
}

func getJobFailContext(c *call) (yson.Node, error) {
	j := c.job
	return yson.Node{}, wire.Errorf(wire.CodeNoSuchJob, "Fail context of job %s is not found: jobs of vanilla operations read no tables, so nothing is kept", j.ID).
		With("job_id", yson.String(j.ID.String()))
}

func getJobInput(c *call) (yson.Node, error) {
	j := c.job
	return yson.Node{}, wire.Errorf(wire.CodeNoSuchJob, "Input of job %s is not found: jobs of vanilla operations read no tables", j.ID).
		With("job_id", yson.String(j.ID.String()))
}

// runningJob is the job of the request, which must be running.
func (c *call) runningJob() (*orchid.JobView, error) {
	if j := c.job; j.Live == nil {
		return nil, wire.Errorf(wire.CodeNoSuchAllocation, "No such job %s: it is %s", j.ID, j.Row.State).
			With("job_id", yson.String(j.ID.String())).With("state", yson.String(j.Row.State))
	}
	return c.job, nil
}

func abortJob(c *call) (yson.Node, error) {
	interrupt, err := c.Parameters.Duration("interrupt_timeout", 0)
	if err != nil {
		return yson.Node{}, err
	}
	j, err := c.runningJob()
	if err != nil {
		return yson.Node{}, err
	}
	return nothing(c.Server.AbortJob(c.Context, c.Caller(j.ID.String()), j.ID, interrupt))
}

// signalJob sends a signal to a running job. A request that is repeated after another scheduler took over sends it again.
func signalJob(c *call) (yson.Node, error) {
	name, err := c.Parameters.NeedText("signal_name")
	if err != nil {
		return yson.Node{}, err
	}
	all, err := c.Parameters.Boolean("all", false)
	if err != nil {
		return yson.Node{}, err
	}
	if names := operation.SignalNames(); !slices.Contains(names, name) {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /signal_name: it must be one of %s, not %q", strings.Join(names, ", "), wire.CutText(name, 100))
	}
	j, err := c.runningJob()
	if err != nil {
		return yson.Node{}, err
	}
	return nothing(c.Server.SignalJob(c.Context, c.Caller(j.ID.String()), j.ID, name, all))
}

func abandonJob(c *call) (yson.Node, error) {
	j, err := c.runningJob()
	if err != nil {
		return yson.Node{}, err
	}
	return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Job %s cannot be abandoned: a vanilla operation needs the end of every job; abort the job, or complete the operation", j.ID).
		With("job_id", yson.String(j.ID.String()))
}
