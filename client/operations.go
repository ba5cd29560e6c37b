package client

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/value/yson"
)

// State is where an operation or a job is in its life.
type State string

// States that operations and jobs end in, and the ones before.
const (
	Pending   State = "pending"
	Running   State = "running"
	Completed State = "completed"
	Failed    State = "failed"
	Aborted   State = "aborted"
)

// Ended says whether a state is final.
func (s State) Ended() bool { return s == Completed || s == Failed || s == Aborted }

// Operation is an operation. Fields that were not asked for are zero.
type Operation struct {
	ID    string `yson:"id"`
	Alias string `yson:"alias"` // begins with a star; empty if it has none
	Type  string `yson:"type"`
	Title string `yson:"brief_spec/title"`
	User  string `yson:"authenticated_user"`
	State State  `yson:"state"`
	// Suspended operations get no new jobs.
	Suspended bool      `yson:"suspended"`
	Started   time.Time `yson:"start_time"`
	Finished  time.Time `yson:"finish_time"` // zero while it lives
	// Places are the pools that it is in, one for each of its trees.
	Places []Place   `yson:"runtime_parameters/scheduling_options_per_pool_tree"`
	Jobs   JobCounts `yson:"brief_progress/jobs"`
	// WaitingForPools are pools whose limits on operations keep it from running.
	WaitingForPools []string `yson:"waiting_for_pools"`
	Alerts          []Alert  `yson:"alerts"`
	// Result is how it ended; nil while it lives. See Err.
	Result *Error `yson:"result/error"`
	Raw    Value  `yson:"."`
}

// Err is why the operation failed or was aborted; nil if it completed, or lives.
func (o *Operation) Err() error {
	switch {
	case o.Result != nil && o.Result.Code != 0:
		return o.Result
	case o.State == Failed || o.State == Aborted:
		return &Error{Message: "no reason was given"}
	}
	return nil
}

// Place is where an operation is in a tree.
type Place struct {
	Tree   string  `yson:"#"`
	Pool   string  `yson:"pool"`
	Weight float64 `yson:"weight"`
}

// JobCounts are the numbers of jobs of an operation by what became of them.
type JobCounts struct {
	Total     int64 `yson:"total"`
	Running   int64 `yson:"running"`
	Pending   int64 `yson:"pending"`
	Completed int64 `yson:"completed"`
	Failed    int64 `yson:"failed"`
	Aborted   int64 `yson:"aborted"`
}

// Alert is something about an operation that people should know.
type Alert struct {
	Type  string `yson:"#"`
	Error Error  `yson:"."`
}

// operationKey names an operation by its id, or by its alias, which begins with a star.
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

// StartOperation starts an operation of a type with a specification, and returns its id.
func (c *Client) StartOperation(ctx context.Context, kind string, specification any) (id string, err error) {
	answer, err := c.Do(ctx, "start_operation", map[string]any{"operation_type": kind, "spec": specification})
	return firstText(answer), err
}

// GetOperation returns an operation by its id or alias, with the named attributes or all
// that the user may read.
func (c *Client) GetOperation(ctx context.Context, name string, attributes ...string) (*Operation, error) {
	return ask[Operation](ctx, c, "get_operation", merged(operationNamed(name), struct {
		Attributes []string `yson:"attributes"`
	}{attributes}))
}

// OperationFilter says which operations a list has: those that all fields choose which
// are not zero.
type OperationFilter struct {
	Pool string `yson:"pool"`
	Tree string `yson:"pool_tree"`
	User string `yson:"user"`
	// State, or a text that must be somewhere in the operation.
	State State  `yson:"state"`
	Text  string `yson:"filter"`
	// From and To bound the time of the start; Before continues a list of earlier ones.
	From   time.Time `yson:"from_time"`
	To     time.Time `yson:"to_time"`
	Before time.Time `yson:"cursor_time"`
	// Limit is the most operations of a page, 100 if it is zero.
	Limit int64 `yson:"limit"`
	// Attributes to ask for, instead of the usual ones.
	Attributes []string `yson:"attributes"`
}

