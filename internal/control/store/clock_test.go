package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/store"
)

// TestALeaseOutlivesAStepOfTheDatabasesClock sets the database's clock while another process
// holds the lease. The end of the lease is the only time that is compared with that clock, so the
// test moves it.
func TestALeaseOutlivesAStepOfTheDatabasesClock(t *testing.T) {
	for _, e := range engines {
		for way, step := range map[string]time.Duration{"forward": -24 * time.Hour, "back": 24 * time.Hour} {
			t.Run(e.name+" "+way, func(t *testing.T) {
				t.Parallel()
				url := e.fresh(t)
				first, second := open(t, url), open(t, url)
				const ttl = 500 * time.Millisecond
				lease, err := first.Acquire(t.Context(), "first", "first:1", ttl)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := raw(t, url).Exec("UPDATE leadership SET expires = expires + $1", step.Microseconds()); err != nil {
					t.Fatal(err)
				}
				_, err = second.Acquire(t.Context(), "second", "second:1", ttl)
				var held *store.HeldError
				if !errors.As(err, &held) {
					t.Fatalf("another that has not watched the lease gets %v", err)
				}
				if held.Leader.Remaining > time.Minute {
					t.Errorf("another waits for %v", held.Leader.Remaining)
				}
				renewed, err := first.Renew(t.Context(), lease, ttl)
				if err != nil {
					t.Fatalf("the holder cannot renew it: %v", err)
				}
				if _, err := second.Campaign(t.Context(), "second", "second:1", ttl, time.Millisecond); err != nil {
					t.Fatal(err)
				}
				if left := time.Until(renewed.Deadline); left > 0 {
					t.Errorf("another has the lease %v before its end", left)
				}
			})
		}
	}
}
