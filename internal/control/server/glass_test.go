package server

import (
	"errors"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/why"
)

// asking returns settings under which questions are limited only where a test says so.
func asking() Settings {
	s := quickSettings()
	s.AnalysisCPU, s.QuestionsPerMinute = 64, 1_000_000
	return s
}

func (s *scheduler) number(spec string) core.OperationID {
	s.t.Helper()
	op, ok := s.operations.get(s.start(spec))
	if !ok {
		s.t.Fatal("the operation is not there")
	}
	return op.Number
}

const waitingJob = "{pool: research, tasks: {map: {command: sleep, job_count: 3}}}"

func TestAGlassIsMadeOncePerPeriodAndShared(t *testing.T) {
	settings := asking()
	settings.UpdatePeriod = time.Hour
	s := leadWith(t, t.TempDir(), Options{Settings: settings})
	s.pools("pools: {research: {}}")
	id := s.number(waitingJob)
	first, err := s.ExplainOperation(t.Context(), "anna", id, false, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	made := s.counters.glasses.Load()
	for range 5 {
		again, err := s.ExplainOperation(t.Context(), "boris", id, true, time.Time{})
		if err != nil || again.Glass != first.Glass || again.Glass.Epoch != s.term.Load().epoch {
			t.Fatalf("glass %v, want %v; %v", again.Glass, first.Glass, err)
		}
	}
	if got := s.counters.glasses.Load(); got != made {
		t.Errorf("%d glasses were made, want %d", got, made)
	}
	// An operation that is younger than the glass is explained on a fresh one.
	young := s.number(waitingJob)
	if x, err := s.ExplainOperation(t.Context(), "anna", young, false, time.Time{}); err != nil || x.Glass == first.Glass {
		t.Errorf("a young operation: %v", err)
	}
	if _, err := s.ExplainOperation(t.Context(), "anna", young+100, false, time.Time{}); !errors.Is(err, ErrOperationEnded) {
		t.Errorf("an unknown operation: %v", err)
	}
	s.glass.mutex.Lock()
	s.glass.asked = time.Now().Add(-2 * glassPatience)
	s.glass.mutex.Unlock()
	s.dropGlass()
	if s.glass.current != nil {
		t.Error("the glass is kept though nobody asks")
	}
}

func TestAUserAsksNoMoreThanTheLimit(t *testing.T) {
	settings := asking()
	settings.QuestionsPerMinute = 2
	s := leadWith(t, t.TempDir(), Options{Settings: settings})
	s.pools("pools: {research: {}}")
	s.number(waitingJob)
	ask := func(user string) error {
		_, err := s.ExplainCluster(t.Context(), user, time.Time{})
		return err
	}
	if err := errors.Join(ask("anna"), ask("anna"), ask("boris")); err != nil {
		t.Fatal(err)
	}
	if err := ask("anna"); !errors.Is(err, ErrBusy) || !errors.Is(err, ErrOverloaded) {
		t.Errorf("the third question: %v", err)
	}
	if err := ask("boris"); err != nil {
		t.Errorf("another user: %v", err)
	}
}

func TestGatesAreBlockers(t *testing.T) {
	s := leadWith(t, t.TempDir(), Options{Settings: asking()})
	s.pools("pools: {research: {}}")
	m := newMachine(t, "node-1", 4)
	m.beat(s)
	if _, err := ask(t.Context(), s.Server, func(t *term) (struct{}, error) {
		node := t.nodes["node-1"]
		node.settings.DisableJobs = true
		record := *node.record
		err := t.addNode(node, &record)
		t.showNode(node, &record)
		return struct{}{}, err
	}); err != nil {
		t.Fatal(err)
	}
	id := s.number(waitingJob)
	x, err := s.ExplainOperation(t.Context(), "anna", id, true, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	list := x.Value.Blockers
	if len(list) != 1 || list[0].Code != why.NodeGated || list[0].Gates[why.NodeJobsDisabled] != 1 || list[0].Sole != why.SoleYes || list[0].Starts != 3 {
		t.Errorf("%+v", list)
	}
	if _, err := ask(t.Context(), s.Server, func(t *term) (struct{}, error) {
		t.reviving, t.deadline, t.awaited = true, t.now.Add(time.Hour), map[string]bool{"node-9": true}
		return struct{}{}, nil
	}); err != nil {
		t.Fatal(err)
	}
	s.eventually("the gate is closed", func() bool {
		x, err := s.ExplainOperation(t.Context(), "anna", id, false, time.Time{})
		return err == nil && x.Value.Blockers[0].Code == why.SchedulerReviving && x.Value.Blockers[0].Nodes == 1
	})
}
