package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/guid"
)

// term is one reign of this server: the core with everything around it. All of
// it belongs to the loop, except where a field says otherwise.
type term struct {
	server *Server
	lease  store.Lease
	epoch  uint64
	over   chan struct{} // closed when the term is over

	catalogue *catalogue // everybody reads it

	requests  chan *request
	commits   chan *batch
	committed chan commitResult
	// stalledSince is when the commit in flight began, in nanoseconds after the server
	// did, zero if there is none. Everybody reads it.
	stalledSince atomic.Int64

	now  time.Time
	core *core.Core
	// obeyed are the settings that the core has.
	obeyed *Settings
	out    core.Decisions
	// beat is filled again for each node that asks for work.
	beat core.HeartbeatInput
	open *batch
	// flight is the batch that is being committed, nil if none is.
	flight *batch
	// durable is the number of the last batch that is on disk.
	durable uint64
	// answerNow is set by a request whose answer rests on no commit.
	answerNow bool

	trees      *Trees
	registry   *Registry
	slots      treeSlots
	operations map[core.OperationID]*activeOperation
	ids        map[guid.ID]core.OperationID
	aliases    map[string]core.OperationID
	lastNumber core.OperationID
	jobs       map[core.JobID]*Job
	nodes      map[string]*activeNode
	nodeList   []*activeNode // by core.NodeID
	sessions   uint64        // number of the last one
	uploads    map[uploadKey]*upload
	proofs     proofs

	// dirty are operations whose rows are out of date, touched those whose
	// progress is.
	dirty   map[core.OperationID]bool
	touched map[core.OperationID]bool
	// endings are operations that have ended and whose last rows are to be
	// written, later ends of jobs that the core is to hear of next, and results
	// what nodes have told of ends that the core is hearing of.
	endings []core.OperationID
	later   []core.Finished
	results map[core.JobID]*nodev1.JobResult

	// reviving is true until nodes of the predecessor had their chance; awaited
	// are those that have not come yet.
	reviving bool
	deadline time.Time
	awaited  map[string]bool

	failure       error // ends the term when it is set
	overloaded    bool
	lastProgress  time.Time
	lastHistory   time.Time
	lastSelfCheck time.Time
	selfCheckCost time.Duration
	clocks        map[string][]byte // what is stored of each tree's clocks
	volumes       map[volumeKey][]byte
	starvation    map[starvingKey]starving
	states        []core.PoolState
}

// activeOperation is an operation that has not ended.
type activeOperation struct {
	record *Operation
	// specs are what nodes are told, by task.
	specs []*nodev1.JobSpec
	// ends is the number of jobs that have ended, position how many of them the
	// stored snapshot knows.
	ends, position int64
	snapshotTaken  time.Time
	// stale says that the stored snapshot does not suffice together with the
	// ends: it must be stored with the rows at hand.
	stale         bool
	specStored    bool
	hasFailedJobs bool
	// final is the controller of an operation that has ended.
	final *operation.Controller
}

// activeNode is a machine that has registered in this term, or that
// administrators have said something about.
type activeNode struct {
	id       core.NodeID
	known    bool // to the core
	reported bool // all of its jobs are known; see storedNode
	record   *Node
	session  *nodeproto.Session
	told     nodeproto.Settings // when it registered
	retold   bool               // they have changed since
	settings NodeSettings
	tags     []string // that its agent registered with
	storedAt time.Time
}

type volumeKey struct{ tree, pool string }

// run leads until the lease is lost, the context ends, or something cannot be
// mended.
func (t *term) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	workers.Go(func() { t.committer(ctx) })
	workers.Go(func() { t.retain(ctx) })
	workers.Go(func() { t.keepCatalogue(ctx) })
	t.now = t.clock()
	t.show()
	t.server.publishTerm(t)
	err := t.loop(ctx)
	t.server.publishTerm(nil)
	cancel(err)
	if !errors.Is(err, context.Canceled) {
		close(t.over) // nobody waits for a store that may not answer
		workers.Wait()
		return err
	}
	workers.Wait()
	t.farewell()
	close(t.over)
	return err
}

// apply makes an input happen to the core, whose decisions take carries out. The
// daemon changes its core in no other way.
func (t *term) apply(input core.Input) error { return t.core.Apply(t.now, input, &t.out) }

// happens applies an input that the core never refuses.
func (t *term) happens(input core.Input) {
	if err := t.apply(input); err != nil {
		panic(fmt.Sprintf("%T was refused: %v", input, err))
	}
}

// stillLeading asks the store. An answer that says "it is so already" without a
// commit may otherwise come from a leader that was replaced and does not know.
func (t *term) stillLeading(ctx context.Context) error {
	_, err := t.server.ledger.Commit(ctx, t.lease, &store.Batch{})
	if errors.Is(err, store.ErrFenced) {
		return ErrNotLeading
	}
	return err
}
