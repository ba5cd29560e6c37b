package client

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/value/yson"
)

// State is the state of an operation or a job.
type State string

// The states that programs test for most; operations and jobs have others before they
// run and before they end.
const (
	Pending   State = "pending"
	Running   State = "running"
	Completed State = "completed"
	Failed    State = "failed"
	Aborted   State = "aborted"
)

// Ended reports whether the state is final.
func (s State) Ended() bool { return s == Completed || s == Failed || s == Aborted }

// Operation describes an operation. Fields whose attributes were not requested are zero.
type Operation struct {
	ID    string `yson:"id"`
	Alias string `yson:"alias"` // starts with an asterisk; empty if there is none
	Type  string `yson:"type"`
	Title string `yson:"brief_spec/title"`
	User  string `yson:"authenticated_user"`
	State State  `yson:"state"`
	// Suspended reports whether the operation is suspended: it gets no new jobs.
	Suspended bool      `yson:"suspended"`
	Started   time.Time `yson:"start_time"`
	Finished  time.Time `yson:"finish_time"` // zero until the operation ends
	// Places lists the operation's pools, one for each of its trees.
	Places []Place   `yson:"runtime_parameters/scheduling_options_per_pool_tree"`
	Jobs   JobCounts `yson:"brief_progress/jobs"`
	// WaitingForPools lists the pools whose limits on running operations keep the
	// operation in their queues.
	WaitingForPools []string `yson:"waiting_for_pools"`
	Alerts          []Alert  `yson:"alerts"`
	// Result is the outcome, with code 0 if the operation completed; nil until it ends.
	// Err interprets it.
	Result *Error `yson:"result/error"`
	// Forecast is when it starts and finishes; nil unless the attribute was requested and there is one.
	Forecast *Forecast `yson:"forecast"`
	Raw      Value     `yson:"."`
}

// Err returns why the operation failed or was aborted. It is nil if the operation
// completed or has not ended.
func (o *Operation) Err() error {
	switch {
	case o.Result != nil && o.Result.Code != 0:
		return o.Result
	case o.State == Failed || o.State == Aborted:
		return &Error{Message: "no reason was given"}
	}
	return nil
}

// Place is the operation's pool in one tree, and its weight there.
type Place struct {
	Tree   string  `yson:"#"`
	Pool   string  `yson:"pool"`
	Weight float64 `yson:"weight"`
}

// JobCounts are the numbers of an operation's jobs by state.
type JobCounts struct {
	Total     int64 `yson:"total"`
	Running   int64 `yson:"running"`
	Pending   int64 `yson:"pending"`
	Completed int64 `yson:"completed"`
	Failed    int64 `yson:"failed"`
	Aborted   int64 `yson:"aborted"`
}

// Alert is a problem with an operation that its user should know about.
type Alert struct {
	Type  string `yson:"#"`
	Error Error  `yson:"."`
}

// operationKey identifies an operation by its id or by its alias, which starts with an
// asterisk.
type operationKey struct {
	ID    string `yson:"operation_id"`
	Alias string `yson:"operation_alias"`
}

func operationNamed(name string) operationKey {
	if strings.HasPrefix(name, "*") {
		return operationKey{Alias: name}
	}
	return operationKey{ID: name}
}

// Vanilla is the type of operations whose jobs run commands.
const Vanilla = "vanilla"

// StartOperation starts an operation of the given type, such as Vanilla, and returns its
// id. ValueOf states what the specification may be.
func (c *Client) StartOperation(ctx context.Context, kind string, specification any) (id string, err error) {
	answer, err := c.Do(ctx, "start_operation", map[string]any{"operation_type": kind, "spec": specification})
	return firstText(answer), err
}

// GetOperation returns an operation by its id or alias. It requests the given attributes;
// if there are none, all that the caller may read.
func (c *Client) GetOperation(ctx context.Context, name string, attributes ...string) (*Operation, error) {
	return ask[Operation](ctx, c, "get_operation", merged(operationNamed(name), struct {
		Attributes []string `yson:"attributes"`
	}{attributes}))
}

// OperationFilter selects operations. An operation must match every non-zero field.
type OperationFilter struct {
	Pool string `yson:"pool"`
	Tree string `yson:"pool_tree"`
	User string `yson:"user"`
	// State is the operation's state.
	State State `yson:"state"`
	// Text must occur in one of the operation's texts, such as its title, alias or pools.
	Text string `yson:"filter"`
	// From and To bound the operation's start time. Before continues a list: it selects
	// operations that started earlier.
	From   time.Time `yson:"from_time"`
	To     time.Time `yson:"to_time"`
	Before time.Time `yson:"cursor_time"`
	// Limit is the page size; zero means 100.
	Limit int64 `yson:"limit"`
	// Attributes are the attributes to request instead of the default ones.
	Attributes []string `yson:"attributes"`
}

// OperationPage is one page of a list of operations.
type OperationPage struct {
	Operations []Operation `yson:"operations"`
	// More reports whether there are further pages; request them with
	// OperationFilter.Before.
	More bool  `yson:"incomplete"`
	Raw  Value `yson:"."`
}

