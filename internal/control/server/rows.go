package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/document"
)

// store adds the rows of changed operations to the open batch.
func (t *term) store() error {
	for _, id := range slices.Sorted(maps.Keys(t.dirty)) {
		if err := t.storeOperation(t.operations[id], t.dirty[id]); err != nil {
			return fmt.Errorf("operation %d: %w", id, err)
		}
	}
	clear(t.dirty)
	for _, id := range t.endings {
		t.forget(id)
	}
	t.endings = t.endings[:0]
	return nil
}

// storeOperation updates the record of an operation and writes its rows if more than its progress
// has changed. It publishes the record to readers when all that it tells is on disk. The progress of
// an operation that goes on is not stored: a successor computes it.
func (t *term) storeOperation(op *activeOperation, part changedPart) error {
	controller := op.final
	if controller == nil {
		controller = t.core.ControllerOf(op.record.Number)
		t.renewRecord(op, controller)
	}
	record := op.record
	put := &t.open.rows.Put
	if part == changedOperation || !op.specStored {
		row, err := operationRow(op)
		if err != nil {
			return err
		}
		put.Operations = append(put.Operations, row)
		progress, err := progressRow(record)
		if err != nil {
			return err
		}
		put.OperationProgress = append(put.OperationProgress, progress)
	}
	if !op.specStored {
		spec, err := specRow(record)
		if err != nil {
			return err
		}
		put.OperationSpecs = append(put.OperationSpecs, spec)
		op.specStored = true
	}
	if op.stale {
		data, err := json.Marshal(controller.Snapshot())
		if err != nil {
			return err
		}
		put.ControllerSnapshots = append(put.ControllerSnapshots, store.ControllerSnapshot{
			Operation: int32(record.Number), Position: op.ends, Taken: t.now, Data: data,
		})
		op.position, op.stale, op.snapshotTaken = op.ends, false, t.now
	}
	t.open.published = append(t.open.published, func(store.Receipt) { t.server.showOperation(record) })
	return nil
}

// renewRecord builds a record of an operation's current state.
func (t *term) renewRecord(op *activeOperation, controller *operation.Controller) {
	record := *op.record
	life := controller.Life()
	if controller.Spec() != record.Spec {
		record.Spec = controller.Spec()
		op.specStored = false
	}
	record.State, record.Suspended, record.Events = life.State, life.Suspended, slices.Clone(life.Events)
	record.Result = controller.Result()
	record.Places = t.core.PlacesOf(record.Number)
	if record.State != operation.Pending {
		record.Waiting = nil
	}
	record.count(controller, t.now)
	op.record = &record
}

// forget removes an ended operation. Readers find it until the store has it.
func (t *term) forget(id core.OperationID) {
	op := t.operations[id]
	delete(t.operations, id)
	delete(t.ids, op.record.ID)
	if hasSections(op.record.Spec) {
		t.server.sections.Add(1)
	}
	delete(t.touched, id)
	if alias := op.record.Alias(); alias != "" && t.aliases[alias] == id {
		delete(t.aliases, alias)
	}
	record := op.record
	t.open.published = append(t.open.published, func(store.Receipt) { t.server.hideOperation(record) })
}

// storedParameters are an operation's runtime parameters that are not in its
// specification.
type storedParameters struct {
	Places []storedPlace `json:"places"`
}

type storedPlace struct {
	Tree string `json:"tree"`
	Pool string `json:"pool"`
}

func operationRow(op *activeOperation) (store.Operation, error) {
	o := op.record
	row := store.Operation{
		Number: int32(o.Number), ID: o.ID.String(), Alias: o.Alias(), Type: o.Type, User: o.User, State: o.State.String(),
		Suspended: o.Suspended, Title: o.Spec.Title.Value(), StartTime: o.Start, FinishTime: o.Finish, HasFailedJobs: op.hasFailedJobs,
		Events: mustJSON(o.Events),
	}
	var parameters storedParameters
	for _, p := range o.Places {
		row.Pools = append(row.Pools, store.TreePool{Tree: p.Tree, Pool: p.Pool})
		parameters.Places = append(parameters.Places, storedPlace{p.Tree, p.Pool})
	}
	slices.SortFunc(row.Pools, func(a, b store.TreePool) int { return cmp.Compare(a.Tree, b.Tree) })
	row.RuntimeParameters = mustJSON(parameters)
	if o.Result != nil {
		row.Result = mustJSON(o.Result)
	}
	brief, err := o.BriefSpec().JSON("")
	if err != nil {
		return row, err
	}
	row.BriefSpec = brief
	var names []string
	for i := range o.Spec.Tasks {
		names = append(names, o.Spec.Tasks[i].Name)
	}
	row.Filter = strings.Join(names, " ")
	return row, nil
}

// BriefSpec returns the part of a specification that lists of operations show.
func (o *Operation) BriefSpec() document.Value {
	brief := document.Map()
	if title, given := o.Spec.Title.Get(); given {
		brief = brief.With("title", document.Text(title))
	}
	if alias := o.Alias(); alias != "" {
		brief = brief.With("alias", document.Text(alias))
	}
	if len(o.Places) > 0 {
		brief = brief.With("pool", document.Text(o.Places[0].Pool))
	}
	return brief
}

func progressRow(o *Operation) (row store.OperationProgress, err error) {
	row = store.OperationProgress{Operation: int32(o.Number), Built: o.Built}
	if row.Brief, err = o.BriefProgress().JSON(""); err != nil {
		return row, err
	}
	row.Progress, err = o.FullProgress().JSON("")
	return row, err
}

func specRow(o *Operation) (row store.OperationSpec, err error) {
	row.Operation = int32(o.Number)
	if row.Provided, err = o.Provided.JSON(""); err != nil {
		return row, err
	}
	if row.Unrecognized, err = o.Unrecognized.JSON(""); err != nil {
		return row, err
	}
	row.Resulting, err = o.Spec.Document(document.ForPrograms).JSON("")
	return row, err
}
