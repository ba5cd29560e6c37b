package notify

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/control/store"
)

// Kind is what a notification is about.
type Kind string

const (
	// OperationStarted: an operation got its place among the running ones of its pool.
	OperationStarted Kind = "operation_started"
	// OperationEnded: an operation completed, failed or was aborted.
	OperationEnded Kind = "operation_ended"
	// Starvation: a pool or an operation starves.
	Starvation Kind = "starvation"
	// SchedulerAway: another scheduler has begun to lead.
	SchedulerAway Kind = "scheduler_away"

	// GuaranteeBroken: a pool has lacked some of its guarantee for a while.
	GuaranteeBroken Kind = "guarantee_broken"
	// PreemptionCycle: operations preempt each other in turn.
	PreemptionCycle Kind = "preemption_cycle"
	// VolumeLow: the volume of a burst pool runs out soon.
	VolumeLow Kind = "volume_low"
	// BudgetLow: a budget is low or spent.
	BudgetLow Kind = "budget"

	// dropped tells a target how many notifications it has missed.
	dropped Kind = "dropped"
	// test is sent on demand.
	test Kind = "test"
)

// Kinds are what rules can name.
var Kinds = []Kind{OperationStarted, OperationEnded, Starvation, SchedulerAway, GuaranteeBroken, PreemptionCycle, VolumeLow, BudgetLow}

// kindOf has the kinds of events.
var kindOf = map[string]Kind{
	"operation_running": OperationStarted, "operation_completed": OperationEnded, "operation_failed": OperationEnded,
	"operation_aborted": OperationEnded, "starvation_started": Starvation, "scheduler_started": SchedulerAway,
	"guarantee_broken": GuaranteeBroken, "preemption_cycle": PreemptionCycle, "volume_low": VolumeLow, "budget": BudgetLow,
}

// endOfStarvation is the event that makes a notification of starvation unnecessary if it was not sent yet.
const endOfStarvation = "starvation_finished"

// EventTypes are the types of events that a notifier reads.
var EventTypes = []string{
	"budget", "guarantee_broken", "operation_aborted", "operation_completed", "operation_failed", "operation_running", "preemption_cycle", "scheduler_started",
	endOfStarvation, "starvation_started", "volume_low",
}

// Notice is one event as targets receive it.
type Notice struct {
	// ID is the number of the event. It is the same in every delivery.
	ID   int64     `json:"id"`
	Kind Kind      `json:"kind"`
	Time time.Time `json:"time"`
	Tree string    `json:"tree,omitempty"`
	Pool string    `json:"pool,omitempty"`
	// Operation is its id, and State the state that it ended in.
	Operation string `json:"operation,omitempty"`
	Title     string `json:"title,omitempty"`
	User      string `json:"user,omitempty"`
	State     string `json:"state,omitempty"`
	// Details are the other facts of the event.
	Details map[string]json.RawMessage `json:"details,omitempty"`

	number      int32    // the operation's
	subscribers []string // the targets that the operation names
	over        bool     // this is the end of a starvation
}

// NoticeOf reads an event. It returns false for events that nobody is notified of.
func NoticeOf(e *store.Event) (n Notice, ok bool) {
	kind, known := kindOf[e.Type]
	over := e.Type == endOfStarvation
	if !known && !over {
		return n, false
	}
	n = Notice{ID: e.ID, Kind: kind, Time: e.Time, Tree: e.Tree, Pool: e.Pool, number: e.Operation, over: over}
	var facts map[string]json.RawMessage
	if len(e.Document) > 0 && json.Unmarshal(e.Document, &facts) != nil {
		facts = nil
	}
	for fact, into := range map[string]any{"operation": &n.Operation, "title": &n.Title, "user": &n.User, "notify": &n.subscribers} {
		if value, there := facts[fact]; there && json.Unmarshal(value, into) == nil {
			delete(facts, fact)
		}
	}
	if kind == OperationEnded {
		n.State = e.Type[len("operation_"):]
	}
	if len(facts) > 0 {
		n.Details = facts
	}
	return n, true
}

// Rule selects what targets are notified of. Empty fields do not select.
type Rule struct {
	Kinds            []Kind
	Tree, Pool, User string
	// States are final states of operations.
	States []string
	// After is how long a starvation must last.
	After   time.Duration
	Targets []string
}

// selects reports whether the rule concerns a notice.
func (r *Rule) selects(n *Notice) bool {
	return (len(r.Kinds) == 0 || slices.Contains(r.Kinds, n.Kind)) &&
		(r.Tree == "" || r.Tree == n.Tree) && (r.Pool == "" || r.Pool == n.Pool) && (r.User == "" || r.User == n.User) &&
		(len(r.States) == 0 || slices.Contains(r.States, n.State))
}

// Wants reports whether a target is to be notified, and how long after the event. Of several rules, the shortest time
// holds. An operation notifies the targets that it names of its end.
func Wants(rules []Rule, target string, n *Notice) (after time.Duration, wants bool) {
	if n.Kind == OperationEnded && slices.Contains(n.subscribers, target) {
		return 0, true
	}
	for i := range rules {
		r := &rules[i]
		if !slices.Contains(r.Targets, target) || !r.selects(n) {
			continue
		}
		wait := time.Duration(0)
		if n.Kind == Starvation {
			wait = r.After
		}
		if !wants || wait < after {
			after = wait
		}
		wants = true
	}
	return after, wants
}
