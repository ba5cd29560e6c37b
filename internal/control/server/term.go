package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/internal/control/recorder"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/journal"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/guid"
)

// term is one period in which this server leads: the core with everything around it.
// Only the loop uses it, except where a field states otherwise.
type term struct {
	server *Server
	lease  store.Lease
	epoch  uint64
	over   chan struct{} // closed when the term ends

	catalogue *catalogue // any goroutine may read it

	requests  chan *request
	commits   chan *batch
	committed chan commitResult
	// stalledSince is when the commit in flight started, in nanoseconds after the
	// server's start; zero if there is none. Any goroutine may read it.
	stalledSince atomic.Int64
	// busy reports whether the loop worked for more than busyLoop of the time before its last update.
	busy atomic.Bool

	now    time.Time
	steady steadyClock
	core   *core.Core
	// recording is the journal of the core's inputs, nil if there is none.
	recording *recorder.Recording
	// obeyed are the settings that the core has now.
	obeyed *Settings
	out    core.Decisions
	// beat is reused for every node that asks for work.
	beat core.HeartbeatInput
	open *batch
	// flight is the batch that is being committed, nil if none is. closed are the batches to commit after it, oldest
	// first.
	flight *batch
	closed []*batch
	// durable is the number of the last batch that is on disk.
	durable uint64
	// answerNow is set by a request whose answer depends on no commit; serving is the request that runs, nil once
	// its answer is held.
	answerNow bool
	serving   *request
	held      heldBeats

	trees *Trees
	// retrying is true while an edit that puts stored node filters into force runs. Any
	// goroutine may write it.
	retrying   atomic.Bool
	registry   *Registry
	slots      treeSlots
	operations map[core.OperationID]*activeOperation
	ids        map[guid.ID]core.OperationID
	aliases    map[string]core.OperationID
	lastNumber core.OperationID
	jobs       map[core.JobID]*Job
	nodes      map[string]*activeNode
	nodeList   []*activeNode // by core.NodeID
	sessions   uint64        // the number of the last session
	uploads    map[uploadKey]*upload
	proofs     proofs
	running    runningJobs

	// dirty are the operations whose records are to be renewed, and what has changed. touched
	// are those whose progress has changed since it was published.
	dirty   map[core.OperationID]changedPart
	touched map[core.OperationID]bool
	// endings are ended operations whose last rows are still to be written. later are
	// ends of jobs to pass to the core next. results are what nodes have reported
	// about the ends that the core is processing.
	endings []core.OperationID
	later   []core.Finished
	results map[core.JobID]*nodev1.JobResult

	// reviving is true until the predecessor's nodes have had their chance to report;
	// awaited are the nodes that have not reported yet.
	reviving bool
	deadline time.Time
	awaited  map[string]bool

	failure    error // if set, the term ends
	overloaded bool
	// overloadedSince is when the current overload was noticed, and begun when the term started.
	overloadedSince, begun time.Time
	revision               int64 // of the store, as of the last commit
	lastProgress           time.Time
	lastHistory            time.Time
	lastSelfCheck          time.Time
	selfCheckCost          time.Duration
	clocks                 map[string][]byte // each tree's clocks as stored
	volumes                map[volumeKey][]byte
	starvation             map[starvingKey]starving
	states                 []core.PoolState
	promises               map[ledger.Pool]*watchedPromise
	news                   []news // for the forecaster, since the last update
}

// changedPart is what has changed about an operation since its rows were written.
type changedPart int8

// Parts, each of which includes the ones before it.
const (
	changedProgress changedPart = iota + 1
	changedOperation
)

// activeOperation is an operation that has not ended.
type activeOperation struct {
	record *Operation
	// specs are the job specifications sent to nodes, by task.
	specs []*nodev1.JobSpec
	// account is how nodes sign in to the registries of its images.
	account operation.Account
	// kept are the files that the next attempts of jobs get.
	kept map[work]*archive
	// ends is the number of jobs that have ended; position is how many of them the
	// stored snapshot includes.
	ends, position int64
	snapshotTaken  time.Time
	// stale reports whether the stored snapshot and the ends after it do not suffice:
	// a new snapshot must be stored with the pending rows.
	stale         bool
	specStored    bool
	hasFailedJobs bool
	begun         bool    // a job of it has started in this term
	waited        bool    // its wait for the first job is accounted
	labels        *string // of its account; nil until it has one
	// shadows are what learning would do for its tasks; nil until the first end of a job.
	shadows []*operation.Shadow
	// final is the controller of an ended operation.
	final *operation.Controller
}

// activeNode is a node that has registered in this term, or that administrators have
// configured.
type activeNode struct {
	id       core.NodeID
	known    bool // whether the core knows it
	reported bool // whether all of its jobs are known; see storedNode
	record   *Node
	session  *nodeproto.Session
	streams  bool               // whether it connects jobs with callers
	told     nodeproto.Settings // the settings of the last answer that had any
	retold   bool               // whether they have changed since it registered
	settings NodeSettings
	tags     []string // the tags that its agent registered with
	storedAt time.Time
	held     *heldBeat     // the heartbeat whose answer waits for orders, nil if none does
	was      *reportedNode // what it was in an earlier term, nil if unknown
	denied   []byte        // the constraint classes that it denies, one bit each
	denies   bool          // whether the core has been told of some
}

type volumeKey struct{ tree, pool string }

// run leads until the lease is lost, ctx is cancelled, or an unrecoverable error
// occurs.
func (t *term) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	workers.Go(func() { t.committer(ctx) })
	workers.Go(func() { t.retain(ctx) })
	workers.Go(func() { t.verifyNightly(ctx) })
	workers.Go(func() { t.watchBudgets(ctx) })
	workers.Go(func() { t.collectContents(ctx) })
	workers.Go(func() { t.keepCatalogue(ctx) })
	t.server.forecasts.forgetNews()
	workers.Go(func() { t.forecast(ctx) })
	t.now = t.clock()
	t.begun = t.now
	t.show()
	t.auditShells()
	t.server.publishTerm(t)
	err := t.loop(ctx)
	defer t.recording.Close()
	t.server.publishTerm(nil)
	cancel(err)
	if !errors.Is(err, context.Canceled) {
		close(t.over) // no caller waits for a store that may not answer
		workers.Wait()
		return err
	}
	workers.Wait()
	t.farewell()
	close(t.over)
	return err
}

// apply applies an input to the core; take carries out the resulting decisions. The
// daemon changes its core in no other way.
func (t *term) apply(input core.Input) error {
	mark := journal.MarkOf(&t.out)
	err := t.core.Apply(t.now, input, &t.out)
	if t.recording != nil {
		t.recording.Applied(t.now, input, err != nil, mark.Since(&t.out))
	}
	return err
}

// happens applies an input that the core never refuses.
func (t *term) happens(input core.Input) {
	if err := t.apply(input); err != nil {
		panic(fmt.Sprintf("%T was refused: %v", input, err))
	}
}

// stillLeading asks the store whether this server leads. Without it, an answer that
// needs no commit ("already done") might come from a leader that was replaced and does
// not know it.
func (t *term) stillLeading(ctx context.Context) error {
	_, err := t.server.leases.Commit(ctx, t.lease, &store.Batch{})
	if errors.Is(err, store.ErrFenced) {
		return ErrNotLeading
	}
	return err
}
