package operation

import (
	"fmt"
	"slices"
	"time"
)

// State is the state of an operation.
type State uint8

const (
	NoState State = iota
	Starting
	WaitingForAgent
	Initializing
	Preparing
	Pending
	Materializing
	Running
	Orphaned
	ReviveInitializing
	Reviving
	RevivingJobs
	Completing
	Completed
	Failing
	Failed
	Aborting
	Aborted

	stateCount
)

var stateNames = [stateCount]string{
	"none", "starting", "waiting_for_agent", "initializing", "preparing", "pending", "materializing", "running",
	"orphaned", "revive_initializing", "reviving", "reviving_jobs",
	"completing", "completed", "failing", "failed", "aborting", "aborted",
}

// String returns the name that clients see.
func (s State) String() string { return nameOf(stateNames[:], s, "State") }

// IsFinishing reports whether the end is decided but not yet recorded.
func (s State) IsFinishing() bool { return s == Completing || s == Failing || s == Aborting }

// IsFinished reports whether the operation has ended; its state never changes
// again.
func (s State) IsFinished() bool { return s == Completed || s == Failed || s == Aborted }

// AllowsUpdate reports whether parameters may be changed now. Between an
// operation's admission and its first job they are in use.
func (s State) AllowsUpdate() bool {
	return s != NoState && s != Materializing && s != RevivingJobs && !s.IsFinishing() && !s.IsFinished()
}

func nameOf[E ~uint8](names []string, e E, what string) string {
	if int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("%s(%d)", what, uint8(e))
}

func valueOf[E ~uint8](names []string, text []byte, what string) (E, error) {
	i := slices.Index(names, string(text))
	if i < 0 {
		return 0, fmt.Errorf("unknown %s %q", what, text)
	}
	return E(i), nil
}

// MarshalText returns the name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name.
func (s *State) UnmarshalText(text []byte) (err error) {
	*s, err = valueOf[State](stateNames[:], text, "state")
	return err
}

// Step is an event that moves an operation to another state.
type Step uint8

const (
	Register       Step = iota // the operation passed the initial checks and its record is stored
	Assign                     // a controller is chosen
	Initialize                 // the controller has validated the specification
	Prepare                    // the tasks are known
	Admit                      // a pool tree lets the operation run
	Materialize                // jobs can start
	Orphan                     // the controller was lost, as in a restart of the scheduler
	ReviveWithJobs             // an orphan is revived with the jobs it had
	ReviveClean                // an orphan is revived from the beginning
	Complete                   // all jobs are completed, or the user completes the operation
	Fail                       // the operation cannot continue
	Abort                      // the operation is aborted on request
	Commit                     // the decision is recorded
	stepCount
)

var stepNames = [stepCount]string{
	"register", "assign", "initialize", "prepare", "admit", "materialize", "orphan", "revive_with_jobs", "revive_clean",
	"complete", "fail", "abort", "commit",
}

// String returns the name of the step.
func (s Step) String() string { return nameOf(stepNames[:], s, "Step") }

// Transition is a row of the transition table.
type Transition struct {
	From State
	Step Step
	To   State
	// When restricts the row to operations that were revived in one of these
	// ways; empty means always.
	When []Revival
}

// Revival is how an operation was revived after its controller was lost.
type Revival uint8

const (
	NotRevived Revival = iota
	RevivedWithJobs
	RevivedClean

	revivalCount
)

var revivalNames = [revivalCount]string{"not_revived", "revived_with_jobs", "revived_clean"}

// String returns the name of the revival.
func (r Revival) String() string { return nameOf(revivalNames[:], r, "Revival") }

// MarshalText returns the name.
func (r Revival) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the name.
func (r *Revival) UnmarshalText(text []byte) (err error) {
	*r, err = valueOf[Revival](revivalNames[:], text, "revival")
	return err
}

var (
	// unfinished are the states in which the end is not decided.
	unfinished = []State{
		Starting, WaitingForAgent, Initializing, Preparing, Pending, Materializing, Running,
		Orphaned, ReviveInitializing, Reviving, RevivingJobs,
	}
	// recorded are the unfinished states that survive a restart.
	recorded = []State{
		WaitingForAgent, Initializing, Preparing, Pending, Materializing, Running,
		ReviveInitializing, Reviving, RevivingJobs,
	}
)

// transitions is the complete table. Any other transition is refused.
var transitions = buildTransitions()

