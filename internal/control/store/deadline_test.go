package store_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/store"
)

func TestEveryCallToASilentDatabaseEnds(t *testing.T) {
	r, through := newRelay(t, postgres.Fresh(t))
	s := open(t, through)
	lease := lead(t, s)
	const moment = 100 * time.Millisecond
	store.SetPatience(s, moment, moment)
	ctx := context.Background() // only the store's own deadline applies
	batch := func() *store.Batch {
		return &store.Batch{Put: store.Rows{Settings: []store.Setting{{Name: "a", Document: []byte("{}")}}}}
	}
	lost := batch()
	calls := map[string]func() error{
		"acquire": func() error { _, err := s.Acquire(ctx, "leader", "leader:1", time.Hour); return err },
		"renew":   func() error { _, err := s.Renew(ctx, lease, time.Hour); return err },
		"release": func() error { return s.Release(ctx, lease) },
		"commit":  func() error { _, err := s.Commit(ctx, lease, lost); return err },
		"an empty commit": func() error {
			_, err := s.Commit(ctx, lease, &store.Batch{})
			return err
		},
		"retain": func() error {
			_, err := s.Retain(ctx, lease, store.Policy{}, time.Now())
			return err
		},
		"leader":     func() error { _, err := s.Leader(ctx); return err },
		"load":       func() error { _, err := s.Load(ctx); return err },
		"changes":    func() error { _, err := s.Changes(ctx, 0); return err },
		"revision":   func() error { _, err := s.Revision(ctx); return err },
		"operations": func() error { _, err := s.Operations(ctx, store.OperationFilter{}); return err },
		"job":        func() error { _, err := s.Job(ctx, 1); return err },
		"events":     func() error { _, _, err := s.Events(ctx, store.EventFilter{}); return err },
		"export":     func() error { return s.Export(ctx, io.Discard) },
		"ping":       func() error { return s.Ping(ctx) },
	}
	r.silence.Lock()
	for name, call := range calls {
		if err := call(); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.silence.Unlock()
	store.SetPatience(s, time.Minute, time.Minute)
	// The link is back: the lost batch is repeated and applied once.
	lease, err := s.Acquire(ctx, "leader", "leader:1", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(ctx, lease, lost); err != nil {
		t.Error(err)
	}
}

func TestALeaseIsAskedForAgainBeforeItEnds(t *testing.T) {
	r, through := newRelay(t, postgres.Fresh(t))
	s := open(t, through)
	lease := lead(t, s)
	r.silence.Lock()
	defer r.silence.Unlock()
	const ttl = 2 * time.Second
	began := time.Now()
	if _, err := s.Renew(t.Context(), lease, ttl); !errors.Is(err, store.ErrUnavailable) {
		t.Error(err)
	}
	if took := time.Since(began); took < ttl/2 {
		t.Errorf("it is given up after %v", took)
	}
}
