package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/resource"
)

// newTerm builds a core from the stored state.
func (s *Server) newTerm(ctx context.Context, lease store.Lease) (*term, error) {
	state, err := s.store.Load(ctx)
	if err != nil {
		return nil, err
	}
	s.registry.reset(&state.Rows)
	s.Rederive()
	settings := s.settings()
	t := &term{
		server: s, lease: lease, epoch: uint64(lease.Epoch), over: make(chan struct{}),
		requests: make(chan *request, max(settings.HardQueue, longestQueue)), commits: make(chan *batch, 1), committed: make(chan commitResult, 1),
		core: core.New(settings.Core), obeyed: settings, open: &batch{number: 1}, catalogue: newCatalogue(s.store),
		operations: map[core.OperationID]*activeOperation{}, ids: map[guid.ID]core.OperationID{}, aliases: map[string]core.OperationID{},
		lastNumber: core.OperationID(state.LastOperation), jobs: map[core.JobID]*Job{}, nodes: map[string]*activeNode{},
		uploads: map[uploadKey]*upload{}, dirty: map[core.OperationID]changedPart{}, touched: map[core.OperationID]bool{},
		results: map[core.JobID]*nodev1.JobResult{}, awaited: map[string]bool{}, clocks: map[string][]byte{},
		volumes: map[volumeKey][]byte{}, starvation: map[starvingKey]starving{}, promises: map[ledger.Pool]*watchedPromise{},
	}
	t.now = t.clock()
	t.core.Together(atOnce)
	t.record()
	t.deadline = t.now.Add(settings.ConfirmationTimeout)
	s.jobs.clear() // jobs of this server's earlier terms are adopted again
	if err := t.reviveTrees(&state.Rows); err != nil {
		return nil, err
	}
	t.obeyDefaultPools(s.registry) // before operations are placed into their pools
	t.happens(&core.NextJobInput{First: core.JobID(nodeproto.JobNumber(t.epoch, 1))})
	clocks := t.reviveClocks(&state.Rows)
	t.reviveOperations(&state.Rows, clocks)
	if err := t.reviveArchives(ctx); err != nil {
		return nil, err
	}
	t.reviveNodes(&state.Rows)
	t.reviveJobs(&state.Rows)
	t.reviveRegistry(&state.Rows)
	t.reviveProofs()
	if err := s.chronicle.restore(ctx, s.store, t.now); err != nil {
		return nil, err
	}
	if err := s.books.restore(ctx, s.store, &state.Rows, t.now); err != nil {
		return nil, err
	}
	t.open.rows.Put.HistorySeries = seriesList()
	t.event(store.Event{Type: "scheduler_started"}, fact{"epoch", lease.Epoch}, fact{"address", s.address}, fact{"operations", len(t.operations)})
	t.take()
	t.reviving = len(t.awaited) > 0
	t.showRevived()
	t.showHeld()
	clear(s.specs) // the records have them now
	s.loaded.Store(true)
	return t, nil
}

// showRevived publishes the operations as revived from the store, in place of those that this
// server showed as a standby.
func (t *term) showRevived() {
	for id, op := range t.operations {
		if controller := t.core.ControllerOf(id); controller != nil {
			t.renewRecord(op, controller)
			t.server.showOperation(op.record)
		}
	}
	for _, shown := range t.server.operations.all() {
		if t.operations[shown.Number] == nil {
			t.server.hideOperation(shown)
		}
	}
}

func (t *term) reviveTrees(rows *store.Rows) error {
	trees, problems := treesOf(rows, t.server.settings().Templates)
	for _, problem := range problems {
		t.server.log.Error("ignoring a stored pool or pool tree", "problem", problem)
	}
	t.server.alerts.leftOut = problems
	named, err := t.slots.arrange(trees, t.hasOperations)
	if err != nil {
		return err
	}
	if err := t.apply(&core.TreesInput{Trees: named, Default: trees.knownDefault()}); err != nil {
		return err
	}
	t.slots.commit(named)
	t.trees = trees
	t.server.trees.Store(trees)
	t.server.alerts.alertTrees(trees)
	return nil
}

// storedClocks is the stored form of a tree's clocks.
type storedClocks struct {
	Pools      map[string]storedClock           `json:"pools,omitempty"`
	Operations map[core.OperationID]storedClock `json:"operations,omitempty"`
}

type storedClock struct {
	BelowSince time.Time             `json:"below_since"`
	Starvation scheduling.Starvation `json:"starvation,omitempty"`
	// Full states since when limits have left no room; see scheduling.Clock.
	Full [resource.KindCount]int64 `json:"full_since,omitzero"`
}

