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
	Cookie      int64     `yson:"job_cookie"` // its number within the task
	State       State     `yson:"state"`
	Node        string    `yson:"address"`
	Tree        string    `yson:"pool_tree"`
	Pool        string    `yson:"pool"`
	Started     time.Time `yson:"start_time"`
	Finished    time.Time `yson:"finish_time"` // zero while it runs
	ExitCode    *int64    `yson:"exit_code"`   // nil if there is none
	// AbortReason is a word for why it was, or is being, aborted.
	AbortReason string `yson:"abort_reason"`
	// Error is why it failed or was aborted; nil if it was not.
	Error *Error `yson:"error"`
	// StderrSize is how many bytes of its standard error are kept.
	StderrSize int64     `yson:"stderr_size"`
	Resources  Resources `yson:"resources"`
	Raw        Value     `yson:"."`
}

// JobFilter says which jobs a list has: those that all fields choose which are not zero.
type JobFilter struct {
	State State  `yson:"state"`
	Node  string `yson:"address"`
	Task  string `yson:"task_name"`
	Tree  string `yson:"pool_tree"`
	// WithStderr chooses jobs that wrote something to their standard error, or nothing.
	WithStderr *bool `yson:"with_stderr"`
	// Finished chooses jobs that have ended.
	Finished bool `yson:"-"`
	// SortBy is start_time, finish_time, duration, state, address or task_name; the order
	// in which jobs were started if it is empty.
	SortBy     string `yson:"sort_field"`
	Descending bool   `yson:"-"`
	// Limit is the most jobs of a page, 1000 if it is zero.
	Limit int64 `yson:"limit"`
	// Token continues a list: that of the page before.
	Token string `yson:"continuation_token"`
}

// JobPage is a part of a list of jobs.
type JobPage struct {
	Jobs []Job `yson:"jobs"`
	// Token continues the list; empty at its end.
	Token string `yson:"continuation_token"`
	Raw   Value  `yson:"."`
}

// ListJobs returns one page of the jobs of an operation, running and finished.
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

// Jobs returns all jobs of an operation. It ends after an error.
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
	if err == nil && job.ID == "" { // alone it has another key than in lists
		job.ID, _ = job.Raw.Get("job_id").Text()
	}
	return job, err
}

// JobStderr is what a finished job wrote to its standard error, as much as was kept.
func (c *Client) JobStderr(ctx context.Context, id string) ([]byte, error) {
	return c.jobOutput(ctx, id, "stderr")
}

// JobStdout is what a finished job wrote to its standard output, if that was kept.
func (c *Client) JobStdout(ctx context.Context, id string) ([]byte, error) {
	return c.jobOutput(ctx, id, "stdout")
}

func (c *Client) jobOutput(ctx context.Context, id, kind string) ([]byte, error) {
	return c.Bytes(ctx, Request{Command: "get_job_stderr", Parameters: map[string]any{"job_id": id, "type": kind}})
}

// AbortJob aborts a running job; its operation starts it again. With an interrupt time
// the job is asked to end by itself first.
func (c *Client) AbortJob(ctx context.Context, id string, interrupt time.Duration) error {
	return c.tell(ctx, "abort_job", merged(jobKey{id}, struct {
		Interrupt time.Duration `yson:"interrupt_timeout"`
	}{interrupt}))
}
