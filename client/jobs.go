package client

import (
	"context"
	"iter"
	"time"
)

// Job is a job of an operation.
type Job struct {
	ID          string    `yson:"id"`
	OperationID string    `yson:"operation_id"`
	Task        string    `yson:"task_name"`
	Cookie      int64     `yson:"job_cookie"` // index of the job within its task
	State       State     `yson:"state"`
	Node        string    `yson:"address"`
	Tree        string    `yson:"pool_tree"`
	Pool        string    `yson:"pool"`
	Started     time.Time `yson:"start_time"`
	Finished    time.Time `yson:"finish_time"` // zero while it runs
	ExitCode    *int64    `yson:"exit_code"`   // nil if there is none
	// AbortReason is a keyword for why the job was or is being aborted.
	AbortReason string `yson:"abort_reason"`
	// Error is why the job failed or was aborted; nil if it did not fail and was not
	// aborted.
	Error *Error `yson:"error"`
	// StderrSize is the number of stored bytes of standard error.
	StderrSize int64     `yson:"stderr_size"`
	Resources  Resources `yson:"resources"`
	Raw        Value     `yson:"."`
}

// JobFilter selects jobs and orders them. A job must match every non-zero filter field.
type JobFilter struct {
	State State  `yson:"state"`
	Node  string `yson:"address"`
	Task  string `yson:"task_name"`
	Tree  string `yson:"pool_tree"`
	// WithStderr selects jobs that wrote to standard error (true) or did not (false).
	WithStderr *bool `yson:"with_stderr"`
	// Finished selects jobs that have ended.
	Finished bool `yson:"-"`
	// SortBy is start_time, finish_time, duration, state, address or task_name. If it is
	// empty, jobs are in the order in which they started.
	SortBy     string `yson:"sort_field"`
	Descending bool   `yson:"-"`
	// Limit is the page size; zero means 1000.
	Limit int64 `yson:"limit"`
	// Token is the JobPage.Token of the previous page; empty for the first page.
	Token string `yson:"continuation_token"`
}

// JobPage is one page of a list of jobs.
type JobPage struct {
	Jobs []Job `yson:"jobs"`
	// Token identifies the next page; empty on the last page.
	Token string `yson:"continuation_token"`
	Raw   Value  `yson:"."`
}

// ListJobs returns one page of an operation's jobs, both running and finished ones. The
// operation is given by its id or alias.
func (c *Client) ListJobs(ctx context.Context, operation string, f JobFilter) (*JobPage, error) {
	var more struct {
		Order  string `yson:"sort_order"`
		Source string `yson:"data_source"`
	}
	if f.Descending {
		more.Order = "descending"
	}
	if f.Finished {
		more.Source = "archive"
	}
	return ask[JobPage](ctx, c, "list_jobs", merged(operationNamed(operation), f, more))
}

// Jobs iterates over all jobs of an operation that match f. It stops after the first error.
func (c *Client) Jobs(ctx context.Context, operation string, f JobFilter) iter.Seq2[*Job, error] {
	return func(yield func(*Job, error) bool) {
		for f := f; ; {
			page, err := c.ListJobs(ctx, operation, f)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Jobs {
				if !yield(&page.Jobs[i], nil) {
					return
				}
			}
			if f.Token = page.Token; f.Token == "" {
				return
			}
		}
	}
}

type jobKey struct {
	ID string `yson:"job_id"`
}

// GetJob returns a job.
func (c *Client) GetJob(ctx context.Context, id string) (*Job, error) {
	job, err := ask[Job](ctx, c, "get_job", jobKey{id})
	if err == nil && job.ID == "" { // get_job has another key for it than list_jobs
		job.ID, _ = job.Raw.Get("job_id").Text()
	}
	return job, err
}

// JobStderr returns the stored standard error of a finished job. A long one is truncated.
func (c *Client) JobStderr(ctx context.Context, id string) ([]byte, error) {
	return c.jobOutput(ctx, id, "stderr")
}

// JobStdout returns the standard output of a finished job, if it was stored.
func (c *Client) JobStdout(ctx context.Context, id string) ([]byte, error) {
	return c.jobOutput(ctx, id, "stdout")
}

func (c *Client) jobOutput(ctx context.Context, id, kind string) ([]byte, error) {
	return c.Bytes(ctx, Request{Command: "get_job_stderr", Parameters: map[string]any{"job_id": id, "type": kind}})
}

// SignalJob sends a signal, such as SIGUSR1, to the command of a running job or, with all set, to all
// processes of the job. It returns when the signal has been sent.
func (c *Client) SignalJob(ctx context.Context, id, signal string, all bool) error {
	return c.tell(ctx, "signal_job", merged(jobKey{id}, struct {
		Signal string `yson:"signal_name"`
		All    bool   `yson:"all"`
	}{signal, all}))
}

// AbortJob aborts a running job; its operation then restarts it. If interrupt is not zero,
// the job is interrupted first: it has this long to end by itself.
func (c *Client) AbortJob(ctx context.Context, id string, interrupt time.Duration) error {
	return c.tell(ctx, "abort_job", merged(jobKey{id}, struct {
		Interrupt time.Duration `yson:"interrupt_timeout"`
	}{interrupt}))
}