// clock returns the clock as the core knows it.
func (c storedClock) clock() scheduling.Clock {
	return scheduling.Clock{BelowSince: c.BelowSince, Starvation: c.Starvation, Full: c.Full}
}

// storedClockOf returns the stored form of a clock.
func storedClockOf(c scheduling.Clock) storedClock {
	return storedClock{c.BelowSince, c.Starvation, c.Full}
}

// reviveClocks continues volumes and starvation from their stored state. The time without a
// leader does not count for them.
func (t *term) reviveClocks(rows *store.Rows) map[string]storedClocks {
	clocks := map[string]storedClocks{}
	shift := func(c storedClock, saved time.Time) scheduling.Clock {
		if c.BelowSince.IsZero() {
			return c.clock()
		}
		c.BelowSince = t.now.Add(c.BelowSince.Sub(saved))
		return c.clock()
	}
	states := map[volumeKey]*core.PoolState{}
	at := func(key volumeKey) *core.PoolState {
		if states[key] == nil {
			states[key] = &core.PoolState{Tree: key.tree, Pool: key.pool}
		}
		return states[key]
	}
	for _, row := range rows.Clocks {
		var c storedClocks
		if err := json.Unmarshal(row.Data, &c); err != nil {
			t.server.log.Warn("cannot read the clocks of a tree", "tree", row.Tree, "error", err)
			continue
		}
		for name, clock := range c.Pools {
			at(volumeKey{row.Tree, name}).Clock = shift(clock, row.Updated)
		}
		for id, clock := range c.Operations {
			c.Operations[id] = storedClockOf(shift(clock, row.Updated))
		}
		clocks[row.Tree] = c
	}
	for _, row := range rows.Volumes {
		var state fairshare.State
		if err := json.Unmarshal(row.Volume, &state); err != nil {
			t.server.log.Warn("cannot read the volume of a pool", "tree", row.Tree, "pool", row.Pool, "error", err)
			continue
		}
		at(volumeKey{row.Tree, row.Pool}).State = state
		t.volumes[volumeKey{row.Tree, row.Pool}] = row.Volume
	}
	keys := make([]volumeKey, 0, len(states))
	for key := range states {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b volumeKey) int {
		return strings.Compare(a.tree+"\x00"+a.pool, b.tree+"\x00"+b.pool)
	})
	for _, key := range keys {
		t.happens(&core.PoolStateInput{PoolState: *states[key]})
	}
	return clocks
}

// reviveOperations revives the operations that have not ended. An operation that cannot be
// revived stays in the store and raises an alert, so nothing is lost.
func (t *term) reviveOperations(rows *store.Rows, clocks map[string]storedClocks) {
	specs := map[int32]*store.OperationSpec{}
	for i := range rows.OperationSpecs {
		specs[rows.OperationSpecs[i].Operation] = &rows.OperationSpecs[i]
	}
	snapshots := map[int32]*store.ControllerSnapshot{}
	for i := range rows.ControllerSnapshots {
		snapshots[rows.ControllerSnapshots[i].Operation] = &rows.ControllerSnapshots[i]
	}
	ends := map[int32][]store.Job{}
	for _, job := range rows.Jobs {
		if job.Sequence > 0 {
			ends[job.Operation] = append(ends[job.Operation], job)
		}
	}
	list := slices.Clone(rows.Operations)
	// Operations that ran keep running; operations that waited are placed after them.
	waits := func(o *store.Operation) bool { return o.State == operation.Pending.String() }
	slices.SortStableFunc(list, func(a, b store.Operation) int {
		if waits(&a) != waits(&b) {
			if waits(&b) {
				return -1
			}
			return 1
		}
		return int(a.Number) - int(b.Number)
	})
	var failed []string
	for i := range list {
		if err := t.reviveOperation(&list[i], specs[list[i].Number], snapshots[list[i].Number], ends[list[i].Number], clocks); err != nil {
			t.server.log.Error("cannot revive an operation", "operation", list[i].ID, "error", err)
			failed = append(failed, fmt.Sprintf("%s: %v", list[i].ID, err))
		}
	}
	t.server.alerts.set(AlertRevival, strings.Join(failed, "; "))
}

