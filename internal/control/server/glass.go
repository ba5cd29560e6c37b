package server

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/why"
)

// glassPatience is how long a glass is kept after the last question.
const glassPatience = time.Minute

// Glass is a frozen fork of the leader's core with the gates of its moment. Analyses look through
// it instead of asking the loop. It never changes, so two questions about one glass get
// consistent answers.
type Glass struct {
	AsOf     time.Time
	Epoch    uint64
	Revision int64 // of the store, as of the last commit

	made  time.Time // when it was made, on the clock of this process
	core  *core.Core
	gates why.Gates
	// names and periods are set for glasses of past moments: what users called operations, and the periods of
	// updates and heartbeats.
	names   map[core.OperationID]string
	periods [2]time.Duration
	once    sync.Once
	shared  *why.Scene
}

// scene returns the round that all questions share. The first one runs it, at its pace.
func (g *Glass) scene(w *worker) *why.Scene {
	g.once.Do(func() { g.shared = why.LookSlowly(g.core, g.AsOf, g.gates, w.proceed) })
	return g.shared
}

// glassCase holds the current glass.
type glassCase struct {
	making  chan struct{} // full while a caller asks the loop for a glass
	mutex   sync.Mutex
	current *Glass
	asked   time.Time // the last question
	drop    *time.Timer
}

// look returns the current glass. If there is none, or it is older than an update period, the
// loop makes one. With fresh, a glass that existed before the call is too old.
func (s *Server) look(ctx context.Context, fresh bool) (*Glass, error) {
	asked := time.Now()
	valid := func() *Glass {
		s.glass.mutex.Lock()
		defer s.glass.mutex.Unlock()
		g, t := s.glass.current, s.term.Load()
		if g == nil || t == nil || g.Epoch != t.epoch || fresh && g.made.Before(asked) || !fresh && time.Since(g.made) > s.settings().UpdatePeriod {
			return nil
		}
		s.keepGlass()
		return g
	}
	if g := valid(); g != nil {
		return g, nil
	}
	select { // one caller at a time asks the loop; the others use its glass
	case s.glass.making <- struct{}{}:
		defer func() { <-s.glass.making }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if g := valid(); g != nil {
		return g, nil
	}
	g, err := askHow(ctx, s, true, func(t *term) (*Glass, error) {
		t.answerNow = true
		t.server.counters.glasses.Add(1)
		return t.makeGlass(), nil
	})
	if err != nil {
		return nil, err
	}
	s.glass.mutex.Lock()
	defer s.glass.mutex.Unlock()
	s.glass.current = g
	s.keepGlass()
	return g, nil
}

// keepGlass postpones the end of the current glass. The caller holds the mutex.
func (s *Server) keepGlass() {
	s.glass.asked = time.Now()
	if s.glass.drop == nil {
		s.glass.drop = time.AfterFunc(glassPatience, s.dropGlass)
	}
}

// dropGlass drops the glass if nobody has asked for glassPatience, and otherwise looks again
// later.
func (s *Server) dropGlass() {
	s.glass.mutex.Lock()
	defer s.glass.mutex.Unlock()
	if left := glassPatience - time.Since(s.glass.asked); left > 0 {
		s.glass.drop.Reset(left)
		return
	}
	s.glass.current, s.glass.drop = nil, nil
}

// makeGlass forks the core. It runs on the loop.
func (t *term) makeGlass() *Glass {
	return &Glass{AsOf: t.now, Epoch: t.epoch, Revision: t.revision, made: time.Now(), core: t.core.Fork(), gates: t.gates()}
}

// gates returns the reasons outside the core for which nodes get no jobs; schedule applies the
// same ones.
func (t *term) gates() (gates why.Gates) {
	if t.reviving {
		g := why.Gate{Code: why.SchedulerReviving, Since: t.begun, Until: t.deadline}
		for name := range t.awaited {
			g.Nodes = append(g.Nodes, name)
		}
		slices.SortFunc(g.Nodes, strings.Compare)
		gates.Cluster = append(gates.Cluster, g)
	}
	if waiting := len(t.requests); waiting > t.server.settings().SoftQueue {
		gates.Cluster = append(gates.Cluster, why.Gate{Code: why.SchedulerOverloaded, Waiting: waiting, Since: t.overloadedSince})
	}
	if t.stalled() {
		gates.Cluster = append(gates.Cluster, why.Gate{Code: why.StoreUnavailable, Since: t.now.Add(-t.stalledFor())})
	}
	for _, node := range t.nodeList {
		if code, gated := t.gateOf(node); gated {
			gates.Nodes = append(gates.Nodes, why.NodeGate{
				Node: node.id, Name: node.record.Name, Code: code, Resources: node.record.Limits, Tags: node.record.Tags,
			})
		}
	}
	return gates
}

// gateOf returns why a node that is online gets no jobs. Nodes that are offline are none that
// could get some.
func (t *term) gateOf(node *activeNode) (why.NodeGateCode, bool) {
	if t.core.IsAwaited(node.id) {
		return why.NodeAwaited, true
	}
	if node.session == nil || !node.record.Online {
		return 0, false
	}
	status := node.session.Status()
	switch {
	case node.settings.Banned:
		return why.NodeBanned, true
	case status.GetDraining():
		return why.NodeDraining, true
	case status.GetJobsDisabled() || node.settings.TakesNoJobs():
		return why.NodeJobsDisabled, true
	case node.record.Tree == "":
		return why.NodeWithoutTree, true
	}
	return 0, false
}
