package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/node/nodeproto"
)

// cutLeases is a store that a test can make unreachable for one server.
type cutLeases struct {
	leases
	cut atomic.Bool
	// refuse returns the error of a commit; nil accepts all commits.
	refuse atomic.Pointer[func(*store.Batch) error]
}

// refuseBy makes commits fail with the errors that f returns.
func (l *cutLeases) refuseBy(f func(*store.Batch) error) { l.refuse.Store(&f) }

func (l *cutLeases) err() error {
	if l.cut.Load() {
		return fmt.Errorf("%w: the link is cut", store.ErrUnavailable)
	}
	return nil
}

func (l *cutLeases) AcquireAbove(ctx context.Context, floor int64, holder, address string, ttl time.Duration) (store.Lease, error) {
	if err := l.err(); err != nil {
		return store.Lease{}, err
	}
	return l.leases.AcquireAbove(ctx, floor, holder, address, ttl)
}

func (l *cutLeases) Renew(ctx context.Context, lease store.Lease, ttl time.Duration) (store.Lease, error) {
	if err := l.err(); err != nil {
		return store.Lease{}, err
	}
	return l.leases.Renew(ctx, lease, ttl)
}

func (l *cutLeases) Commit(ctx context.Context, lease store.Lease, batch *store.Batch) (store.Receipt, error) {
	if err := l.err(); err != nil {
		return store.Receipt{}, err
	}
	if refuse := l.refuse.Load(); refuse != nil {
		if err := (*refuse)(batch); err != nil {
			return store.Receipt{}, err
		}
	}
	return l.leases.Commit(ctx, lease, batch)
}

// runCuttable starts a server on the database of a directory; the test can cut it off from the
// database.
func runCuttable(t *testing.T, directory, name string, settings Settings) (*scheduler, *cutLeases) {
	t.Helper()
	db, err := store.Open(t.Context(), "sqlite:"+filepath.Join(directory, "weir.db"))
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Store: db, Name: name, Address: name + ":1", Settings: settings, Log: slog.New(slog.DiscardHandler)})
	link := &cutLeases{leases: db}
	s.leases = link
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop := func() {
		cancel()
		if err := errors.Join(<-done, db.Close()); err != nil {
			t.Error(err)
		}
	}
	return &scheduler{s, t, stop}, link
}

func TestTheLeadPassesToAnotherWithoutTwoLeaders(t *testing.T) {
	directory := t.TempDir()
	settings := quickSettings()
	settings.LeaseTTL = 500 * time.Millisecond
	a, link := runCuttable(t, directory, "a", settings)
	<-a.Led()
	a.pools("{pools: {p: {}}}")
	m := newMachine(t, "node-1", 4)
	a.eventually("the node is registered", func() bool {
		m.beat(a)
		_, registered := m.session.Registered()
		return registered
	})
	b, _ := runCuttable(t, directory, "b", settings)
	link.cut.Store(true)
	// Ask B first: once B leads, A must have stepped down.
	b.eventually("the other leads", func() bool {
		leads := b.Leading()
		if leads && a.Leading() {
			t.Fatal("both lead")
		}
		return leads
	})
	for _, err := range []error{
		setPools(t.Context(), a.Server, "{pools: {q: {}}}"),
		a.AbortOperation(t.Context(), tester, OperationKey{}, ""),
	} {
		if !errors.Is(err, ErrNotLeading) {
			t.Errorf("who was cut off answers %v", err)
		}
	}
	request, err := m.session.Heartbeat()
	if err != nil {
		t.Fatal(err)
	}
	var sent *nodeproto.NotLeaderError
	if _, err := a.NodeService().Heartbeat(t.Context(), nodeproto.Peer{Node: nodeproto.AnyNode}, request); !errors.As(err, &sent) {
		t.Errorf("a node that reports to it hears %v", err)
	}
	if reason := a.Standing(); !strings.Contains(reason, "lease") && !strings.Contains(reason, "the link is cut") {
		t.Errorf("it does not lead because %q", reason)
	}
	a.eventually("an alert says why", func() bool {
		alerts := a.Alerts()
		return len(alerts) == 1 && alerts[0].Kind == AlertStore && strings.Contains(alerts[0].Message, "the link is cut")
	})
	link.cut.Store(false)
	a.eventually("it stands by for the other", func() bool {
		if b.Leading() && a.Leading() {
			t.Fatal("both lead")
		}
		return a.Leader().Address == "b:1" && a.Standing() == "" && len(a.Alerts()) == 0
	})
	a.stop()
	b.stop()
}

