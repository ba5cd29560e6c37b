package server

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weirhq/weir/internal/control/store"
)

// operationIndex holds what lists of operations filter and count by, for every operation
// in the store. Its answers equal the store's exactly; it leaves what it cannot answer to
// the store. Names are numbers here, so that a scan of all operations takes microseconds.
type operationIndex struct {
	entries []catalogued // by start and number, oldest first

	users, states, types words
	places               map[string]int32   // sets of pools, by their text
	placings             []placing          // by the numbers in places
	placesOf             map[string][]int32 // places with a pool, in any tree

	// Counts of operations with equal values: of all operations, and by tree.
	all    groups
	byTree map[string]groups
	// Counts of operations by tree, and by pool in each tree; in any tree under "".
	trees map[string]int64
	pools map[string]*poolCounts
}

// catalogued is one operation.
type catalogued struct {
	start, finish int64 // microseconds; finish is zero until it ends
	number        int32
	place         int32
	values
}

// values are what operations are counted by beside their pools.
type values struct {
	user, state, typ int32
	failed           bool
}

// groups are counts of operations with the same values.
type groups map[values]int64

func (g groups) add(v values, n int64) {
	if g[v] += n; g[v] == 0 {
		delete(g, v)
	}
}

// placing is a set of pools that operations are in, one in each tree.
type placing struct {
	pools []store.TreePool
	count int64
	groups
}

// words maps texts to small numbers.
type words struct {
	numbers map[string]int32
	texts   []string
}

func (w *words) number(text string) int32 {
	n, there := w.numbers[text]
	if !there {
		if w.numbers == nil {
			w.numbers = map[string]int32{}
		}
		n = int32(len(w.texts))
		w.numbers[text] = n
		w.texts = append(w.texts, text)
	}
	return n
}

// find returns the number of a text, or one that no operation has.
func (w *words) find(text string) int32 {
	if n, there := w.numbers[text]; there {
		return n
	}
	return -1
}

func newOperationIndex() *operationIndex {
	return &operationIndex{
		places: map[string]int32{}, placesOf: map[string][]int32{}, all: groups{}, byTree: map[string]groups{}, trees: map[string]int64{}, pools: map[string]*poolCounts{},
	}
}

// micros returns a time as the store keeps it.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func byStart(a, b catalogued) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.number, b.number))
}

// put adds or updates a row.
func (x *operationIndex) put(row *store.Operation) {
	e := catalogued{
		start: micros(row.StartTime), finish: micros(row.FinishTime), number: row.Number, place: x.placeOf(row.Pools),
		values: values{x.users.number(row.User), x.states.number(row.State), x.types.number(row.Type), row.HasFailedJobs},
	}
	if last := len(x.entries) - 1; last < 0 || byStart(x.entries[last], e) < 0 {
		x.entries = append(x.entries, e) // as new ones come
	} else if at, there := slices.BinarySearchFunc(x.entries, e, byStart); there {
		x.count(x.entries[at], -1)
		x.entries[at] = e
	} else {
		x.entries = slices.Insert(x.entries, at, e)
	}
	x.count(e, 1)
}

// placeOf returns the number of a set of pools.
func (x *operationIndex) placeOf(pools []store.TreePool) int32 {
	pools = slices.Clone(pools)
	slices.SortFunc(pools, func(a, b store.TreePool) int {
		return cmp.Or(strings.Compare(a.Tree, b.Tree), strings.Compare(a.Pool, b.Pool))
	})
	var text strings.Builder
	for _, p := range pools {
		text.WriteString(p.Tree + "\t" + p.Pool + "\n") // names have neither
	}
	n, there := x.places[text.String()]
	if !there {
		n = int32(len(x.placings))
		x.places[text.String()] = n
		x.addPlacing(placing{pools: pools, groups: groups{}})
	}
	return n
}

func (x *operationIndex) addPlacing(p placing) {
	n := int32(len(x.placings))
	x.placings = append(x.placings, p)
	for i, at := range p.pools {
		if !slices.ContainsFunc(p.pools[:i], func(other store.TreePool) bool { return other.Pool == at.Pool }) {
			x.placesOf[at.Pool] = append(x.placesOf[at.Pool], n)
		}
	}
}

// count adds an operation to the counts, or removes it.
func (x *operationIndex) count(e catalogued, n int64) {
	p := &x.placings[e.place]
	p.count += n
	p.groups.add(e.values, n)
	x.all.add(e.values, n)
	for i, at := range p.pools {
		if x.trees[at.Tree] += n; x.trees[at.Tree] == 0 {
			delete(x.trees, at.Tree)
		}
		// An operation counts once for each name.
		if !slices.ContainsFunc(p.pools[:i], func(other store.TreePool) bool { return other.Tree == at.Tree }) {
			if x.byTree[at.Tree] == nil {
				x.byTree[at.Tree] = groups{}
			}
			x.byTree[at.Tree].add(e.values, n)
		}
		if !slices.Contains(p.pools[:i], at) {
			x.poolsOf(at.Tree).add(at.Pool, n)
		}
		if !slices.ContainsFunc(p.pools[:i], func(other store.TreePool) bool { return other.Pool == at.Pool }) {
			x.poolsOf("").add(at.Pool, n)
		}
	}
}

func (x *operationIndex) poolsOf(tree string) *poolCounts {
	p := x.pools[tree]
	if p == nil {
		p = &poolCounts{counts: map[string]int64{}}
		x.pools[tree] = p
	}
	return p
}

// drop removes operations.
func (x *operationIndex) drop(doomed func(catalogued) bool) (dropped int64) {
	x.entries = slices.DeleteFunc(x.entries, func(e catalogued) bool {
		gone := doomed(e)
		if gone {
			x.count(e, -1)
			dropped++
		}
		return gone
	})
	return dropped
}

