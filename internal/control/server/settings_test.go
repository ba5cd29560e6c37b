package server

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/test/expected"
)

func (s *scheduler) configure(change func(*Settings)) {
	settings := s.Settings()
	change(&settings)
	s.Configure(settings)
}

func TestPoolsOfOperationsChangeOnlyWhereThatIsAllowed(t *testing.T) {
	s := lead(t, t.TempDir())
	defer s.stop()
	s.pools("{pools: {a: {}, b: {}}}")
	key := OperationKey{ID: s.start("{pool: a, tasks: {t: {job_count: 1, command: x, memory_limit: 1MiB}}}")}
	to := func(text string) operation.Update {
		v, err := notation.Parse("", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		update, _, err := operation.ReadUpdate(v, "")
		if err != nil {
			t.Fatal(err)
		}
		return update
	}
	s.configure(func(c *Settings) { c.PoolChange = false })
	for _, text := range []string{"{pool: b}", "{scheduling_options_per_pool_tree: {default: {pool: b}}}"} {
		if err := s.UpdateOperation(t.Context(), tester, key, to(text)); !errors.Is(err, ErrPoolChange) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := s.UpdateOperation(t.Context(), tester, key, to("{weight: 2}")); err != nil {
		t.Error(err)
	}
	s.configure(func(c *Settings) { c.PoolChange = true })
	if err := s.UpdateOperation(t.Context(), tester, key, to("{pool: b}")); err != nil {
		t.Error(err)
	}
	s.eventually("the operation is in the other pool", func() bool {
		o, there := s.Operation(key)
		return there && len(o.Places) == 1 && o.Places[0].Pool == "b"
	})
}

func TestASilentNodeIsShownOfflineBeforeItsJobsAreGivenUp(t *testing.T) {
	s := lead(t, t.TempDir())
	defer s.stop()
	s.pools("{pools: {a: {}}}")
	node := newMachine(t, "n", 2)
	s.start("{pool: a, tasks: {t: {job_count: 1, command: x, memory_limit: 1MiB, cpu_limit: 1}}}")
	s.eventually("a job runs", func() bool { node.beat(s); return len(node.jobs) == 1 })
	online := func() bool {
		record, _ := s.Node("n")
		return record.Online
	}
	if !online() {
		t.Fatal("a node that reports is offline")
	}
	s.configure(func(c *Settings) { c.OfflineAfter = time.Millisecond })
	s.eventually("the node is offline", func() bool { return !online() })
	if jobs := s.Jobs(-1); len(jobs) != 1 {
		t.Errorf("%d jobs", len(jobs))
	}
	s.configure(func(c *Settings) { c.OfflineAfter = time.Minute })
	node.beat(s)
	s.eventually("the node is online", online)
}

func TestOfflineIsNeverLaterThanGivenUp(t *testing.T) {
	for _, test := range []struct{ offline, givenUp, want time.Duration }{
		{time.Minute, 5 * time.Minute, time.Minute}, {time.Minute, time.Second, time.Second},
		{time.Minute, 0, time.Minute}, {0, time.Second, time.Second}, {0, 0, 0},
	} {
		s := Settings{OfflineAfter: test.offline}
		s.Core.NodeTimeout = test.givenUp
		if got := s.offlineAfter(); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestNodesHearOfAnotherPeriodWithoutRegisteringAgain(t *testing.T) {
	s := lead(t, t.TempDir())
	defer s.stop()
	node := newMachine(t, "n", 1)
	node.beat(s)
	if got := node.session.Settings().HeartbeatPeriod; got != 5*time.Second {
		t.Fatalf("the period is %v", got)
	}
	for _, period := range []time.Duration{time.Second, 5 * time.Second} {
		s.configure(func(c *Settings) { c.HeartbeatPeriod = period })
		node.beat(s)
		if got := node.session.Settings().HeartbeatPeriod; got != period {
			t.Errorf("the period is %v, not %v", got, period)
		}
	}
}

// Requests within the window share a commit, and none waits longer than the window.
func TestRequestsShareACommitWithinTheWindow(t *testing.T) {
	settings := quickSettings()
	settings.UpdatePeriod = time.Hour
	s := leadWith(t, t.TempDir(), Options{Settings: settings})
	defer s.stop()
	s.pools("{pools: {a: {}}}")
	// Requests that arrive during a commit do not wait for the window, so make sure that there is
	// none, and no update that would start one.
	s.eventually("everything is on disk", func() bool {
		idle, err := askHow(t.Context(), s.Server, true, func(t *term) (bool, error) {
			t.answerNow = true
			return t.flight == nil && t.open.rows.Empty() && s.Counters().Updates > 0, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return idle
	})
	s.configure(func(c *Settings) { c.CommitWindow, c.MaxBatch = 4*time.Minute, 10 })
	began := time.Now()
	var askers sync.WaitGroup
	var receipts [10]int64
	for i := range receipts {
		askers.Go(func() {
			_, err := ask(t.Context(), s.Server, func(t *term) (struct{}, error) {
				t.open.rows.Put.Settings = append(t.open.rows.Put.Settings, store.Setting{Name: string(rune('a' + i)), Document: []byte("{}")})
				t.open.published = append(t.open.published, func(r store.Receipt) { receipts[i] = r.Revision })
				return struct{}{}, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	askers.Wait() // the window ends early once max_batch requests are there
	if waited := time.Since(began); waited > 2*time.Minute {
		t.Errorf("a full batch waited %v", waited)
	}
	for _, revision := range receipts {
		if revision != receipts[0] {
			t.Errorf("revisions %v", receipts)
		}
	}
	s.configure(func(c *Settings) { c.CommitWindow = time.Millisecond })
	s.start("{pool: a, tasks: {t: {job_count: 1, command: x, memory_limit: 1MiB}}}")
}

// Stored settings apply at once and in the next term, also in the core.
func TestSettingsAreDerivedFromTheRegistry(t *testing.T) {
	directory := t.TempDir()
	derive := func(r *Registry) Settings {
		settings := quickSettings()
		if text, there := r.Setting("stored"); there {
			settings.SoftQueue, settings.Core.MaxOperations = len(text), len(text)
		}
		return settings
	}
	s := leadWith(t, directory, Options{Settings: quickSettings(), Derive: derive})
	put := func(text string) {
		t.Helper()
		if err := s.EditRegistry(t.Context(), tester, func(*Registry) (*store.Batch, error) {
			b := &store.Batch{}
			b.Put.Settings = []store.Setting{{Name: "stored", Document: []byte(text)}}
			return b, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"a":1}`)
	if got := s.Settings().SoftQueue; got != 7 {
		t.Errorf("%d holds", got)
	}
	put(`{}`)
	s.pools("{pools: {a: {}}}")
	spec := "{pool: a, tasks: {t: {job_count: 1, command: x, memory_limit: 1MiB}}}"
	read, err := operation.Read(expected.Document(t, spec), operation.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tooMany := func(s *scheduler) {
		t.Helper()
		if _, err := s.StartOperation(t.Context(), tester, Start{Type: "vanilla", User: "anna", Spec: read}); !errors.Is(err, core.ErrTooManyOperations) {
			t.Errorf("the core does not obey what is stored: %v", err)
		}
	}
	s.start(spec)
	s.start(spec)
	tooMany(s)
	s.stop()
	again := leadWith(t, directory, Options{Settings: quickSettings(), Derive: derive})
	defer again.stop()
	if got := again.Settings(); got.SoftQueue != 2 || got.Core.MaxOperations != 2 {
		t.Errorf("after a restart %d and %d hold", got.SoftQueue, got.Core.MaxOperations)
	}
	tooMany(again)
}