func TestALeaderGoesOnWhenTheStoreWasAwayForAMoment(t *testing.T) {
	directory := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		settings := quickSettings()
		settings.UpdatePeriod = time.Second
		s, link := runCuttable(t, directory, "a", settings)
		<-s.Led()
		s.pools("{pools: {p: {}}}")
		epoch, ttl := s.Leader().Epoch, settings.LeaseTTL
		cut := time.Now()
		link.cut.Store(true)
		s.eventually("it does not lead", func() bool { return !s.Leading() })
		if lasted := time.Since(cut); lasted > ttl {
			t.Errorf("it led for %v after the store had last confirmed a lease of %v", lasted, ttl)
		}
		link.cut.Store(false)
		back := time.Now()
		s.eventually("it leads again", s.Leading)
		if took := time.Since(back); took > 2*ttl {
			t.Errorf("it took %v", took)
		}
		s.pools("{pools: {p: {}, q: {}}}")
		if got := s.Leader().Epoch; got != epoch {
			t.Errorf("epoch %d follows %d although nobody else led", got, epoch)
		}

		link.cut.Store(true)
		s.eventually("it does not lead", func() bool { return !s.Leading() })
		<-time.After(10 * ttl)
		link.cut.Store(false)
		back = time.Now()
		s.eventually("it leads again", s.Leading)
		if took := time.Since(back); took > 2*ttl {
			t.Errorf("after a long outage it took %v", took)
		}
		s.pools("{pools: {p: {}}}")
		if reason := s.Standing(); reason != "" {
			t.Errorf("it leads, and gives as the reason why it does not %q", reason)
		}
		s.stop()
	})
}

func TestANodeThatWaitsForACommitIsSentAwayWhenTheLeaseEnds(t *testing.T) {
	directory := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		settings := quickSettings()
		settings.LeaseTTL = 3 * time.Second
		s, link := runCuttable(t, directory, "a", settings)
		<-s.Led()
		link.cut.Store(true)
		began := time.Now()
		_, err := askHow(t.Context(), s.Server, true, func(t *term) (struct{}, error) {
			t.open.rows.Put.Users = append(t.open.rows.Put.Users, store.User{Name: "ann"})
			return struct{}{}, nil
		})
		if took := time.Since(began); !errors.Is(err, ErrNotLeading) || took > settings.LeaseTTL {
			t.Errorf("a node that waits hears %v after %v; a lease is %v", err, took, settings.LeaseTTL)
		}
		link.cut.Store(false)
		s.eventually("it leads again", s.Leading)
		s.stop()
	})
}

func TestOnAFullDiskEverybodyIsAnsweredInTime(t *testing.T) {
	directory := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		settings := quickSettings()
		settings.UpdatePeriod, settings.StallPatience, settings.LeaseTTL = time.Second, time.Second, 3*time.Second
		s, link := runCuttable(t, directory, "a", settings)
		<-s.Led()
		s.pools("{pools: {p: {}}}")
		var full atomic.Bool // for rows; a lease still fits
		link.refuseBy(func(*store.Batch) error {
			if full.Load() {
				return store.ErrFull
			}
			return nil
		})
		full.Store(true)
		began := time.Now()
		done, outcome := make(chan struct{}), make(chan error, 1)
		go func() { // a client that never gives up
			outcome <- setPools(context.Background(), s.Server, "{pools: {q: {}}}")
			close(done)
		}()
		err := s.WaitOutcome(done)
		if took := time.Since(began); !errors.Is(err, ErrUnknownOutcome) || took > 4*settings.LeaseTTL {
			t.Errorf("who waits hears %v after %v", err, took)
		}
		began = time.Now()
		err = setPools(context.Background(), s.Server, "{pools: {r: {}}}")
		if took := time.Since(began); !errors.Is(err, ErrOverloaded) || took > 0 {
			t.Errorf("who comes later hears %v after %v", err, took)
		}
		full.Store(false)
		if err := <-outcome; err != nil {
			t.Errorf("who waits on hears %v", err)
		}
		s.eventually("changes are taken again", func() bool {
			return setPools(context.Background(), s.Server, "{pools: {r: {}}}") == nil
		})
		s.stop()
	})
}

