package server

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/control/store"
)

// library is a store and its catalogue, both of which get the same queries.
type library struct {
	server    *Server
	lease     store.Lease
	catalogue *catalogue
	begin     time.Time
	last      int32
	starts    map[int32]time.Time
}

func newLibrary(t testing.TB, directory string) *library {
	db, err := store.Open(t.Context(), "sqlite:"+filepath.Join(directory, "weir.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	lease, err := db.Acquire(t.Context(), "test", "test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return &library{
		server: New(Options{Store: db}), lease: lease, catalogue: newCatalogue(db),
		begin: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), starts: map[int32]time.Time{},
	}
}

// empty removes all operations from the library.
func (l *library) empty(t *rapid.T) {
	batch := &store.Batch{}
	for number := range l.starts {
		batch.Delete.Operations = append(batch.Delete.Operations, store.Operation{Number: number})
	}
	l.commit(t, batch)
	l.catalogue, l.starts, l.last = newCatalogue(l.server.store), map[int32]time.Time{}, 0
}

func (l *library) commit(t *rapid.T, batch *store.Batch) {
	if _, err := l.server.store.Commit(context.Background(), l.lease, batch); err != nil {
		t.Fatal(err)
	}
	l.catalogue.apply(batch)
}

var (
	someTrees  = []string{"default", "gpu", "a"}
	somePools  = []string{"p", "q", "research", "re", "search", "default"}
	someUsers  = []string{"anna", "boris", "Anna", ""}
	someStates = []string{"running", "pending", "completed", "failed"}
	someTypes  = []string{"vanilla", "map"}
)

// oneOf draws one of the words, or sometimes one of the others.
func oneOf(t *rapid.T, what string, words []string, others ...string) string {
	return rapid.SampledFrom(append(slices.Clone(words), others...)).Draw(t, what)
}

// row draws an operation, new or changed; several may start in the same microsecond.
func (l *library) row(t *rapid.T) store.Operation {
	number := l.last + 1
	if l.last > 0 && rapid.Bool().Draw(t, "known") {
		number = rapid.Int32Range(1, l.last).Draw(t, "number")
	}
	start, known := l.starts[number]
	if !known {
		// Nanoseconds are not stored.
		start = l.begin.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "start"))*time.Microsecond + time.Duration(rapid.IntRange(0, 999).Draw(t, "nanoseconds")))
		l.starts[number], l.last = start, max(l.last, number)
	}
	row := store.Operation{
		Number: number, ID: fmt.Sprint("id-", number), Type: oneOf(t, "type", someTypes), User: oneOf(t, "user", someUsers), State: oneOf(t, "state", someStates),
		HasFailedJobs: rapid.Bool().Draw(t, "failed"), StartTime: start, BriefSpec: fmt.Appendf(nil, "%d", number),
	}
	for _, tree := range rapid.SliceOfNDistinct(rapid.SampledFrom(someTrees), 0, 3, func(tree string) string { return tree }).Draw(t, "trees") {
		row.Pools = append(row.Pools, store.TreePool{Tree: tree, Pool: oneOf(t, "pool", somePools)})
	}
	if rapid.Bool().Draw(t, "finished") {
		row.FinishTime = l.begin.Add(time.Duration(rapid.IntRange(1, 10).Draw(t, "finish")) * time.Hour)
	}
	return row
}

func (l *library) filter(t *rapid.T) store.OperationFilter {
	moment := func(what string) time.Time {
		if rapid.IntRange(0, 2).Draw(t, what+" is given") > 0 {
			return time.Time{}
		}
		return l.begin.Add(time.Duration(rapid.IntRange(-1, 22).Draw(t, what))*time.Microsecond + time.Duration(rapid.IntRange(0, 999).Draw(t, what+" nanoseconds")))
	}
	f := store.OperationFilter{
		State: oneOf(t, "filter state", someStates, "", "", "", "", "aborted"), Type: oneOf(t, "filter type", someTypes, "", "", "reduce"),
		User: oneOf(t, "filter user", someUsers, "", "", "", "clara"), Tree: oneOf(t, "filter tree", someTrees, "", "", "", "moon"),
		Pool: oneOf(t, "filter pool", somePools, "", "", "", "", "", "sea", "p\nq", "gpu\tp", "\x00", "\xff"), From: moment("from"), To: moment("to"), Cursor: moment("cursor"),
		Limit: rapid.SampledFrom([]int{0, 1, 2, 3, 10, 1000}).Draw(t, "limit"), Direction: rapid.SampledFrom([]store.Direction{store.Past, store.Future}).Draw(t, "direction"),
	}
	if rapid.IntRange(0, 3).Draw(t, "with failed jobs is given") == 0 {
		with := rapid.Bool().Draw(t, "with failed jobs")
		f.WithFailedJobs = &with
	}
	return f
}

// compare queries the catalogue and the store and requires identical answers.
func (l *library) compare(t *rapid.T, f store.OperationFilter) (answered bool) {
	want, err := l.server.listStored(context.Background(), f, true)
	if err != nil {
		t.Fatal(err)
	}
	got, known, err := l.catalogue.list(context.Background(), l.server, &f, true)
	if err != nil {
		t.Fatal(err)
	}
	if !known {
		return false
	}
	texts := [2]string{}
	for i, page := range []OperationPage{want, got} {
		data, err := json.Marshal(page)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(data)
	}
	if texts[0] != texts[1] {
		t.Fatalf("%+v (-store +catalogue)\n%s", f, cmp.Diff(want, got))
	}
	return true
}

