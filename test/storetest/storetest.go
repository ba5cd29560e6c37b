// Package storetest is the conformance suite of the store: what every engine must do, with one named
// case for each guarantee. It also starts a private PostgreSQL server for tests.
//
// It must not distinguish engines: what is special about one is tested beside the store.
package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhq/weir/internal/control/store"
)

// A check is one case of the suite.
type check struct {
	name string
	run  func(f *fixture)
}

// suite lists the cases by subject.
var suite = []struct {
	subject string
	checks  []check
}{
	{"commit", commitChecks},
	{"operations", operationChecks},
	{"jobs", jobChecks},
	{"lease", leaseChecks},
	{"changes", changesChecks},
	{"list operations", listChecks},
	{"list jobs", jobListChecks},
	{"log", logChecks},
	{"retention", retentionChecks},
	{"export", exportChecks},
	{"history", historyChecks},
	{"concurrency", concurrencyChecks},
}

// Count returns the number of cases.
func Count() int {
	n := 0
	for _, s := range suite {
		n += len(s.checks)
	}
	return n
}

// Run runs all cases. Fresh returns the URL of a new, empty database.
func Run(t *testing.T, fresh func(t *testing.T) string) {
	for _, s := range suite {
		t.Run(s.subject, func(t *testing.T) {
			for _, c := range s.checks {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(newFixture(t, fresh))
				})
			}
		})
	}
}

// noon is when most events of the suite happen.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// fixture is a store with a leader.
type fixture struct {
	*testing.T
	ctx   context.Context
	fresh func(t *testing.T) string
	url   string
	s     *store.Store
	lease store.Lease
}

func newFixture(t *testing.T, fresh func(t *testing.T) string) *fixture {
	t.Helper()
	f := &fixture{T: t, ctx: t.Context(), fresh: fresh, url: fresh(t)}
	f.s = f.open(f.url)
	f.lease = f.acquire(f.s, "first")
	return f
}

// open opens a store and closes it at the end of the test.
func (f *fixture) open(url string) *store.Store {
	f.Helper()
	s, err := store.Open(f.ctx, url)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := s.Close(); err != nil {
			f.Errorf("close: %v", err)
		}
	})
	return s
}

func (f *fixture) acquire(s *store.Store, holder string) store.Lease {
	f.Helper()
	lease, err := s.Acquire(f.ctx, holder, holder+":1", time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	return lease
}

// seize takes the lease from its holder, as if it had expired: a holder of the same name need not wait.
func (f *fixture) seize(s *store.Store) store.Lease {
	f.Helper()
	leader, err := s.Leader(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	return f.acquire(s, leader.Holder)
}

func (f *fixture) commit(batch *store.Batch) store.Receipt {
	f.Helper()
	receipt, err := f.s.Commit(f.ctx, f.lease, batch)
	if err != nil {
		f.Fatal(err)
	}
	return receipt
}

func (f *fixture) put(rows store.Rows) store.Receipt {
	f.Helper()
	return f.commit(&store.Batch{Put: rows})
}

func (f *fixture) delete(rows store.Rows) store.Receipt {
	f.Helper()
	return f.commit(&store.Batch{Delete: rows})
}

func (f *fixture) load() *store.State {
	f.Helper()
	state, err := f.s.Load(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	return state
}

func (f *fixture) refuses(rows store.Rows, kind error) error {
	f.Helper()
	_, err := f.s.Commit(f.ctx, f.lease, &store.Batch{Put: rows})
	f.wants(err, kind)
	return err
}

func (f *fixture) wants(err, kind error) {
	f.Helper()
	if !errors.Is(err, kind) {
		f.Fatalf("the error is %v, want %v", err, kind)
	}
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// same compares values; empty and nil slices are the same.
func (f *fixture) same(got, want any) {
	f.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		f.Errorf("differs (- want, + got):\n%s", diff)
	}
}

// operation returns a minimal operation.
func operation(number int32, changes ...func(*store.Operation)) store.Operation {
	o := store.Operation{
		Number: number, ID: "op-" + string(rune('a'+number%26)) + "-" + time.Duration(number).String(), Type: "vanilla", User: "ann", State: "running",
		Pools: []store.TreePool{{Tree: "main", Pool: "prod"}}, StartTime: at(int(number)),
	}
	for _, change := range changes {
		change(&o)
	}
	return o
}

// job returns a running job, or a finished one if the sequence is not 0.
func job(number uint64, operation int32, sequence int64, changes ...func(*store.Job)) store.Job {
	j := store.Job{
		Number: number, Operation: operation, Task: "map", Type: "vanilla", Node: "node-1:9000", Tree: "main",
		State: "running", StartTime: at(int(number % 1000)),
	}
	if sequence != 0 {
		j.Sequence, j.State, j.FinishTime = sequence, "completed", at(1000+int(sequence))
	}
	for _, change := range changes {
		change(&j)
	}
	return j
}

func numbers(operations []store.Operation) []int32 {
	var list []int32
	for _, o := range operations {
		list = append(list, o.Number)
	}
	return list
}

func jobNumbers(jobs []store.Job) []uint64 {
	var list []uint64
	for _, j := range jobs {
		list = append(list, j.Number)
	}
	return list
}
