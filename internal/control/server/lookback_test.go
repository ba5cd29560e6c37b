package server

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/recorder"
	"github.com/weirhq/weir/internal/engine/why"
	"github.com/weirhq/weir/internal/sim/ahead"
	"github.com/weirhq/weir/internal/value/notation"
)

// hashOf returns the hash of the live core.
func hashOf(s *scheduler) [32]byte {
	s.t.Helper()
	sum, err := ask(s.t.Context(), s.Server, func(t *term) ([32]byte, error) { return t.core.Hash() })
	if err != nil {
		s.t.Fatal(err)
	}
	return sum
}

// TestQuestionsAboutThePastAreAnswered lets an operation wait, then run. Asked about the time before, the scheduler says what it
// waited for, and what a change would have done.
func TestQuestionsAboutThePastAreAnswered(t *testing.T) {
	s, _ := leadRecorded(t)
	s.pools("{pools: {p: {resource_limits: {cpu: 0}}}}")
	m := newMachine(t, "node-1", 4)
	m.beat(s)
	number := s.number(fmt.Sprintf(small, "p", 2))
	update := func() {
		before := s.View().At
		s.eventually("an update", func() bool { m.beat(s); return s.View().At.After(before) })
	}
	update()
	past := s.View().At
	update()
	s.pools("{pools: {p: {}}}")
	s.eventually("it runs", func() bool { m.beat(s); return len(m.jobs) == 2 })
	answer, err := s.ExplainOperation(t.Context(), "anna", number, false, past) // at once: the moment is in the journal
	if err != nil {
		t.Fatal(err)
	}
	if x := answer.Value; len(x.Blockers) == 0 || x.Blockers[0].Code.Class() != why.ClassNever || answer.Glass.AsOf.After(past) {
		t.Errorf("at %v it waited for %+v", answer.Glass.AsOf, x.Blockers)
	}
	again, err := s.ExplainPool(t.Context(), "boris", "default", "p", past)
	if err != nil || again.Glass != answer.Glass {
		t.Errorf("a second question about the moment: %v", err)
	}
	if name := again.Glass.NameOf(s.Server, number); name != s.NameOf(number) {
		t.Errorf("the operation was called %s", name)
	}
	w, err := s.WhatIfAt(t.Context(), "anna", past, func(names ahead.Names) (*ahead.Plan, error) {
		return readPlan(names, "changes: [{pool: p, set: {resource_limits: {cpu: 4}}}]")
	})
	if err != nil || w.Value.Before.JobsStarted != 0 || w.Value.After.JobsStarted == 0 {
		t.Errorf("what if: %+v, %v", w.Value, err)
	}
	now, err := s.ExplainOperation(t.Context(), "anna", number, false, time.Time{})
	if err != nil || now.Value.Blockers[0].Code != why.NoWaitingJobs {
		t.Errorf("now: %+v, %v", now.Value, err)
	}
	s.stop()
}

func readPlan(names ahead.Names, text string) (*ahead.Plan, error) {
	v, err := notation.Parse("document", []byte(text))
	if err != nil {
		return nil, err
	}
	return ahead.Read(v, "document", names)
}

// leadRecorded leads with a journal.
func leadRecorded(t *testing.T) (*scheduler, *recorder.Recorder) {
	t.Helper()
	directory := t.TempDir()
	recorded, err := recorder.New(recorder.Options{Directory: directory + "/journal", Build: "test", Keep: time.Hour, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return leadWith(t, directory, Options{Settings: asking(), Recorder: recorded}), recorded
}

// TestBadQuestionsAreRefusedAndChangeNothing asks what cannot be answered: each error says what is wrong, and
// the hash of the live core stays.
func TestBadQuestionsAreRefusedAndChangeNothing(t *testing.T) {
	s, recorded := leadRecorded(t)
	s.pools("{pools: {p: {}}}")
	m := newMachine(t, "node-1", 4)
	m.beat(s)
	number := s.number(fmt.Sprintf(small, "p", 2))
	s.eventually("it runs", func() bool { m.beat(s); return len(m.jobs) == 2 })
	past := s.View().At
	if _, err := s.ExplainPool(t.Context(), "anna", "default", "p", past); err != nil {
		t.Fatal(err)
	}
	segments, err := recorded.List()
	if err != nil || len(segments) == 0 {
		t.Fatalf("%d segments, %v", len(segments), err)
	}
	quiet := func(question func() error) error { // the core's own updates are no changes by the question
		for range 50 {
			before := hashOf(s)
			err := question()
			if hashOf(s) == before {
				return err
			}
		}
		t.Error("the hash of the live core changes with the question")
		return nil
	}
	explain := func(asOf time.Time) error {
		s.past.mutex.Lock()
		s.past.glass = nil
		s.past.mutex.Unlock()
		_, err := s.ExplainCluster(t.Context(), "anna", asOf)
		return err
	}
	whatIf := func(text string) func() error {
		return func() error {
			_, err := s.WhatIfAt(t.Context(), "boris", past, func(names ahead.Names) (*ahead.Plan, error) { return readPlan(names, text) })
			return err
		}
	}
	file, err := os.ReadFile(segments[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := func(data []byte) func() error {
		return func() error {
			if err := os.WriteFile(segments[0].Path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			return explain(past)
		}
	}
	corrupt := append([]byte(nil), file...)
	for i := len(corrupt) / 2; i < len(corrupt)/2+16; i++ {
		corrupt[i] ^= 0x55
	}
	for _, c := range []struct {
		name string
		ask  func() error
		want string
	}{
		{"a change that is refused", whatIf("changes: [{pool: p, set: {weight: -1}}]"), "weight"},
		{"an unknown option", whatIf("changes: [{pool: p, set: {wieght: 1}}]"), "wieght"},
		{"an unknown pool", whatIf("changes: [{pool: q, set: {weight: 1}}]"), "q"},
		{"an unknown operation", whatIf("changes: [{abort: nobody}]"), "nobody"},
		{"a horizon beyond the bounds", whatIf("for: 25h"), "at most 1d"},
		{"an operation that never was", func() error {
			_, err := s.ExplainOperation(t.Context(), "anna", number+100, false, time.Time{})
			return err
		}, "ended"},
		{"an operation that was not there then", func() error {
			_, err := s.ExplainOperation(t.Context(), "anna", number+100, false, past)
			return err
		}, "did not run or wait"},
		{"a pool that does not exist", func() error {
			_, err := s.ExplainPool(t.Context(), "anna", "default", "nothing", time.Time{})
			return err
		}, "nothing"},
		{"a moment before the journal", func() error { return explain(past.Add(-48 * time.Hour)) }, "the journal has nothing about this time"},
		{"a journal that is cut in its first frame", damaged(file[:20]), "the journal"},
		{"a corrupted journal", damaged(corrupt), "journal"},
	} {
		err := quiet(c.ask)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
	s.stop()
}