// OperationPage is a part of a list of operations.
type OperationPage struct {
	Operations []Operation `yson:"operations"`
	// More says that the list goes on; OperationFilter.Before continues it.
	More bool  `yson:"incomplete"`
	Raw  Value `yson:"."`
}

// ListOperations returns one page of operations, the newest first.
func (c *Client) ListOperations(ctx context.Context, f OperationFilter) (*OperationPage, error) {
	uncounted := Value{yson.Map(yson.Pair("include_counters", yson.Boolean(false)))}
	return ask[OperationPage](ctx, c, "list_operations", merged(f, uncounted))
}

// Operations returns all operations, the newest first. It ends after an error.
func (c *Client) Operations(ctx context.Context, f OperationFilter) iter.Seq2[*Operation, error] {
	if f.Attributes != nil {
		f.Attributes = append([]string{"id", "start_time"}, f.Attributes...) // pages are joined by them
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
			// Others may have started at the same moment as the last one: pages overlap.
			seen, f.Before = now, page.Operations[len(page.Operations)-1].Started.Add(time.Microsecond)
		}
	}
}

// Pauses between looks at an operation grow with the time that has passed: what is short
// is seen at once, what is long does not burden the server.
const (
	shortestLook = 100 * time.Millisecond
	longestLook  = 2 * time.Second
)

// WatchOperation looks at an operation again and again: at once, then every 100 ms, more
// seldom when time has passed, until it has ended or the context has. Operations have ID,
// State, Suspended, Jobs and Result.
func (c *Client) WatchOperation(ctx context.Context, name string) iter.Seq2[*Operation, error] {
	return func(yield func(*Operation, error) bool) {
		for started := time.Now(); ; {
			o, err := c.GetOperation(ctx, name, "id", "state", "suspended", "brief_progress", "result")
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(o, nil) || o.State.Ended() {
				return
			}
			select {
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			case <-time.After(min(shortestLook+time.Since(started)/20, longestLook)):
			}
		}
	}
}

// WaitOperation waits for the end of an operation. How it ended is in its State, and in
// Err.
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

// AbortOperation ends an operation without a result; its jobs are aborted. The message
// says why, to those who look at it later.
func (c *Client) AbortOperation(ctx context.Context, name, message string) error {
	return c.tell(ctx, "abort_operation", merged(operationNamed(name), struct {
		Message string `yson:"abort_message"`
	}{message}))
}

// CompleteOperation ends an operation with what it has done so far.
func (c *Client) CompleteOperation(ctx context.Context, name string) error {
	return c.tell(ctx, "complete_operation", operationNamed(name))
}

// SuspendOptions say how to suspend an operation.
type SuspendOptions struct {
	AbortRunningJobs bool   `yson:"abort_running_jobs"`
	Reason           string `yson:"reason"`
}

// SuspendOperation gives an operation no new jobs until it is resumed.
func (c *Client) SuspendOperation(ctx context.Context, name string, o SuspendOptions) error {
	return c.tell(ctx, "suspend_operation", merged(operationNamed(name), o))
}

// ResumeOperation undoes SuspendOperation.
func (c *Client) ResumeOperation(ctx context.Context, name string) error {
	return c.tell(ctx, "resume_operation", operationNamed(name))
}

// UpdateOperation changes parameters of a running operation, such as pool, weight and
// scheduling_options_per_pool_tree: all of them, or none.
func (c *Client) UpdateOperation(ctx context.Context, name string, parameters any) error {
	given, err := ValueOf(parameters)
	if err != nil {
		return err
	}
	return c.tell(ctx, "update_operation_parameters", merged(operationNamed(name), struct {
		Parameters Value `yson:"parameters"`
	}{given}))
}

// tell runs a command that answers nothing.
func (c *Client) tell(ctx context.Context, command string, parameters any) error {
	_, err := c.Do(ctx, command, parameters)
	return err
}
