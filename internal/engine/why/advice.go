package why

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Actor is who must act to make a change.
type Actor uint8

const (
	// User: the user of the operation.
	User Actor = iota
	// Owner: the owner of a pool, or of another operation.
	Owner
	Administrator
	// Nobody: it happens by itself.
	Nobody
)

// String returns the name of the actor in outputs.
func (a Actor) String() string { return [...]string{"user", "owner", "administrator", "nobody"}[a] }

// Knob is a kind of change.
type Knob uint8

const (
	KnobResume      Knob = iota // resume the operation
	KnobPool                    // move it to another pool
	KnobTree                    // start it again in another tree
	KnobFilter                  // drop a tag filter
	KnobNeed                    // start it again with smaller jobs
	KnobLimit                   // raise resource_limits
	KnobShareRatio              // raise max_share_ratio
	KnobCount                   // raise max_running_operation_count
	KnobWeight                  // raise a weight
	KnobTimeout                 // starve earlier
	KnobAggressive              // let its pool starve aggressively
	KnobVictim                  // let a pool be preempted
	KnobSuspend                 // suspend another operation
	KnobAbort                   // abort another operation
	KnobGuarantee               // raise a strong guarantee
	KnobReleaseNode             // let a node get jobs again
	KnobNodes                   // add nodes
	KnobWait                    // wait

	knobCount
)

var knobNames = [knobCount]string{
	"resume", "pool", "pool_tree", "tag_filter", "job_resources", "resource_limits", "max_share_ratio", "max_running_operation_count", "weight",
	"starvation_timeout", "aggressive_starvation", "allow_preemption", "suspend_operation", "abort_operation", "strong_guarantee", "release_node",
	"add_nodes", "wait",
}

// String returns the name of the knob in outputs.
func (k Knob) String() string { return knobNames[k] }

// ParseKnob returns the knob with a name.
func ParseKnob(name string) (Knob, bool) {
	i := slices.Index(knobNames[:], name)
	return Knob(max(i, 0)), i >= 0
}

// Knobs returns the names of all knobs.
func Knobs() []string { return slices.Clone(knobNames[:]) }

// AllJobs as the number of a question's jobs means all that wait.
const AllJobs = -1

// Question asks for the least changes that let an operation start jobs in one
// round.
type Question struct {
	Operation core.OperationID
	// Jobs is how many of its jobs must start. Zero means one, or all jobs of a gang.
	Jobs int
	// By is how long the jobs may take to start; zero means one round. Ahead runs a core
	// on for that long, and returns how many jobs of an operation start and when the
	// first does. It must be set if By is, and may change the core.
	By    time.Duration
	Ahead func(c *core.Core, gates Gates, id core.OperationID) (starts int, first time.Time)
	// Upto excludes changes that somebody above this actor would have to make.
	Upto Actor
	// Knobs are the only ones to try; empty means all.
	Knobs []Knob
	// MayUse reports whether the asker may start operations in a pool; nil means in
	// all of them.
	MayUse func(tree, pool string) bool
	// Feasible returns why nodes cannot keep the guarantees of a tree; nil accepts
	// all guarantees.
	Feasible func(name string, tree *pooltree.Tree) error
}

// Outcome is the kind of an answer.
type Outcome uint8

const (
	// StartsNow: enough jobs start without any change, now or in time.
	StartsNow Outcome = iota
	// Found: a change helps.
	Found
	// Waits: no change helps, but waiting does.
	Waits
	// Never: it cannot start even in an empty tree. There may be fixes that add
	// larger nodes or need less.
	Never
	// NoneWithinBounds: nothing that was tried helps.
	NoneWithinBounds
)

// String returns the name of the outcome in outputs.
func (o Outcome) String() string {
	return [...]string{"starts_now", "found", "wait", "never", "none_within_bounds"}[o]
}