func (t *term) reviveOperation(row *store.Operation, specs *store.OperationSpec, snapshot *store.ControllerSnapshot, ends []store.Job, clocks map[string]storedClocks) error {
	if specs == nil || snapshot == nil {
		return fmt.Errorf("the specification or the controller snapshot is missing")
	}
	record, err := t.server.recordOf(row, specs)
	if err != nil {
		return err
	}
	revived := &core.Revived{Operation: record.Number, User: record.User, Spec: record.Spec}
	if err := json.Unmarshal(snapshot.Data, &revived.Snapshot); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	op := &activeOperation{
		record: record, position: snapshot.Position, ends: snapshot.Position, snapshotTaken: snapshot.Taken,
		specStored: true, hasFailedJobs: row.HasFailedJobs, stale: true, waited: true,
	}
	for i := range ends {
		end, err := endOf(record, &ends[i])
		if err != nil {
			return fmt.Errorf("job %d: %w", ends[i].Number, err)
		}
		revived.Ends = append(revived.Ends, end)
		op.ends = max(op.ends, ends[i].Sequence)
	}
	for _, p := range row.Pools {
		clock := clocks[p.Tree].Operations[record.Number]
		revived.Places = append(revived.Places, core.Place{
			Tree: p.Tree, Pool: p.Pool, Clock: clock.clock(),
		})
	}
	t.reviveAccount(op)
	t.operations[record.Number] = op
	if err := t.apply(&core.ReviveInput{Revived: *revived}); err != nil {
		delete(t.operations, record.Number)
		return err
	}
	if err := t.holdSections(record.Number, record.Spec); err != nil {
		return err
	}
	t.ids[record.ID] = record.Number
	t.recording.Named(t.now, journalName(record.Number, record))
	if alias := record.Alias(); alias != "" {
		t.aliases[alias] = record.Number
	}
	t.markDirty(record.Number)
	return nil
}

// readSpec is a decoded specification with the row that it was read from.
type readSpec struct {
	row                    *store.OperationSpec
	spec                   *operation.Spec
	provided, unrecognized document.Value
}

// readSpec decodes an operation's specification, unless this server has decoded the same row
// before: a standby polls often, and must be quick when it takes over.
func (s *Server) readSpec(row *store.OperationSpec) (*readSpec, error) {
	if known := s.specs[row.Operation]; known != nil && bytes.Equal(known.row.Resulting, row.Resulting) &&
		bytes.Equal(known.row.Provided, row.Provided) && bytes.Equal(known.row.Unrecognized, row.Unrecognized) {
		return known, nil
	}
	read := &readSpec{row: row}
	resulting, err := notation.ParseJSON("", row.Resulting)
	if err != nil {
		return nil, fmt.Errorf("specification: %w", err)
	}
	specification, err := operation.Read(resulting, operation.ReadOptions{CommandOptional: true, External: true})
	if err != nil {
		return nil, fmt.Errorf("specification: %w", err)
	}
	read.spec = specification.Spec
	if read.provided, err = notation.ParseJSON("", row.Provided); err != nil {
		return nil, fmt.Errorf("provided specification: %w", err)
	}
	if read.unrecognized, err = notation.ParseJSON("", row.Unrecognized); err != nil {
		return nil, fmt.Errorf("unrecognised specification: %w", err)
	}
	s.specs[row.Operation] = read
	return read, nil
}

// recordOf builds an operation's record from its rows.
func (s *Server) recordOf(row *store.Operation, specs *store.OperationSpec) (*Operation, error) {
	id, err := guid.Parse(row.ID)
	if err != nil {
		return nil, err
	}
	record := &Operation{
		Number: core.OperationID(row.Number), ID: id, Type: row.Type, User: row.User, Start: row.StartTime, Finish: row.FinishTime,
	}
	read, err := s.readSpec(specs)
	if err != nil {
		return nil, err
	}
	record.Spec, record.Provided, record.Unrecognized = read.spec, read.provided, read.unrecognized
	for _, p := range row.Pools {
		record.Places = append(record.Places, core.Place{Tree: p.Tree, Pool: p.Pool})
	}
	return record, nil
}

// endOf decodes the end of a job from its row.
func endOf(record *Operation, row *store.Job) (core.RevivedEnd, error) {
	task := slices.IndexFunc(record.Spec.Tasks, func(n document.Named[operation.Task]) bool { return n.Name == row.Task })
	if task < 0 {
		return core.RevivedEnd{}, fmt.Errorf("there is no task %q", row.Task)
	}
	var attributes jobAttributes
	if err := json.Unmarshal(row.Attributes, &attributes); err != nil {
		return core.RevivedEnd{}, err
	}
	end := core.RevivedEnd{At: row.FinishTime}
	end.Operation = record.Number
	end.JobRef = operation.JobRef{Task: int32(task), Cookie: row.Cookie, Incarnation: attributes.Incarnation}
	end.Job = core.JobID(row.Number)
	state := slices.Index(endNames[:], attributes.End)
	if state < 0 {
		return core.RevivedEnd{}, fmt.Errorf("unknown end state %q", attributes.End)
	}
	end.State = core.JobState(state)
	if end.State == core.JobAborted {
		if err := end.Reason.UnmarshalText([]byte(row.AbortReason)); err != nil {
			return core.RevivedEnd{}, err
		}
	}
	if attributes.Failure != nil {
		end.Failure = *attributes.Failure
	}
	end.Usage, end.NotBegun = attributes.Usage, attributes.NotBegun
	return end, nil
}