// The store, which reads all operations for each query, is the slow and obvious twin.
func TestTheCatalogueAnswersAsTheStoreDoes(t *testing.T) {
	l := newLibrary(t, t.TempDir())
	answered, asked := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		l.empty(t)
		loadAfter := rapid.IntRange(0, 2).Draw(t, "batches before it is read")
		for i := range rapid.IntRange(1, 4).Draw(t, "batches") {
			if i == loadAfter {
				if err := l.catalogue.load(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			batch := &store.Batch{}
			for range rapid.IntRange(1, 15).Draw(t, "rows") {
				row := l.row(t)
				if !slices.ContainsFunc(batch.Put.Operations, func(o store.Operation) bool { return o.Number == row.Number }) {
					batch.Put.Operations = append(batch.Put.Operations, row)
				}
			}
			l.commit(t, batch)
			if rapid.IntRange(0, 9).Draw(t, "delete") == 0 {
				l.commit(t, &store.Batch{Delete: store.Rows{Operations: []store.Operation{{Number: rapid.Int32Range(1, l.last).Draw(t, "deleted")}}}})
			}
			if rapid.IntRange(0, 5).Draw(t, "retain") == 0 {
				l.retain(t)
			}
			for range rapid.IntRange(0, 4).Draw(t, "questions") {
				asked++
				if l.compare(t, l.filter(t)) {
					answered++
				}
			}
		}
	})
	if answered < asked/5 {
		t.Errorf("the catalogue has answered %d of %d", answered, asked)
	}
}

// retain applies a retention policy and checks that the catalogue predicted the removals.
func (l *library) retain(t *rapid.T) {
	now := l.begin.Add(12 * time.Hour)
	policy := store.Policy{
		OperationAge:      time.Duration(rapid.IntRange(0, 11).Draw(t, "age")) * time.Hour,
		OperationsPerUser: rapid.IntRange(0, 4).Draw(t, "per user"), Operations: rapid.IntRange(0, 10).Draw(t, "in all"),
	}
	ready := l.catalogue.index != nil
	buried := l.catalogue.bury(&policy, now)
	removed, err := l.server.store.Retain(context.Background(), l.lease, policy, now)
	if err != nil {
		t.Fatal(err)
	}
	if ready && buried != removed.Operations {
		t.Fatalf("%+v: the catalogue drops %d operations, the store %d", policy, buried, removed.Operations)
	}
}

// Operations that are committed while the catalogue loads appear in it exactly once. A removal
// meanwhile makes it load again.
func TestACatalogueIsReadWhileOperationsChange(t *testing.T) {
	l := newLibrary(t, t.TempDir())
	put := func(from, to int32, state string) {
		t.Helper()
		batch := &store.Batch{}
		for number := from; number <= to; number++ {
			batch.Put.Operations = append(batch.Put.Operations, store.Operation{
				Number: number, ID: fmt.Sprint(number), State: state, StartTime: l.begin, FinishTime: l.begin.Add(time.Hour),
			})
		}
		if _, err := l.server.store.Commit(t.Context(), l.lease, batch); err != nil {
			t.Fatal(err)
		}
		l.catalogue.apply(batch)
	}
	put(1, 2*loadPage+1, "running")
	c := l.catalogue
	c.overlay = map[int32]*store.Operation{} // as load does at its start
	put(1, 1, "completed")
	put(2*loadPage+2, 2*loadPage+2, "completed")
	overlay := c.overlay
	if err := c.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(overlay) != 2 || len(c.index.entries) != 2*loadPage+2 {
		t.Errorf("%d operations, %d of them meanwhile", len(c.index.entries), len(overlay))
	}
	counts := c.index.counts(&store.OperationFilter{})
	if diff := cmp.Diff([]NameCount{{"completed", 2}, {"running", 2 * loadPage}}, counts.States); diff != "" {
		t.Error(diff)
	}
	c.forget()
	if c.with(&store.OperationFilter{}, func(*operationIndex) { t.Error("it answers what it has forgotten") }) || len(c.wanted) != 1 {
		t.Error("nobody is told that it is wanted")
	}
}

func TestNamesOfPoolsThatAreGoneAreForgotten(t *testing.T) {
	x := newOperationIndex()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for number := int32(1); number <= 3000; number++ {
		x.put(&store.Operation{
			Number: number, State: "completed", StartTime: begin.Add(time.Duration(number) * time.Second), FinishTime: begin.Add(time.Hour),
			Pools: []store.TreePool{{Tree: "default", Pool: fmt.Sprint("p", number)}},
		})
	}
	if dropped := x.drop(func(e catalogued) bool { return e.number%3 != 0 }); dropped != 2000 {
		t.Fatal(dropped)
	}
	x.tidy()
	if len(x.placings) != 1000 || len(x.places) != 1000 || len(x.placesOf) != 1000 || len(x.pools["default"].sorted()) != 1000 {
		t.Errorf("%d sets of pools, %d texts, %d pools", len(x.placings), len(x.places), len(x.placesOf))
	}
	for _, number := range []int32{3, 1500, 3000} {
		f := store.OperationFilter{Pool: fmt.Sprint("p", number)}
		if page, _ := x.page(&f); len(page) != 1 || page[0].number != number || x.counts(&f).Total != 1 {
			t.Errorf("in pool %s: %+v", f.Pool, page)
		}
	}
	if page, _ := x.page(&store.OperationFilter{Pool: "p1"}); len(page) != 0 {
		t.Error(page)
	}
}