// Change is one knob at one value.
type Change struct {
	Knob Knob
	Who  Actor
	Tree string
	// Pool is the pool whose option changes, or to which the operation moves; empty
	// if the operation itself changes. Option is the name of the option.
	Pool, Option string
	// From and To are the values before and after. They are amounts of Resource if
	// HasResource.
	From, To    document.Value
	Resource    resource.Kind
	HasResource bool
	FromAmount  int64
	ToAmount    int64
	Task        string
	// Limits are all own limits of the operation after the change.
	Limits resource.Partial
	// Operation is the other operation to suspend, abort or wait for.
	Operation core.OperationID
	// Running reports that the jobs of the other operation are aborted.
	Running bool
	// Node is the node to release or to copy, Count the number of nodes to add, and
	// Resources what each of them has.
	Node      string
	Count     int
	Resources resource.Amounts
	// Jobs are the jobs to wait for, and Until is when they end at the latest, zero if
	// unknown.
	Jobs  []core.JobInfo
	Until time.Time

	edits   []treeEdit
	inputs  []core.Input
	opens   []core.NodeID // nodes whose gates open
	waits   bool          // the round takes place at Until
	restart bool          // the operation gets another identifier
}

// Fix is a set of changes that is sufficient, with its effects in one round.
type Fix struct {
	// Changes are made together; usually there is one.
	Changes []Change
	// Minimal reports that less of any of the changes was tried and is not enough;
	// otherwise they are sufficient.
	Minimal bool
	Who     Actor
	// Operation is the operation whose jobs start: another number if it is started
	// again. Starts is how many start, the first on Node.
	Operation core.OperationID
	Starts    int
	Node      string
	// First is when the first of them starts, zero if that is now.
	First time.Time
	Harm  Harm
	// Inputs make the changes, Opens are nodes that get jobs again, and At is when the
	// round takes place: later than the answer's time only for a fix that waits for a
	// time.
	Inputs []core.Input
	Opens  []core.NodeID
	At     time.Time

	distance float64 // how large the changes are
}

// Harm is what a fix costs others in the round.
type Harm struct {
	// Stopped are running jobs of others that end early. Lost is the CPU time that
	// they lose, in hundredths of a core times microseconds.
	Stopped int
	Lost    int64
	// OwnStopped and OwnLost are the same of the operation itself.
	OwnStopped int
	OwnLost    int64
	// Broken are guarantees of others that break, or lack more than without the fix.
	Broken []core.Guarantee
	// Delayed are operations of which fewer jobs start than without the fix.
	Delayed []core.OperationID
}

// LostSeconds returns the CPU time that others lose, in core seconds.
func (h *Harm) LostSeconds() float64 { return float64(h.Lost) / 100 / 1e6 }

// OwnLostSeconds returns the CPU time that the operation itself loses.
func (h *Harm) OwnLostSeconds() float64 { return float64(h.OwnLost) / 100 / 1e6 }

// Attempt is a knob that does not help.
type Attempt struct {
	// Change is the knob at the end of its range, or at the value that was refused.
	Change Change
	// Refused is the sentence of the validator that refuses it, empty if it does not
	// help.
	Refused string
}

// Advice is the answer to a question.
type Advice struct {
	AsOf    time.Time
	Outcome Outcome
	// Jobs is how many jobs must start; Starts is how many start without any change.
	Jobs, Starts int
	// First is when the first job starts without any change, if the question has a time
	// and a job starts by then.
	First time.Time
	// Gates must open first. The fixes assume that they have.
	Gates []Gate
	// Blockers are what the operation waits for.
	Blockers []Blocker
	// Fixes are in order: who must act, harm to others, size of the change. There are
	// at most seven; Further is the number of others that were found.
	Fixes   []Fix
	Further int
	// Tried are knobs that do not help, NotTried those for which there was no time.
	Tried    []Attempt
	NotTried []Change
	// Tests is the number of rounds on forks.
	Tests int
}