// reviveNodes reads the nodes' settings. The leader waits for the nodes that were recently
// online.
func (t *term) reviveNodes(rows *store.Rows) {
	// The store does not record every time a node is seen.
	lately := t.server.settings().Core.NodeTimeout + nodeStorePeriod
	var latest time.Time
	for _, row := range rows.Nodes {
		if row.LastSeen.After(latest) {
			latest = row.LastSeen
		}
	}
	for _, row := range rows.Nodes {
		node := t.newNode(row.Address)
		var stored storedNode
		if err := json.Unmarshal(row.Document, &stored); len(row.Document) > 0 && err != nil {
			t.server.log.Warn("cannot read the settings of a node", "node", row.Address, "error", err)
		}
		node.settings, node.was = stored.NodeSettings, stored.Reported
		node.settings.restore()
		record := &Node{Name: row.Address, LastSeen: row.LastSeen}
		record.Tags = mergeTags(nil, node.settings.UserTags, row.Address)
		if len(t.operations) > 0 && latest.Sub(row.LastSeen) < lately && !row.LastSeen.IsZero() && !t.expect(node, record, stored.Reported) {
			t.awaited[row.Address] = true
		}
		t.showNode(node, record)
	}
}

// expect adds a predecessor's node to the core before it reports, if everything that it may run
// is stored. Otherwise nothing can be scheduled before it has reported.
func (t *term) expect(node *activeNode, record *Node, reported *reportedNode) bool {
	if reported == nil {
		return false
	}
	record.Limits, record.Tags = reported.Limits, reported.Tags
	if err := t.addNode(node, record); err != nil {
		t.server.log.Warn("cannot add a node of the last leader", "node", record.Name, "error", err)
		return false
	}
	if node.known {
		node.reported = true
		t.happens(&core.AwaitInput{Node: node.id, Until: t.deadline})
	}
	return true
}

// reviveJobs adopts the jobs that the predecessor's nodes may still run. The jobs of other nodes
// were given up.
func (t *term) reviveJobs(rows *store.Rows) {
	for i := range rows.Jobs {
		row := &rows.Jobs[i]
		node := t.nodes[row.Node]
		if row.Sequence > 0 || !row.FinishTime.IsZero() || node == nil || !node.reported {
			continue
		}
		if err := t.reviveJob(row, node); err != nil {
			t.server.log.Info("cannot revive a job", "job", guid.OfJob(row.Number), "node", row.Node, "reason", err)
		}
	}
}

func (t *term) reviveJob(row *store.Job, node *activeNode) error {
	op := t.operations[core.OperationID(row.Operation)]
	if op == nil {
		return core.ErrNoOperation
	}
	var attributes jobAttributes
	if err := json.Unmarshal(row.Attributes, &attributes); err != nil {
		return err
	}
	if attributes.Holds == nil {
		return fmt.Errorf("its resources are not stored")
	}
	task := slices.IndexFunc(op.record.Spec.Tasks, func(n document.Named[operation.Task]) bool { return n.Name == row.Task })
	adopted := core.Adopted{
		Job: core.JobID(row.Number), Operation: op.record.Number,
		JobRef: operation.JobRef{Task: int32(task), Cookie: row.Cookie, Incarnation: attributes.Incarnation},
		Node:   node.id, Resources: *attributes.Holds, Started: row.StartTime,
		UserFactor: attributes.UserFactor, ProxyFactor: attributes.ProxyFactor, Unconfirmed: true,
	}
	if err := t.apply(&core.AdoptInput{Adopted: adopted}); err != nil {
		return err
	}
	t.putJob(&Job{
		Number: adopted.Job, ID: guid.OfJob(row.Number), Operation: adopted.Operation, JobRef: adopted.JobRef, TaskName: row.Task,
		Tree: row.Tree, Node: row.Node, State: "running", Start: adopted.Started, Resources: adopted.Resources, Usage: adopted.Resources,
		Stage: attributes.Stage, node: node.id,
	})
	t.server.counters.adopted.Add(1)
	return nil
}

// reviveRegistry loads the registry.
func (t *term) reviveRegistry(rows *store.Rows) {
	t.registry = newRegistry()
	t.registry.reset(rows)
	t.server.alerts.set(AlertTokens, unreadableTokens(rows))
}
