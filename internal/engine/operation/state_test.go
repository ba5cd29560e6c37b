package operation

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var clock = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// walk makes steps and returns the states in between.
func walk(t *testing.T, l Life, steps ...Step) (Life, string) {
	t.Helper()
	var states []string
	for _, step := range steps {
		next, err := l.After(step, clock)
		if err != nil {
			t.Fatalf("after %v: %v", states, err)
		}
		l = next
		states = append(states, l.State.String())
	}
	return l, strings.Join(states, " ")
}

func TestAnOperationLivesThroughItsStates(t *testing.T) {
	toRunning := []Step{Register, Assign, Initialize, Prepare, Admit, Materialize}
	cases := []struct {
		name  string
		steps []Step
		want  string
	}{
		{"completed", append(slices.Clone(toRunning), Complete, Commit),
			"waiting_for_agent initializing preparing pending materializing running completing completed"},
		{"failed while initializing", []Step{Register, Assign, Fail, Commit}, "waiting_for_agent initializing failing failed"},
		{"aborted while pending", []Step{Register, Assign, Initialize, Prepare, Abort, Commit},
			"waiting_for_agent initializing preparing pending aborting aborted"},
		{"failed commit", append(slices.Clone(toRunning), Complete, Fail, Commit),
			"waiting_for_agent initializing preparing pending materializing running completing failing failed"},
		{"revived with its jobs", append(slices.Clone(toRunning), Orphan, ReviveWithJobs, Assign, Initialize, Prepare, Admit, Materialize),
			"waiting_for_agent initializing preparing pending materializing running orphaned waiting_for_agent revive_initializing reviving pending reviving_jobs running"},
		{"revived from the beginning", append(slices.Clone(toRunning), Orphan, ReviveClean, Assign, Initialize, Prepare, Admit, Materialize),
			"waiting_for_agent initializing preparing pending materializing running orphaned waiting_for_agent revive_initializing reviving pending materializing running"},
		{"abort of an orphan is executed when it is taken up", []Step{Register, Orphan, Abort, ReviveWithJobs, Commit},
			"waiting_for_agent orphaned orphaned aborting aborted"},
		{"repeated ends are ignored", []Step{Register, Fail, Fail, Abort, Commit}, "waiting_for_agent failing failing failing failed"},
		{"abort wins over a commit", append(slices.Clone(toRunning), Complete, Abort, Abort, Fail, Commit),
			"waiting_for_agent initializing preparing pending materializing running completing aborting aborting aborting aborted"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			life, got := walk(t, NewLife(clock), c.steps...)
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			// Repeated requests add no events.
			events := 1
			last := "starting"
			for _, s := range strings.Fields(got) {
				if s != last {
					events++
				}
				last = s
			}
			if len(life.Events) != events {
				t.Errorf("%d events, want %d", len(life.Events), events)
			}
		})
	}
}

func TestCompleteIsPossibleOnlyFromRunningAndAbortFromEverywhereButTheEnd(t *testing.T) {
	for s := range stateCount {
		l := Life{State: s}
		_, err := l.After(Complete, clock)
		if (err == nil) != (s == Running) {
			t.Errorf("complete from %v: %v", s, err)
		}
		_, err = l.After(Abort, clock)
		if (err != nil) != (s == NoState || s.IsFinished()) {
			t.Errorf("abort from %v: %v", s, err)
		}
		var refused *StateError
		if err != nil && (!errors.As(err, &refused) || refused.State != s) {
			t.Errorf("abort from %v: %v", s, err)
		}
	}
}

func TestParametersAreFixedBetweenAdmissionAndTheFirstJob(t *testing.T) {
	var allowed []string
	for s := range stateCount {
		if s.AllowsUpdate() {
			allowed = append(allowed, s.String())
		}
	}
	want := "starting waiting_for_agent initializing preparing pending running orphaned revive_initializing reviving"
	if got := strings.Join(allowed, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSuspendedIsAFlag(t *testing.T) {
	l, _ := walk(t, NewLife(clock), Register)
	if _, err := l.Resume(); err == nil || err.Error() != "cannot resume an operation that is waiting_for_agent" {
		t.Errorf("resume: %v", err)
	}
	l, err := l.Suspend()
	if err != nil || !l.Suspended || l.State != WaitingForAgent {
		t.Fatalf("%+v, %v", l, err)
	}
	l, _ = walk(t, l, Assign, Orphan, ReviveWithJobs)
	if !l.Suspended {
		t.Error("the flag did not survive")
	}
	if l, err = l.Resume(); err != nil || l.Suspended {
		t.Errorf("%+v, %v", l, err)
	}
	l, _ = walk(t, l, Abort)
	if _, err := l.Suspend(); err == nil {
		t.Error("a finishing operation was suspended")
	}
}

// A copy's life must not write into the original's.
func TestLivesDoNotShareTheirEvents(t *testing.T) {
	l, _ := walk(t, NewLife(clock), Register, Assign)
	a, _ := walk(t, l, Initialize)
	b, _ := walk(t, l, Abort)
	if a.Events[3].State != Preparing || b.Events[3].State != Aborting {
		t.Errorf("%v, %v", a.Events, b.Events)
	}
}

func TestNamesOfStatesAndReasonsReadBack(t *testing.T) {
	for s := range stateCount {
		var back State
		if text, err := json.Marshal(s); err != nil || json.Unmarshal(text, &back) != nil || back != s {
			t.Errorf("%v: %s, %v, %v", s, text, err, back)
		}
	}
	for r := range AbortReasonCount {
		var back AbortReason
		if err := back.UnmarshalText([]byte(r.String())); err != nil || back != r {
			t.Errorf("%v: %v, %v", r, back, err)
		}
	}
	for r := range revivalCount {
		var back Revival
		if err := back.UnmarshalText([]byte(r.String())); err != nil || back != r {
			t.Errorf("%v: %v, %v", r, back, err)
		}
	}
	var s State
	if err := s.UnmarshalText([]byte("dancing")); err == nil || !strings.Contains(err.Error(), `unknown state "dancing"`) {
		t.Errorf("%v", err)
	}
	if got := State(200).String() + " " + Block(9).String(); got != "State(200) Block(9)" {
		t.Error(got)
	}
}

// Whatever happens, an operation that is asked to end and to commit ends.
func TestPropertyEveryLifeCanEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewLife(clock)
		for range rapid.IntRange(0, 30).Draw(t, "length") {
			step := Step(rapid.IntRange(0, int(stepCount)-1).Draw(t, "step"))
			next, err := l.After(step, clock)
			if err != nil && (next.State != l.State || len(next.Events) != len(l.Events)) {
				t.Fatalf("a refused step changed %+v into %+v", l, next)
			}
			if l.State.IsFinished() && next.State != l.State {
				t.Fatalf("%v came back to life as %v", l.State, next.State)
			}
			l = next
		}
		if l.State.IsFinished() {
			return
		}
		for _, step := range []Step{Abort, ReviveWithJobs, Commit} {
			l, _ = l.After(step, clock)
		}
		if !l.State.IsFinished() {
			t.Fatalf("still %v", l.State)
		}
	})
}