// Bounds of an answer.
const (
	mostFixes      = 7
	mostCandidates = 24
	mostTests      = 64
)

// Advise searches for the least changes that let an operation start jobs in a
// round. It tests every change on a fork. When proceed returns false it stops, and
// the answer names what was not tried. proceed is called often and may wait.
func (s *Scene) Advise(q Question, proceed func() bool) (*Advice, error) {
	if closed := s.gates.Cluster; len(closed) > 0 && q.By == 0 {
		open := s.gates
		open.Cluster = nil
		a, err := LookSlowly(s.before.Fork(), s.now, open, proceed).Advise(q, proceed)
		if err != nil {
			return nil, err
		}
		a.Gates = closed
		if a.Outcome == StartsNow {
			a.Outcome = Waits
		}
		return a, nil
	}
	x, err := s.operation(q.Operation, true)
	if err != nil {
		return nil, err
	}
	a := &adviser{scene: s, question: q, proceed: proceed, facts: x}
	a.Advice = Advice{AsOf: s.now, Jobs: s.goal(q, x), Starts: x.Starts, Blockers: x.Blockers}
	if x.Starts > 0 {
		a.Blockers = x.Then
	}
	if q.By > 0 {
		a.Starts, a.First = q.Ahead(s.before.Fork(), s.gates, q.Operation)
	}
	if a.Starts >= a.Jobs && a.Jobs > 0 {
		return &a.Advice, nil
	}
	a.search()
	a.settle()
	return &a.Advice, nil
}

// goal returns how many jobs must start.
func (s *Scene) goal(q Question, x *Operation) int {
	waiting := 0
	for i := range x.Kinds {
		waiting = max(waiting, int(x.Kinds[i].Waiting))
	}
	if controller := s.core.ControllerOf(q.Operation); controller != nil {
		waiting = max(waiting, controller.PendingJobCount())
		if gang, is := controller.Gang(); is && q.Jobs == 0 {
			if controller.Spec().IsGang.Value() {
				return waiting
			}
			return max(gang.Lack, 1)
		}
	}
	if q.Jobs == AllJobs {
		return waiting
	}
	return max(q.Jobs, 1)
}

// settle orders the fixes and decides on the outcome.
func (a *adviser) settle() {
	slices.SortStableFunc(a.Fixes, func(x, y Fix) int {
		return cmp.Or(
			cmp.Compare(x.Who, y.Who), cmp.Compare(x.Harm.Lost, y.Harm.Lost), cmp.Compare(len(x.Harm.Broken), len(y.Harm.Broken)),
			cmp.Compare(x.Harm.OwnLost, y.Harm.OwnLost), cmp.Compare(len(x.Changes), len(y.Changes)), cmp.Compare(x.distance, y.distance),
			cmp.Compare(x.Changes[0].Knob, y.Changes[0].Knob), cmp.Compare(y.Starts, x.Starts))
	})
	never := a.never()
	a.Outcome = NoneWithinBounds
	if never {
		a.Outcome = Never
	}
	for i := range a.Fixes {
		waits, grows := true, true
		for _, c := range a.Fixes[i].Changes {
			waits = waits && c.Knob == KnobWait
			grows = grows && (c.Knob == KnobNodes || c.Knob == KnobNeed)
		}
		switch {
		case waits && a.Outcome != Found:
			a.Outcome = Waits
		case !waits && !(grows && never):
			a.Outcome = Found
		}
	}
	if more := len(a.Fixes) - mostFixes; more > 0 {
		a.Further, a.Fixes = more, a.Fixes[:mostFixes]
	}
}

// never reports whether no kind could start even in an empty tree.
func (a *adviser) never() bool {
	for i := range a.facts.Kinds {
		if !slices.ContainsFunc(a.facts.Kinds[i].Blockers, func(b Blocker) bool { return b.Code.Class() == ClassNever }) {
			return false
		}
	}
	return len(a.facts.Kinds) > 0
}