// answers reports whether the index can answer a filter.
func (x *operationIndex) answers(f *store.OperationFilter) bool {
	return f.Text == "" && f.Live == nil && f.CursorNumber == 0 &&
		isPlainName(f.State) && isPlainName(f.Type) && isPlainName(f.User) && isPlainName(f.Tree) && isPlainName(f.Pool)
}

// isPlainName reports whether text looks like a name. Databases may treat other text in
// their own way.
func isPlainName(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// wanted is a filter translated to the numbers of an index.
type wanted struct {
	*store.OperationFilter
	user, state, typ int32
	from, to         int64
	places           []int32 // the places of the pool or the tree, sorted
}

func (x *operationIndex) wanted(f *store.OperationFilter) wanted {
	w := wanted{OperationFilter: f, user: x.users.find(f.User), state: x.states.find(f.State), typ: x.types.find(f.Type), from: micros(f.From), to: micros(f.To)}
	switch {
	case f.Pool != "":
		for _, place := range x.placesOf[f.Pool] {
			if x.placings[place].has(f.Tree, f.Pool) {
				w.places = append(w.places, place)
			}
		}
	case f.Tree != "":
		for i := range x.placings {
			if x.placings[i].has(f.Tree, "") {
				w.places = append(w.places, int32(i))
			}
		}
	}
	return w
}

// has reports whether one of the pools is in the given tree and is the given pool; an
// empty argument matches any.
func (p *placing) has(tree, pool string) bool {
	return slices.ContainsFunc(p.pools, func(at store.TreePool) bool {
		return (tree == "" || at.Tree == tree) && (pool == "" || at.Pool == pool)
	})
}

// takes reports whether an operation passes the filter, ignoring its times.
func (w *wanted) takes(e *catalogued) bool {
	if (w.Pool != "" || w.Tree != "") && !w.isAt(e.place) {
		return false
	}
	return (w.User == "" || e.user == w.user) && (w.State == "" || e.state == w.state) && (w.Type == "" || e.typ == w.typ) &&
		(w.WithFailedJobs == nil || e.failed == *w.WithFailedJobs)
}

func (w *wanted) isAt(place int32) bool {
	if len(w.places) < 8 {
		return slices.Contains(w.places, place)
	}
	_, there := slices.BinarySearch(w.places, place)
	return there
}

// within returns the operations between two times, from <= start < to; zero does not
// limit.
func (x *operationIndex) within(from, to int64) []catalogued {
	at := func(start int64) int {
		n, _ := slices.BinarySearchFunc(x.entries, start, func(e catalogued, start int64) int { return cmp.Compare(e.start, start) })
		return n
	}
	list := x.entries
	if to != 0 {
		list = list[:at(to)]
	}
	if from != 0 {
		list = list[min(at(from), len(list)):]
	}
	return list
}

// page returns the operations that pass a filter, newest first, and whether the limit cut
// the list.
func (x *operationIndex) page(f *store.OperationFilter) (page []catalogued, incomplete bool) {
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	w := x.wanted(f)
	list := x.within(w.from, w.to)
	cursor := micros(f.Cursor)
	if f.Direction == store.Future {
		for i := range list {
			if e := &list[i]; (cursor == 0 || e.start > cursor) && w.takes(e) {
				if page = append(page, *e); len(page) > limit {
					break
				}
			}
		}
	} else {
		for i := len(list) - 1; i >= 0; i-- {
			if e := &list[i]; (cursor == 0 || e.start < cursor) && w.takes(e) {
				if page = append(page, *e); len(page) > limit {
					break
				}
			}
		}
	}
	if len(page) > limit {
		page, incomplete = page[:limit], true
	}
	if f.Direction == store.Future {
		slices.Reverse(page)
	}
	return page, incomplete
}

// doomed returns the operations that a retention policy does not keep, as
// [store.Store.Retain] chooses them.
func (x *operationIndex) doomed(policy *store.Policy, now time.Time) map[int32]bool {
	var archive []catalogued
	for _, e := range x.entries {
		if e.finish != 0 {
			archive = append(archive, e)
		}
	}
	slices.SortFunc(archive, func(a, b catalogued) int {
		return cmp.Or(cmp.Compare(b.finish, a.finish), cmp.Compare(b.number, a.number))
	})
	cutoff := micros(now.Add(-policy.OperationAge))
	ofUser := map[int32]int{}
	doomed := map[int32]bool{}
	for i, e := range archive {
		ofUser[e.user]++
		if policy.OperationAge > 0 && e.finish < cutoff || policy.OperationsPerUser > 0 && ofUser[e.user] > policy.OperationsPerUser ||
			policy.Operations > 0 && i+1 > policy.Operations {
			doomed[e.number] = true
		}
	}
	return doomed
}

// tidy removes sets of pools that no operation has any more.
func (x *operationIndex) tidy() {
	dead := 0
	for i := range x.placings {
		if x.placings[i].count == 0 {
			dead++
		}
	}
	if dead < 1000 || dead < len(x.placings)/2 {
		return
	}
	moved := make([]int32, len(x.placings))
	old := x.placings
	x.placings, x.placesOf = nil, map[string][]int32{}
	for i, p := range old {
		if moved[i] = int32(len(x.placings)); p.count > 0 {
			x.addPlacing(p)
		}
	}
	for i := range x.entries {
		x.entries[i].place = moved[x.entries[i].place]
	}
	maps.DeleteFunc(x.places, func(_ string, place int32) bool { return old[place].count == 0 })
	for text, place := range x.places {
		x.places[text] = moved[place]
	}
}
