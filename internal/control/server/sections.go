package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/guid"
)

// Sections is how a driver learns what tasks demand of its nodes. The jobs of a task with a section kubernetes have the
// constraint class [operation.ClassPending], which the driver's nodes deny, until the driver sets their real class. A new
// leader has forgotten all classes.
type Sections interface {
	// SectionsVersion changes whenever the list of sections does. It does not wait for the leader's loop.
	SectionsVersion() uint64
	// ListSections returns the sections of all operations that have not ended, in the order in which they were started.
	ListSections(ctx context.Context) ([]Section, error)
	// Classify sets the constraint classes of tasks. Operations that have ended are ignored.
	Classify(ctx context.Context, list []Classification) error
}

var _ Sections = (*Server)(nil)

// Section is what a task says about its pods.
type Section struct {
	Operation guid.ID
	Task      string
	// Extra is what start orders of the task have as extra.
	Extra []byte
}

// Classification is the constraint class of a task's jobs.
type Classification struct {
	Operation guid.ID
	Task      string
	Class     operation.Class
	Alone     bool
}

// hasSections reports whether a driver must classify tasks of an operation.
func hasSections(spec *operation.Spec) bool {
	if spec.IsExternal() {
		return false
	}
	for i := range spec.Tasks {
		if !spec.Tasks[i].Value.Kubernetes.IsNull() {
			return true
		}
	}
	return false
}

// holdSections keeps tasks that have a section from starting on nodes of a driver until it has classified them. It must
// follow the operation's start at once.
func (t *term) holdSections(number core.OperationID, spec *operation.Spec) error {
	if !hasSections(spec) {
		return nil
	}
	t.server.sections.Add(1)
	for i := range spec.Tasks {
		if spec.Tasks[i].Value.Kubernetes.IsNull() {
			continue
		}
		if err := t.apply(&core.ClassifyInput{Operation: number, Task: spec.Tasks[i].Name, Class: operation.ClassPending}); err != nil {
			return err
		}
	}
	return nil
}

// SectionsVersion returns the version of the list of sections; see Sections.
func (s *Server) SectionsVersion() uint64 { return s.sections.Load() }

// ListSections returns the sections of all operations that have not ended; see Sections.
func (s *Server) ListSections(ctx context.Context) ([]Section, error) {
	return ask(ctx, s, func(t *term) (list []Section, _ error) {
		for _, number := range t.core.Live() {
			op := t.operations[number]
			if op == nil || !hasSections(op.record.Spec) {
				continue
			}
			for i := range op.record.Spec.Tasks {
				if task := &op.record.Spec.Tasks[i]; !task.Value.Kubernetes.IsNull() {
					list = append(list, Section{op.record.ID, task.Name, kubernetesExtra(task.Value.Kubernetes)})
				}
			}
		}
		return list, nil
	})
}

// Classify sets the constraint classes of tasks; see Sections.
func (s *Server) Classify(ctx context.Context, list []Classification) error {
	_, err := ask(ctx, s, func(t *term) (struct{}, error) {
		for i := range list {
			c := &list[i]
			op, err := t.find(OperationKey{ID: c.Operation})
			if err != nil {
				continue // it has ended
			}
			err = t.apply(&core.ClassifyInput{Operation: op.record.Number, Task: c.Task, Class: c.Class, Alone: c.Alone})
			if err != nil && !errors.Is(err, core.ErrNoOperation) {
				return struct{}{}, fmt.Errorf("operation %s: %w", c.Operation, err)
			}
		}
		return struct{}{}, nil
	})
	return err
}
