package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/guid"
)

// ExternalType is the type of operations whose jobs belong to another system.
const ExternalType = "external"

// Offers is how a driver of another system has its jobs scheduled. Each of its
// operations is external: the driver offers jobs and withdraws them. A job that starts
// comes to the session of its node as an order whose identity has the operation's id, the
// name of the task and the cookie; its end comes from there as well. A new leader knows
// the operations with their tasks and running jobs, and no waiting ones: the driver
// offers them again.
type Offers interface {
	// StartExternal starts an external operation, whose specification has the option
	// external. Limits on the number of operations refuse it with a
	// *scheduling.CountError.
	StartExternal(ctx context.Context, who Caller, start Start) (guid.ID, error)
	// Offer adds waiting jobs. The list has an error for each offer that is refused,
	// in the order of the offers; it is nil if none is.
	Offer(ctx context.Context, offers []Offer) ([]error, error)
	// Withdraw removes waiting jobs. Jobs and operations that are gone are ignored.
	Withdraw(ctx context.Context, jobs []Withdrawal) error
	// EndExternal ends an external operation. Its running jobs are aborted.
	EndExternal(ctx context.Context, who Caller, id guid.ID) error
	// ExternalOperations returns the external operations that have not ended, in the
	// order in which they were started.
	ExternalOperations(ctx context.Context) ([]*Operation, error)
}

var _ Offers = (*Server)(nil)

// Offer is jobs of an external operation that are to start.
type Offer struct {
	Operation guid.ID
	operation.Offered
}

// Withdrawal is jobs of an external operation that are not to start any more.
type Withdrawal struct {
	Operation guid.ID
	Task      string
	Cookies   []int32
}

// ErrNotExternal reports that an operation is not external.
var ErrNotExternal = errors.New("the operation is not external")

// StartExternal starts an external operation; see Offers.
func (s *Server) StartExternal(ctx context.Context, who Caller, start Start) (guid.ID, error) {
	if !start.Spec.Spec.IsExternal() {
		return guid.ID{}, ErrNotExternal
	}
	start.Type = ExternalType
	return s.StartOperation(ctx, who, start)
}

// Offer adds waiting jobs to external operations; see Offers.
func (s *Server) Offer(ctx context.Context, offers []Offer) ([]error, error) {
	return ask(ctx, s, func(t *term) (refused []error, _ error) {
		for i := range offers {
			if err := t.offered(&offers[i]); err != nil {
				if refused == nil {
					refused = make([]error, len(offers))
				}
				refused[i] = err
			}
		}
		return refused, nil
	})
}

func (t *term) offered(o *Offer) error {
	op, err := t.find(OperationKey{ID: o.Operation})
	if err != nil {
		return err
	}
	if err := t.apply(&core.OfferInput{Operation: op.record.Number, Offered: o.Offered}); err != nil {
		return err
	}
	if spec := t.core.ControllerOf(op.record.Number).Spec(); spec != op.record.Spec {
		// A job of the new task may start before the record is renewed.
		record := *op.record
		record.Spec = spec
		op.record, op.specStored = &record, false
	}
	return nil
}

// Withdraw removes waiting jobs of external operations; see Offers.
func (s *Server) Withdraw(ctx context.Context, jobs []Withdrawal) error {
	_, err := ask(ctx, s, func(t *term) (struct{}, error) {
		for i := range jobs {
			op, err := t.find(OperationKey{ID: jobs[i].Operation})
			if err != nil {
				continue // it has ended
			}
			err = t.apply(&core.WithdrawInput{Operation: op.record.Number, Task: jobs[i].Task, Cookies: jobs[i].Cookies})
			if err != nil && !errors.Is(err, core.ErrNoOperation) {
				return struct{}{}, fmt.Errorf("operation %s: %w", jobs[i].Operation, err)
			}
		}
		return struct{}{}, nil
	})
	return err
}

// EndExternal ends an external operation; see Offers.
func (s *Server) EndExternal(ctx context.Context, who Caller, id guid.ID) error {
	return s.command(ctx, who, OperationKey{ID: id}, func(t *term, number core.OperationID) error {
		if t.operations[number].record.Type != ExternalType {
			return fmt.Errorf("%w: %s", ErrNotExternal, id)
		}
		return t.apply(&core.CompleteInput{Operation: number})
	})
}

// ExternalOperations returns the external operations that have not ended; see Offers.
func (s *Server) ExternalOperations(ctx context.Context) ([]*Operation, error) {
	return ask(ctx, s, func(t *term) (list []*Operation, _ error) {
		for _, number := range t.core.Live() {
			if op := t.operations[number]; op != nil && op.record.Type == ExternalType {
				list = append(list, op.record)
			}
		}
		return list, nil
	})
}

// classesOf decodes the set of constraint classes that a node denies. Classes above the
// largest are left out.
func classesOf(bits []byte) scheduling.Classes {
	bits = bits[:min(len(bits), int(operation.MaxClass/8)+1)]
	classes := make(scheduling.Classes, (len(bits)+7)/8)
	for i := range classes {
		var word [8]byte
		copy(word[:], bits[8*i:])
		classes[i] = binary.LittleEndian.Uint64(word[:])
	}
	return classes
}

// denyClasses tells the core which constraint classes a node denies.
func (t *term) denyClasses(node *activeNode) {
	if len(node.denied) == 0 && !node.denies {
		return
	}
	node.denies = len(node.denied) > 0
	t.happens(&core.DeniedClassesInput{Node: node.id, Denied: classesOf(node.denied)})
}