func TestAfterARestoreNodesComeBackAndNumbersDoNotRepeat(t *testing.T) {
	before := lead(t, t.TempDir())
	before.pools("{pools: {p: {}}}")
	var backup bytes.Buffer
	if err := before.Store().Export(t.Context(), &backup); err != nil {
		t.Fatal(err)
	}
	// After the backup, the epoch grows far beyond the backup's, as if leaders had come and gone.
	for range 2 {
		old := before.Leader().Epoch
		if _, err := askHow(t.Context(), before.Server, true, func(t *term) (struct{}, error) {
			t.answerNow = true
			return struct{}{}, t.overtaken("a test", uint64(store.ClockEpoch(time.Now())+1000))
		}); !errors.Is(err, ErrNotLeading) {
			t.Fatal(err)
		}
		before.eventually("it leads again", func() bool { return before.Leader().Epoch > old && before.Leading() })
	}
	m := newMachine(t, "node-1", 2)
	before.start(fmt.Sprintf(small, "p", 100))
	before.eventually("jobs run", func() bool { m.beat(before); return len(m.jobs) == 2 })
	seen := before.Leader().Epoch
	last := m.some()
	before.stop()

	directory := t.TempDir()
	db, err := store.Open(t.Context(), "sqlite:"+filepath.Join(directory, "weir.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Import(t.Context(), &backup), db.Close()); err != nil {
		t.Fatal(err)
	}
	after := lead(t, directory)
	if epoch := after.Leader().Epoch; epoch >= seen || epoch <= store.ClockEpoch(time.Now().Add(-time.Hour)) {
		t.Fatalf("the restored store begins at epoch %d", epoch)
	}
	after.start(fmt.Sprintf(small, "p", 100))
	lost := len(m.jobs)
	after.eventually("the node has new jobs", func() bool {
		if _, registered := m.session.Registered(); !registered {
			request := m.session.Register()
			response, err := after.NodeService().Register(t.Context(), nodeproto.Peer{Node: nodeproto.AnyNode}, request)
			if err == nil {
				err = m.session.Welcome(response)
			}
			if err != nil {
				m.session.Failed(request.GetSequence(), err)
				return false
			}
		}
		m.beat(after)
		for number := range m.jobs {
			if number > last+uint64(lost) && m.jobs[number].Identity.GetOperation() == 1 {
				return true
			}
		}
		return false
	})
	if epoch := after.Leader().Epoch; epoch <= seen {
		t.Errorf("epoch %d leads a node that has seen %d", epoch, seen)
	}
	after.stop()
}

func TestANodeCannotUseUpEpochs(t *testing.T) {
	s := lead(t, t.TempDir())
	epoch := s.Leader().Epoch
	request := newMachine(t, "node-1", 2).session.Register()
	request.KnownEpoch = 1 << 30
	var refused *nodeproto.RefusedError
	if _, err := s.NodeService().Register(t.Context(), nodeproto.Peer{Node: nodeproto.AnyNode}, request); !errors.As(err, &refused) {
		t.Errorf("it hears %v", err)
	}
	s.pools("{pools: {p: {}}}")
	if got := s.Leader().Epoch; got != epoch || !s.Leading() {
		t.Errorf("epoch %d follows %d", got, epoch)
	}
	s.stop()
}
