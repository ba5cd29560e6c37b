package why

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/resource"
)

// Pool is what a pool demands and does not have, and why.
type Pool struct {
	AsOf       time.Time
	Tree, Pool string
	// Usage and Demand are what its operations use and demand. Resource is the
	// dominant resource of the demand; the amounts below are of it.
	Usage, Demand resource.Amounts
	Resource      resource.Kind
	Gap           int64 // demand minus usage
	// Guarantee is what it gets of its guarantee, nil if it has none. The ledger of guarantees has
	// the same figures.
	Guarantee *core.Guarantee
	// Rows divide the gap by first blocker, largest first; they sum to it exactly.
	Rows []Row
	// Waiting are the operations that wait for most, at most ten.
	Waiting []Waiting
	// Children are the pools directly below, with their own gaps.
	Children []Child
}

// Row is the part of a gap that has one cause.
type Row struct {
	// StartsNow reports that jobs start in the round; otherwise Blocker is the first
	// blocker of the first of them.
	StartsNow  bool
	Blocker    Blocker
	Amount     int64
	Jobs       int
	Operations int
}

// Waiting is an operation that waits.
type Waiting struct {
	Operation core.OperationID
	Pool      string
	Amount    int64
	Jobs      int
	StartsNow bool
	Blocker   Blocker // the first one, unless it starts now
}

// Child is a pool below another one.
type Child struct {
	Pool       string
	Usage, Gap int64
}

// mostWaiting is the number of operations that a pool's explanation lists.
const mostWaiting = 10

// Pool explains what a pool demands and does not have. It stops early, with an
// error, when proceed returns false.
func (s *Scene) Pool(tree, pool string, proceed func() bool) (*Pool, error) {
	at := slices.Index(s.core.Trees(), tree)
	if at < 0 {
		return nil, fmt.Errorf("there is no pool tree %q", tree)
	}
	id := core.TreeID(at)
	demand, ok := s.core.PoolDemand(id, pool)
	if !ok {
		return nil, &core.PoolError{Tree: tree, Pool: pool, Rule: core.PoolMissing}
	}
	x := &Pool{AsOf: s.now, Tree: tree, Pool: pool, Usage: demand.Usage, Demand: demand.Demand}
	x.Resource = dominant(demand.Demand.Share(s.core.TreeTotal(id)))
	x.Gap = demand.Demand[x.Resource] - demand.Usage[x.Resource]
	if g, ok := s.core.GuaranteeOf(id, pool); ok {
		x.Guarantee = &g
	}
	fall := waterfall{rows: map[rowKey]*Row{}}
	for _, operation := range demand.Operations {
		if !proceed() {
			return nil, ErrStopped
		}
		if err := s.pour(&fall, x, id, operation); err != nil {
			return nil, err
		}
	}
	for _, key := range fall.order {
		if row := fall.rows[key]; row.Amount > 0 {
			x.Rows = append(x.Rows, *row)
		}
	}
	slices.SortStableFunc(x.Rows, func(a, b Row) int { return cmp.Compare(b.Amount, a.Amount) })
	slices.SortStableFunc(x.Waiting, func(a, b Waiting) int { return cmp.Compare(b.Amount, a.Amount) })
	x.Waiting = x.Waiting[:min(len(x.Waiting), mostWaiting)]
	for _, name := range s.core.ChildPools(id, pool) {
		d, _ := s.core.PoolDemand(id, name)
		x.Children = append(x.Children, Child{Pool: name, Usage: d.Usage[x.Resource], Gap: d.Demand[x.Resource] - d.Usage[x.Resource]})
	}
	return x, nil
}

// Trees returns the names of the trees.
func (s *Scene) Trees() []string { return s.core.Trees() }

func dominant(shares resource.Shares) resource.Kind {
	best := resource.CPU
	for k, share := range shares {
		if share > shares[best] {
			best = resource.Kind(k)
		}
	}
	return best
}

// rowKey identifies a cause.
type rowKey struct {
	startsNow bool
	code      Code
	pool      string
	resource  resource.Kind
}

type waterfall struct {
	rows  map[rowKey]*Row
	order []rowKey
}

// pour divides what an operation demands and does not have: each kind puts its
// waiting demand under its first blocker, until the operation's demand is used up.
func (s *Scene) pour(fall *waterfall, x *Pool, id core.TreeID, operation core.OperationID) error {
	found, err := s.operation(operation, false)
	if err != nil {
		return err
	}
	tree := slices.IndexFunc(found.Facts.Trees, func(t core.TreeExplanation) bool { return t.ID == id })
	facts := &found.Facts.Trees[tree]
	rest := facts.Demand[x.Resource] - facts.Usage[x.Resource]
	w := Waiting{Operation: operation, Pool: facts.Pool, Amount: rest}
	named := false
	put := func(b *Blocker, jobs int, need int64) {
		amount := min(need*int64(jobs), rest)
		rest -= amount
		w.Jobs += jobs
		key := rowKey{startsNow: b == nil}
		if b != nil {
			key = rowKey{code: b.Code, pool: b.Pool, resource: b.Resource}
		}
		row := fall.rows[key]
		if row == nil {
			row = &Row{StartsNow: b == nil}
			if b != nil {
				row.Blocker = *b
			}
			fall.rows[key] = row
			fall.order = append(fall.order, key)
		}
		row.Amount += amount
		row.Jobs += jobs
		row.Operations++
		if !named {
			named, w.StartsNow = true, b == nil
			if b != nil {
				w.Blocker = *b
			}
		}
	}
	for i := range found.Kinds {
		k := &found.Kinds[i]
		if k.Tree != x.Tree {
			continue
		}
		left := int(k.Waiting)
		if k.Starts > 0 {
			now := min(k.Starts, left)
			if len(k.Then) == 0 {
				now = left // the rest starts in the next rounds
			}
			put(nil, now, k.Need[x.Resource])
			if left -= now; left > 0 {
				put(&k.Then[0], left, k.Need[x.Resource])
			}
		} else {
			put(&k.Blockers[0], left, k.Need[x.Resource])
		}
	}
	if w.Jobs > 0 {
		x.Waiting = append(x.Waiting, w)
	}
	return nil
}
