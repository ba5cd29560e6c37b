package server

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/control/store"
)

// NameCount is the number of operations with a name.
type NameCount struct {
	Name  string
	Count int64
}

// OperationCounts are the counts for the choices of each filter, by name. See
// [store.OperationCounts].
type OperationCounts struct {
	Trees, Pools, Users, States, Types []NameCount
	FailedJobs, Total                  int64
}

// poolCounts are counts by pool with their sorted list, which is built on demand and kept
// until the counts change.
type poolCounts struct {
	counts map[string]int64
	mutex  sync.Mutex
	list   []NameCount
}

func (p *poolCounts) add(pool string, n int64) {
	if p.counts[pool] += n; p.counts[pool] == 0 {
		delete(p.counts, pool)
	}
	p.list = nil
}

// sorted returns the list. Readers share it.
func (p *poolCounts) sorted() []NameCount {
	if p == nil {
		return []NameCount{}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.list == nil {
		p.list = sortedCounts(p.counts)
	}
	return p.list
}

func sortedCounts(counts map[string]int64) []NameCount {
	list := make([]NameCount, 0, len(counts))
	for name, n := range counts {
		list = append(list, NameCount{name, n})
	}
	slices.SortFunc(list, func(a, b NameCount) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// counts returns the counts for the choices of a filter, each among the operations that
// pass the filters before it.
func (x *operationIndex) counts(f *store.OperationFilter) OperationCounts {
	w := x.wanted(f)
	if w.from != 0 || w.to != 0 {
		return x.countsWithin(&w)
	}
	sum := tally{words: x, wanted: &w}
	switch {
	case f.Pool != "":
		for _, place := range w.places {
			sum.addAll(x.placings[place].groups)
		}
	case f.Tree != "":
		sum.addAll(x.byTree[f.Tree])
	default:
		sum.addAll(x.all)
	}
	out := sum.counts()
	out.Trees = sortedCounts(x.trees)
	out.Pools = x.pools[f.Tree].sorted()
	return out
}

// countsWithin counts the operations in a time range one by one.
func (x *operationIndex) countsWithin(w *wanted) OperationCounts {
	part := newOperationIndex()
	part.users, part.states, part.types, part.placesOf = x.users, x.states, x.types, x.placesOf
	part.placings = make([]placing, len(x.placings))
	for i := range part.placings {
		part.placings[i] = placing{pools: x.placings[i].pools, groups: groups{}}
	}
	for _, e := range x.within(w.from, w.to) {
		part.count(e, 1)
	}
	whole := *w.OperationFilter
	whole.From, whole.To = time.Time{}, time.Time{}
	return part.counts(&whole)
}

// tally sums groups for the choices of a filter.
type tally struct {
	words                *operationIndex
	wanted               *wanted
	users, states, types map[int32]int64
	failed, total        int64
}

func (t *tally) addAll(list groups) {
	if t.users == nil {
		t.users, t.states, t.types = map[int32]int64{}, map[int32]int64{}, map[int32]int64{}
	}
	w := t.wanted
	for v, n := range list {
		t.users[v.user] += n
		if w.User != "" && v.user != w.user {
			continue
		}
		t.states[v.state] += n
		if w.State != "" && v.state != w.state {
			continue
		}
		t.types[v.typ] += n
		if w.Type != "" && v.typ != w.typ {
			continue
		}
		if v.failed {
			t.failed += n
		}
		if w.WithFailedJobs == nil || *w.WithFailedJobs == v.failed {
			t.total += n
		}
	}
}

func (t *tally) counts() OperationCounts {
	named := func(counts map[int32]int64, words *words) []NameCount {
		byName := make(map[string]int64, len(counts))
		for number, n := range counts {
			byName[words.texts[number]] = n
		}
		return sortedCounts(byName)
	}
	return OperationCounts{
		Users: named(t.users, &t.words.users), States: named(t.states, &t.words.states), Types: named(t.types, &t.words.types),
		FailedJobs: t.failed, Total: t.total,
	}
}
