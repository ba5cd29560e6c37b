package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
)

// Errors about operations.
var (
	ErrNoSuchOperation = errors.New("there is no such operation")
	ErrOperationEnded  = errors.New("the operation has ended")
	ErrNoSuchJob       = errors.New("there is no such job, or it has ended")
	ErrAliasInUse      = errors.New("the alias is in use")
	ErrPoolChange      = errors.New("pools of running operations must not be changed (pool_change_is_allowed is false)")
)

// Start describes an operation to start.
type Start struct {
	Type string
	User string
	Spec *operation.Specification
	// Uses are the contents of the blob storage that the specification names, with the users in whose quotas they count.
	Uses []store.ContentUse
}

// StartOperation starts an operation and returns its id after the operation is
// stored.
func (s *Server) StartOperation(ctx context.Context, who Caller, start Start) (guid.ID, error) {
	return ask(ctx, s, func(t *term) (guid.ID, error) { return t.startOperation(who, start) })
}

// AcceptsOperation returns why pools would refuse an operation of a user now, whatever its tasks are.
func (s *Server) AcceptsOperation(ctx context.Context, user string, spec *operation.Spec) error {
	_, err := ask(ctx, s, func(t *term) (struct{}, error) { return struct{}{}, t.core.Accepts(user, spec) })
	return err
}

func (t *term) startOperation(who Caller, start Start) (guid.ID, error) {
	spec := start.Spec.Spec
	if alias := spec.Alias.Value(); alias != "" {
		if other, taken := t.aliases[alias]; taken {
			return guid.ID{}, fmt.Errorf("%w: %s is operation %s", ErrAliasInUse, alias, t.operations[other].record.ID)
		}
	}
	number := t.lastNumber + 1
	id := t.server.newID(guid.Operation)
	record := &Operation{
		Number: number, ID: id, Type: start.Type, User: start.User, Spec: spec,
		Provided: start.Spec.Provided, Unrecognized: start.Spec.Unrecognized, Start: t.now,
	}
	// The record must exist before the core's decisions are carried out.
	sealed, err := seal(t.server.vaultKey, id.String(), start.Spec.Account)
	if err != nil {
		return guid.ID{}, fmt.Errorf("secure_vault/docker_auth: %w", err)
	}
	t.operations[number] = &activeOperation{record: record, account: start.Spec.Account, stale: true, snapshotTaken: t.now}
	if err := t.apply(&core.StartInput{Operation: number, User: start.User, Spec: spec}); err != nil {
		delete(t.operations, number)
		return guid.ID{}, err
	}
	if err := t.holdSections(number, spec); err != nil {
		return guid.ID{}, err
	}
	t.lastNumber = number
	if sealed != nil {
		t.changeVault(&store.Batch{Put: store.Rows{Settings: []store.Setting{{Name: vaultSetting(id.String()), Document: sealed}}}})
	}
	t.recording.Named(t.now, journalName(number, record))
	for _, use := range start.Uses {
		use.Holder, use.Operation = fmt.Sprintf("operation:%d", number), int32(number)
		t.open.rows.Put.ContentUses = append(t.open.rows.Put.ContentUses, use)
	}
	t.ids[id] = number
	if alias := spec.Alias.Value(); alias != "" {
		t.aliases[alias] = number
	}
	t.operations[number].record.Places = t.core.PlacesOf(number)
	t.tellArrival(record)
	t.markDirty(number)
	who.Object = id.String()
	t.audit(who, nil, nil)
	t.remember(who, []byte(id.String()))
	t.server.counters.operationsStarted.Add(1)
	return id, nil
}

// find returns an operation that has not ended, by its id or alias.
func (t *term) find(key OperationKey) (*activeOperation, error) {
	number, known := t.ids[key.ID]
	if key.Alias != "" {
		number, known = t.aliases[key.Alias]
	}
	if !known {
		if key.ID.IsZero() {
			return nil, fmt.Errorf("%w: alias %s", ErrNoSuchOperation, key.Alias)
		}
		return nil, fmt.Errorf("%w: %s", ErrNoSuchOperation, key.ID)
	}
	return t.operations[number], nil
}

// OperationKey identifies an operation by one of its two fields.
type OperationKey struct {
	ID    guid.ID
	Alias string
}

// command runs a change of one operation on the loop.
func (s *Server) command(ctx context.Context, who Caller, key OperationKey, f func(t *term, id core.OperationID) error) error {
	_, err := ask(ctx, s, func(t *term) (struct{}, error) {
		op, err := t.find(key)
		if err != nil {
			return struct{}{}, err
		}
		if err := f(t, op.record.Number); err != nil {
			if errors.Is(err, core.ErrNoOperation) {
				err = fmt.Errorf("%w: %s", ErrOperationEnded, op.record.ID)
			}
			return struct{}{}, err
		}
		who.Object = op.record.ID.String()
		t.audit(who, nil, nil)
		t.remember(who, nil)
		return struct{}{}, nil
	})
	return err
}

// AbortOperation aborts an operation, which then has no result.
func (s *Server) AbortOperation(ctx context.Context, who Caller, key OperationKey, message string) error {
	return s.command(ctx, who, key, func(t *term, id core.OperationID) error {
		return t.apply(&core.AbortInput{Operation: id, Message: message})
	})
}

