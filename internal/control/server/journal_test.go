package server

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/recorder"
	"github.com/weirhq/weir/internal/engine/journal"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/why"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/test/expected"
)

// playAll plays all files of a journal.
func playAll(t *testing.T, r *recorder.Recorder) *journal.Player {
	t.Helper()
	list, err := r.List()
	if err != nil || len(list) == 0 {
		t.Fatalf("%d segments, %v", len(list), err)
	}
	var files []io.Reader
	for _, s := range list {
		file, err := os.Open(s.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		files = append(files, file)
	}
	p := journal.NewPlayer(io.MultiReader(files...))
	if err := p.Until(time.Time{}); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTheJournalOfTwoLeadersReplaysExactly runs operations under a leader and its
// successor, with changes of pools, settings and nodes, and replays what they
// recorded.
func TestTheJournalOfTwoLeadersReplaysExactly(t *testing.T) {
	directory := t.TempDir()
	recorded, err := recorder.New(recorder.Options{
		Directory: directory + "/journal", Build: "test", Keep: time.Hour, Log: slog.New(slog.DiscardHandler), SegmentTime: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	settings := quickSettings()
	settings.UpdatePeriod = 20 * time.Millisecond
	m := newMachine(t, "node-1", 4)
	for term := range 2 {
		s := leadWith(t, directory, Options{Settings: settings, Recorder: recorded})
		s.pools(fmt.Sprintf("{pools: {p: {weight: %d}, q: {mode: fifo}}}", term+2))
		m.beat(s)
		s.start(fmt.Sprintf(small, "p", 6))
		id := s.start(fmt.Sprintf(small, "q", 5))
		s.eventually("jobs run", func() bool { m.beat(s); return len(m.jobs) == 4 })
		refused, err := operation.Read(expected.Document(t, "{pool_trees: [unknown], tasks: {t: {job_count: 1, command: 'true'}}}"), operation.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.StartOperation(t.Context(), tester, Start{Type: "vanilla", User: "anna", Spec: refused}); err == nil {
			t.Error("an operation in an unknown tree is accepted")
		}
		for range 5 {
			m.beat(s)
			if number := m.some(); number != 0 {
				m.end(number, nodev1.JobState_JOB_STATE_COMPLETED, "")
			}
		}
		if term == 1 {
			if err := s.AbortOperation(t.Context(), tester, OperationKey{ID: id}, "enough"); err != nil {
				t.Fatal(err)
			}
		}
		segments := recorded.Counters().Segments
		s.eventually("another segment", func() bool { m.beat(s); return recorded.Counters().Segments > segments })
		s.stop()
	}
	p := playAll(t, recorded)
	if p.Played.Segments < 4 || p.Played.Started < 8 || p.Played.Updates < 10 || p.Played.Checkpoints < 2 {
		t.Errorf("%+v", p.Played)
	}
	if len(p.Played.Gaps) != 2 || p.Played.Gaps[0].Why != journal.EndTerm || p.Played.Gaps[1].Why != journal.EndTerm {
		t.Errorf("gaps %+v", p.Played.Gaps)
	}
	if len(p.Names) != 4 {
		t.Errorf("%d operations have names", len(p.Names))
	}
	for _, n := range p.Names {
		if strings.Count(n.ID, "-") != 3 {
			t.Errorf("name %+v", n)
		}
	}
}

// TestTheJournalKnowsGates bans a node: an answer about that moment says so.
func TestTheJournalKnowsGates(t *testing.T) {
	directory := t.TempDir()
	recorded, err := recorder.New(recorder.Options{Directory: directory + "/journal", Build: "test", Keep: time.Hour, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := leadWith(t, directory, Options{Settings: quickSettings(), Recorder: recorded})
	s.pools("{pools: {p: {}}}")
	m := newMachine(t, "node-1", 4)
	m.beat(s)
	if err := s.EditNode(t.Context(), tester, "node-1", func(settings *NodeSettings) error {
		settings.SetMaintenanceFlag(Ban, true, "root", time.Now())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s.start(fmt.Sprintf(small, "p", 1))
	banned := time.Now()
	s.eventually("an update has seen the ban", func() bool { m.beat(s); return s.View().At.After(banned) })
	s.stop()
	p := playAll(t, recorded)
	gates := recorder.GatesOf(p)
	if len(gates.Nodes) != 1 || gates.Nodes[0].Name != "node-1" || gates.Nodes[0].Code != why.NodeBanned {
		t.Fatalf("the journal has the gates %+v", gates)
	}
	x, err := why.Look(p.Core, p.Now, gates).Pool("default", "p", func() bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Rows) != 1 || x.Rows[0].Blocker.Code != why.NodeGated {
		t.Errorf("the pool waits for %+v", x.Rows)
	}
}