// ListOperations returns one page of the operations that match f, newest first.
func (c *Client) ListOperations(ctx context.Context, f OperationFilter) (*OperationPage, error) {
	uncounted := Value{yson.Map(yson.Pair("include_counters", yson.Boolean(false)))}
	return ask[OperationPage](ctx, c, "list_operations", merged(f, uncounted))
}

// Operations iterates over all operations that match f, newest first. It stops after the
// first error.
func (c *Client) Operations(ctx context.Context, f OperationFilter) iter.Seq2[*Operation, error] {
	if f.Attributes != nil {
		f.Attributes = append([]string{"id", "start_time"}, f.Attributes...) // needed to join pages
	}
	return func(yield func(*Operation, error) bool) {
		f, seen := f, map[string]bool{}
		for {
			page, err := c.ListOperations(ctx, f)
			if err != nil {
				yield(nil, err)
				return
			}
			now := map[string]bool{}
			fresh := false
			for i := range page.Operations {
				o := &page.Operations[i]
				now[o.ID] = true
				if seen[o.ID] {
					continue
				}
				if fresh = true; !yield(o, nil) {
					return
				}
			}
			if !page.More || !fresh {
				return
			}
			// Let pages overlap: other operations may have started in the same microsecond.
			seen, f.Before = now, page.Operations[len(page.Operations)-1].Started.Add(time.Microsecond)
		}
	}
}

// How WatchOperation waits. The server holds each request until the operation changes. A
// server that does not hold requests is polled; the pauses then grow with the time that has
// passed.
const (
	longestHold  = 30 * time.Second
	shortestLook = 100 * time.Millisecond
	longestLook  = 2 * time.Second
)

// watchRequest are the parameters of a request that waits for a change.
type watchRequest struct {
	Attributes []string  `yson:"attributes"`
	Wait       int64     `yson:"wait"` // milliseconds
	Since      time.Time `yson:"changed_since"`
}

// WatchOperation yields an operation at once and whenever it changes, until it ends, ctx is
// cancelled or a request fails. The server shows changes of job counts every second, and
// other changes when they happen. The yielded operations have ID, State, Suspended, Jobs and
// Result.
func (c *Client) WatchOperation(ctx context.Context, name string) iter.Seq2[*Operation, error] {
	type watched struct {
		Operation
		Built time.Time `yson:"brief_progress/build_time"`
	}
	return func(yield func(*Operation, error) bool) {
		request := watchRequest{Attributes: []string{"id", "state", "suspended", "brief_progress", "result"}}
		for started := time.Now(); ; {
			asked := time.Now()
			o, err := ask[watched](ctx, c, "get_operation", merged(operationNamed(name), request))
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&o.Operation, nil) || o.State.Ended() {
				return
			}
			if o.Built.Equal(request.Since) && time.Since(asked) < shortestLook {
				select {
				case <-ctx.Done():
					yield(nil, ctx.Err())
					return
				case <-time.After(min(shortestLook+time.Since(started)/20, longestLook)):
				}
			}
			request.Wait, request.Since = longestHold.Milliseconds(), o.Built
		}
	}
}

// WaitOperation waits until an operation ends and returns it. Its State and Err report the
// outcome; the returned error only reports that waiting failed.
func (c *Client) WaitOperation(ctx context.Context, name string) (*Operation, error) {
	var last *Operation
	for o, err := range c.WatchOperation(ctx, name) {
		if err != nil {
			return nil, err
		}
		last = o
	}
	return last, nil
}

// AbortOperation aborts an operation and its jobs. The message is the reason shown in the
// operation's result.
func (c *Client) AbortOperation(ctx context.Context, name, message string) error {
	return c.tell(ctx, "abort_operation", merged(operationNamed(name), struct {
		Message string `yson:"abort_message"`
	}{message}))
}

// CompleteOperation ends an operation early as completed.
func (c *Client) CompleteOperation(ctx context.Context, name string) error {
	return c.tell(ctx, "complete_operation", operationNamed(name))
}

// SuspendOptions are the options of SuspendOperation.
type SuspendOptions struct {
	AbortRunningJobs bool   `yson:"abort_running_jobs"`
	Reason           string `yson:"reason"`
}

// SuspendOperation suspends an operation: it gets no new jobs until it is resumed.
func (c *Client) SuspendOperation(ctx context.Context, name string, o SuspendOptions) error {
	return c.tell(ctx, "suspend_operation", merged(operationNamed(name), o))
}

// ResumeOperation resumes a suspended operation.
func (c *Client) ResumeOperation(ctx context.Context, name string) error {
	return c.tell(ctx, "resume_operation", operationNamed(name))
}

// UpdateOperation changes parameters of a running operation, such as pool, weight and
// scheduling_options_per_pool_tree. It applies all of them or none.
func (c *Client) UpdateOperation(ctx context.Context, name string, parameters any) error {
	given, err := ValueOf(parameters)
	if err != nil {
		return err
	}
	return c.tell(ctx, "update_operation_parameters", merged(operationNamed(name), struct {
		Parameters Value `yson:"parameters"`
	}{given}))
}

// tell runs a command whose answer is empty.
func (c *Client) tell(ctx context.Context, command string, parameters any) error {
	_, err := c.Do(ctx, command, parameters)
	return err
}