func buildTransitions() []Transition {
	table := []Transition{
		{From: Starting, Step: Register, To: WaitingForAgent},
		{From: WaitingForAgent, Step: Assign, To: Initializing, When: []Revival{NotRevived}},
		{From: WaitingForAgent, Step: Assign, To: ReviveInitializing, When: []Revival{RevivedWithJobs, RevivedClean}},
		{From: Initializing, Step: Initialize, To: Preparing},
		{From: ReviveInitializing, Step: Initialize, To: Reviving},
		{From: Preparing, Step: Prepare, To: Pending},
		{From: Reviving, Step: Prepare, To: Pending},
		{From: Pending, Step: Admit, To: Materializing, When: []Revival{NotRevived, RevivedClean}},
		{From: Pending, Step: Admit, To: RevivingJobs, When: []Revival{RevivedWithJobs}},
		{From: Materializing, Step: Materialize, To: Running},
		{From: RevivingJobs, Step: Materialize, To: Running},
		{From: Orphaned, Step: ReviveWithJobs, To: WaitingForAgent},
		{From: Orphaned, Step: ReviveClean, To: WaitingForAgent},
		{From: Running, Step: Complete, To: Completing},
		{From: Completing, Step: Commit, To: Completed},
		{From: Failing, Step: Commit, To: Failed},
		{From: Aborting, Step: Commit, To: Aborted},
		// A commit can fail, and can be cancelled.
		{From: Completing, Step: Fail, To: Failing},
		{From: Completing, Step: Abort, To: Aborting},
		// Repeated requests change nothing.
		{From: Failing, Step: Fail, To: Failing},
		{From: Failing, Step: Abort, To: Failing},
		{From: Aborting, Step: Fail, To: Aborting},
		{From: Aborting, Step: Abort, To: Aborting},
	}
	for _, s := range recorded {
		table = append(table, Transition{From: s, Step: Orphan, To: Orphaned})
	}
	for _, s := range unfinished {
		table = append(table, Transition{From: s, Step: Fail, To: Failing})
		if s != Orphaned { // an orphan remembers the request; see Life.After
			table = append(table, Transition{From: s, Step: Abort, To: Aborting})
		}
	}
	return table
}

// Transitions returns the table, for documentation.
func Transitions() []Transition { return slices.Clone(transitions) }

// Attribute is a detail of an event.
type Attribute struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Event is an entry in the history of an operation: when it entered a state.
type Event struct {
	Time       time.Time   `json:"time"`
	State      State       `json:"state"`
	Attributes []Attribute `json:"attributes,omitempty"`
}

// Life is the state of an operation with its history. It is a value: methods
// return a new one.
type Life struct {
	State State `json:"state"`
	// Suspended operations keep their state and get no new jobs.
	Suspended bool    `json:"suspended,omitempty"`
	Revival   Revival `json:"revival"`
	// AbortRequested is set when an orphan must be aborted as soon as it is
	// revived.
	AbortRequested bool    `json:"abort_requested,omitempty"`
	Events         []Event `json:"events"`
}

// NewLife returns a life in the state starting.
func NewLife(now time.Time) Life {
	return Life{State: Starting, Events: []Event{{Time: now, State: Starting}}}
}

// StateError reports that a step is not possible in a state.
type StateError struct {
	State State
	What  string
}

func (e *StateError) Error() string {
	return fmt.Sprintf("cannot %s an operation that is %v", e.What, e.State)
}

// After returns the life after a step.
func (l Life) After(step Step, now time.Time, attributes ...Attribute) (Life, error) {
	switch {
	case l.State == Orphaned && step == Abort:
		l.AbortRequested = true
		return l, nil
	case l.State == Orphaned && l.AbortRequested && (step == ReviveWithJobs || step == ReviveClean):
		return l.enter(Aborting, now, attributes), nil
	}
	for i := range transitions {
		row := &transitions[i]
		if row.From != l.State || row.Step != step || len(row.When) > 0 && !slices.Contains(row.When, l.Revival) {
			continue
		}
		switch step {
		case ReviveWithJobs:
			l.Revival = RevivedWithJobs
		case ReviveClean:
			l.Revival = RevivedClean
		}
		if row.To == l.State {
			return l, nil
		}
		return l.enter(row.To, now, attributes), nil
	}
	return l, &StateError{State: l.State, What: step.String()}
}

// enter never writes into the events of the original life.
func (l Life) enter(s State, now time.Time, attributes []Attribute) Life {
	l.State = s
	l.Events = append(slices.Clip(l.Events), Event{Time: now, State: s, Attributes: attributes})
	return l
}

// Suspend returns the life with the flag set.
func (l Life) Suspend() (Life, error) {
	if l.State.IsFinishing() || l.State.IsFinished() || l.State == NoState {
		return l, &StateError{State: l.State, What: "suspend"}
	}
	l.Suspended = true
	return l, nil
}

// Resume returns the life with the flag cleared. Operations that are not
// suspended cannot be resumed.
func (l Life) Resume() (Life, error) {
	if !l.Suspended || l.State.IsFinishing() || l.State.IsFinished() {
		return l, &StateError{State: l.State, What: "resume"}
	}
	l.Suspended = false
	return l, nil
}
