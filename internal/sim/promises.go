package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/resource"
)

// promises keep the ledger of guarantees of a run, with the code of the daemon.
type promises struct {
	core.Books
	lost  []resource.Amounts // by tree: what nodes have that are gone
	stale bool               // nodes have come or gone since lost was computed
}

func newPromises() *promises { return &promises{Books: core.Books{Book: ledger.New()}, stale: true} }

// updated enters what pools may claim after an update that was due.
func (p *promises) updated(r *run) {
	if p == nil {
		return
	}
	if p.stale || r.everyBeat { // the core may have given up a silent node
		p.lost = append(p.lost[:0], make([]resource.Amounts, len(r.trees))...)
		for i := range r.nodes {
			if _, there := r.core.NodeTree(core.NodeID(i)); there {
				continue
			}
			if tree, ok := r.core.TreeFor(r.nodes[i].tags); ok && int(tree) < len(p.lost) {
				p.lost[tree] = p.lost[tree].Add(r.nodes[i].resources)
			}
		}
		p.stale = false
	}
	p.Updated(r.date(), r.core, func(id core.NodeID) bool { return r.pulses[id].closed }, p.lost, false)
}

// spent enters what the last input has changed.
func (p *promises) spent(r *run) {
	if p != nil {
		p.Spent(r.date(), r.core, nil)
	}
}

// nodesMove notes that nodes come or go.
func (p *promises) nodesMove() {
	if p != nil {
		p.stale = true
	}
}

// results closes the books: a line for each pool and resource, in the order of trees and pools.
func (p *promises) results(now time.Time) (list []outcome.Promise) {
	if p == nil {
		return nil
	}
	rows, _, _ := p.Flush(now)
	hours, err := ledger.Read(rows, ledger.Hour)
	if err != nil {
		panic(err) // it has just encoded them
	}
	for pool, by := range hours {
		var sums ledger.ByResource
		for _, hour := range by {
			for kind := range sums {
				sums[kind].Add(&hour[kind])
			}
		}
		sums.GatherFlow()
		for kind := range sums {
			if s := &sums[kind]; !s.IsZero() {
				list = append(list, promiseOf(pool, resource.Kind(kind), s))
			}
		}
	}
	slices.SortFunc(list, func(a, b outcome.Promise) int {
		return cmp.Or(cmp.Compare(a.Tree, b.Tree), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Resource, b.Resource))
	})
	return list
}

// promiseOf returns the books of a pool in units × seconds.
func promiseOf(pool ledger.Pool, kind resource.Kind, s *ledger.Sums) outcome.Promise {
	amount := func(sum ledger.Sum) float64 { return outcome.Round(sum.Seconds() / float64(kind.Scale())) }
	p := outcome.Promise{
		Tree: pool.Tree, Pool: pool.Name, Resource: kind.String(),
		Promised: amount(s.Promised), Asked: amount(s.Asked), Due: amount(s.Due), Got: amount(s.Got), Surplus: amount(s.Surplus),
		Short: amount(s.Missing()), Broken: amount(s.Broken()),
	}
	if kept, known := s.Kept(); known {
		kept = outcome.Round(kept)
		p.Kept = &kept
	}
	for cause := range ledger.CauseCount {
		if sum := s.Short[cause]; !sum.IsZero() {
			p.Causes = append(p.Causes, outcome.Cause{Name: cause.String(), Amount: amount(sum), Own: cause.IsOwn()})
		}
	}
	return p
}