// CompleteOperation completes an operation with the work done so far.
func (s *Server) CompleteOperation(ctx context.Context, who Caller, key OperationKey) error {
	return s.command(ctx, who, key, func(t *term, id core.OperationID) error {
		return t.apply(&core.CompleteInput{Operation: id})
	})
}

// SuspendOperation starts no new jobs of an operation. It lets the running ones
// finish, or aborts them.
func (s *Server) SuspendOperation(ctx context.Context, who Caller, key OperationKey, abortRunning bool) error {
	return s.command(ctx, who, key, func(t *term, id core.OperationID) error {
		return t.apply(&core.SuspendInput{Operation: id, AbortRunning: abortRunning})
	})
}

// ResumeOperation undoes SuspendOperation.
func (s *Server) ResumeOperation(ctx context.Context, who Caller, key OperationKey) error {
	return s.command(ctx, who, key, func(t *term, id core.OperationID) error {
		return t.apply(&core.ResumeInput{Operation: id})
	})
}

// UpdateOperation changes parameters of a running operation, all or none.
func (s *Server) UpdateOperation(ctx context.Context, who Caller, key OperationKey, update operation.Update) error {
	return s.command(ctx, who, key, func(t *term, id core.OperationID) error {
		if !s.settings().PoolChange && changesPool(&update) {
			return ErrPoolChange
		}
		return t.apply(&core.ParametersInput{Operation: id, Update: update})
	})
}

// changesPool reports whether an update names a pool.
func changesPool(u *operation.Update) bool {
	return u.Trees.Pool.IsSet() || slices.ContainsFunc(u.Trees.PerTree, func(tree document.Named[pooltree.SchedulingOptions]) bool { return tree.Value.Pool.IsSet() })
}

// AbortJob ends a running job. The operation runs the job again.
func (s *Server) AbortJob(ctx context.Context, who Caller, job guid.ID, interrupt time.Duration) error {
	_, err := ask(ctx, s, func(t *term) (struct{}, error) {
		number, _ := guid.JobNumber(job)
		running := t.jobs[core.JobID(number)]
		if running == nil {
			return struct{}{}, fmt.Errorf("%w: %s", ErrNoSuchJob, job)
		}
		node := t.nodeList[running.node]
		if node.session == nil || !node.session.Confirmed() {
			return struct{}{}, fmt.Errorf("node %s, where job %s runs, does not answer", running.Node, job)
		}
		reason := operation.AbortUserRequest.String()
		switch {
		case interrupt > 0 && t.isInterruptible(running):
			t.ordersTo(node).Interrupt(&nodev1.InterruptOrder{Number: number, TimeoutUs: interrupt.Microseconds(), Reason: reason, AbortReason: reason})
		case t.ordersTo(node).Abort(&nodev1.AbortOrder{Number: number, AbortReason: reason}):
			t.later = append(t.later, core.Finished{Job: running.Number, State: core.JobAborted, Reason: operation.AbortUserRequest})
		}
		stopping := *running
		stopping.State, stopping.Stopping = "aborting", reason
		t.putJob(&stopping)
		who.Object = job.String()
		t.audit(who, nil, nil)
		t.remember(who, nil)
		return struct{}{}, nil
	})
	return err
}

// Operation returns the record of an operation that has not ended.
func (s *Server) Operation(key OperationKey) (*Operation, bool) {
	if key.Alias != "" {
		return s.aliases.get(key.Alias)
	}
	return s.operations.get(key.ID)
}

// OperationByNumber returns the record of an operation that has not ended.
func (s *Server) OperationByNumber(number core.OperationID) (*Operation, bool) {
	return s.numbers.get(number)
}

// Operations returns the records of all operations that have not ended, in no
// particular order.
func (s *Server) Operations() []*Operation { return s.operations.all() }

// Job returns a running job.
func (s *Server) Job(id guid.ID) (*Job, bool) {
	number, ok := guid.JobNumber(id)
	if !ok {
		return nil, false
	}
	return s.jobs.get(core.JobID(number))
}

// Jobs returns the running jobs of an operation, or of all operations if none is
// given, in no particular order.
func (s *Server) Jobs(of core.OperationID) []*Job {
	return slices.DeleteFunc(s.jobs.all(), func(job *Job) bool {
		return job.ended || of != core.NoOperation && job.Operation != of
	})
}

// showOperation publishes a record to readers.
func (s *Server) showOperation(o *Operation) {
	if o.State.IsFinished() {
		return // hideOperation follows
	}
	s.operations.put(o.ID, o)
	s.numbers.put(o.Number, o)
	if alias := o.Alias(); alias != "" {
		s.aliases.put(alias, o)
	}
	s.watchers.notify(o.ID)
}

// hideOperation removes an ended operation; readers then find it in the archive.
func (s *Server) hideOperation(o *Operation) {
	s.operations.remove(o.ID)
	s.numbers.remove(o.Number)
	if alias := o.Alias(); alias != "" {
		if shown, there := s.aliases.get(alias); there && shown.ID == o.ID {
			s.aliases.remove(alias)
		}
	}
	s.watchers.notify(o.ID)
}
