package why

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// Code is a condition that is false. Codes are in the order of their ranks.
type Code uint8

const (
	// Gates: nothing starts anywhere.
	SchedulerReviving Code = iota
	SchedulerOverloaded
	StoreUnavailable
	// Never: false even in an empty tree with all gates open.
	JobLargerThanLimit
	JobLargerThanAnyNode
	NoNodeMatches
	TreeWithoutNodes
	// The state of the operation.
	OperationNotRunning
	OperationSuspended
	OperationFailing
	OperationBacksOff
	NoWaitingJobs
	CountLimit
	// Limits of the operation and of pools above it.
	Limit
	// Shares.
	AboveShareGraceful
	// Nodes.
	NodeResources
	NodeFilter
	NodeBan
	NodeConstraints
	NodeGated
	Packing
	Gang
	// The order in which operations are served.
	TurnFIFO
	TurnSatisfaction

	codeCount
)

var codeNames = [codeCount]string{
	"scheduler_reviving", "scheduler_overloaded", "store_unavailable",
	"job_larger_than_limit", "job_larger_than_any_node", "no_node_matches", "tree_without_nodes",
	"operation_not_running", "operation_suspended", "operation_failing", "operation_backs_off", "no_waiting_jobs", "count_limit",
	"limit", "above_share_graceful",
	"node_resources", "node_filter", "node_banned", "constraints", "node_gate", "packing", "gang",
	"turn_fifo", "turn_satisfaction",
}

// String returns the name of the code in outputs.
func (c Code) String() string { return codeNames[c] }

// Codes returns all codes in the order of their ranks.
func Codes() (list []Code) {
	for c := range codeCount {
		list = append(list, c)
	}
	return list
}

// Class is the rank class of a code: blockers of a lower class come first.
type Class uint8

const (
	ClassGate Class = iota
	ClassNever
	ClassState
	ClassLimit
	ClassShare
	ClassNodes
	ClassTurn
)

// String returns the name of the class in outputs.
func (c Class) String() string {
	return [...]string{"gate", "never", "state", "limit", "share", "nodes", "turn"}[c]
}

// Class returns the rank class of a code.
func (c Code) Class() Class {
	switch {
	case c <= StoreUnavailable:
		return ClassGate
	case c <= TreeWithoutNodes:
		return ClassNever
	case c <= CountLimit:
		return ClassState
	case c == Limit:
		return ClassLimit
	case c == AboveShareGraceful:
		return ClassShare
	case c <= Gang:
		return ClassNodes
	}
	return ClassTurn
}

// Sole states whether removing a blocker alone lets a job start in a round.
type Sole uint8

const (
	SoleUnknown Sole = iota
	SoleYes
	SoleNo
)

// Blocker is one reason why jobs of a kind do not start, with the amounts that show
// it.
type Blocker struct {
	Code Code
	Tree string
	// Task is the task concerned, empty for all tasks.
	Task string
	// Pool is the pool with the limit, the count or the filter; empty if it is the
	// operation itself, or there is none.
	Pool string
	// Distance is how many levels above the operation the pool is.
	Distance int
	Option   scheduling.LimitOption // of a limit

	// Resource is the scarce resource; HasResource reports whether there is one.
	// Need is what a job needs of it and Short what is missing. A limit has Limit and
	// Used; nodes have Free, the most that one of them has left.
	Resource                       resource.Kind
	HasResource                    bool
	Need, Short, Limit, Used, Free int64
	// Fragmented reports that the nodes have enough together, but none alone.
	Fragmented bool
	// Spare reports that Need is what a node must have free before it takes any job, which is
	// more than a job needs.
	Spare bool

	// Nodes counts the nodes concerned, TooSmall those that are too small even when
	// empty. Names are the first of them; Gates counts them by gate.
	Nodes, TooSmall int
	Names           []string
	Gates           [NodeAwaited + 1]int

	// Running, Most and Ahead are the operations that run in a full pool, its limit,
	// and the operations that wait in front of this one; Waiting is the length of the
	// leader's queue.
	Running, Most, Ahead, Waiting int

	// Holders hold most of what is short, largest first; Others and OthersAmount are
	// the rest.
	Holders      []core.Holding
	Others       int
	OthersAmount int64
	// Rivals are served first, in the order of their starts; OtherRivals is the
	// number of further ones. Own is the operation's satisfaction.
	Rivals      []Rival
	OtherRivals int
	Own         float64

	// Since is since when it blocks, zero if unknown. SinceLastStart reports that it
	// is the time of the operation's last start in the tree. Until is when it ends at
	// the latest, zero if unknown.
	Since, Until   time.Time
	SinceLastStart bool
	Detail         string
	// Gang is what a gang waits for.
	Gang core.GangExplanation

	// Sole states whether its removal alone lets jobs start, and Starts how many.
	Sole   Sole
	Starts int

	at    []scheduling.Node // the nodes without room
	tree  core.TreeID
	task  int32
	need  resource.Amounts
	owner core.OperationID
}

// Rival is an operation that is served first.
type Rival struct {
	Operation    core.OperationID
	Pool         string
	Jobs         int // that start in the round
	Satisfaction float64
}

// most is how many holders, rivals and nodes a blocker names.
const most = 5

// rank sorts blockers: by class, sole ones first, those nearest to the operation
// first, then by code, tree, task and resource.
func rank(list []Blocker) {
	slices.SortStableFunc(list, func(a, b Blocker) int {
		return cmp.Or(
			cmp.Compare(a.Code.Class(), b.Code.Class()), cmp.Compare(notSole(a.Sole), notSole(b.Sole)), cmp.Compare(a.Distance, b.Distance),
			cmp.Compare(a.Code, b.Code), cmp.Compare(a.tree, b.tree), cmp.Compare(a.task, b.task), cmp.Compare(a.Resource, b.Resource))
	})
}

func notSole(s Sole) int {
	if s == SoleYes {
		return 0
	}
	return 1
}

// hold sets the holders.
func (b *Blocker) hold(list []core.Holding) {
	for i := range list {
		if i < most {
			b.Holders = append(b.Holders, list[i])
			continue
		}
		b.Others++
		b.OthersAmount += list[i].Amount
	}
}
