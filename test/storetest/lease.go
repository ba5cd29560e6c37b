package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/control/store"
)

var leaseChecks = []check{
	{"the first lease has the first epoch", func(f *fixture) {
		f.same(f.lease.Epoch, int64(1))
		leader, err := f.s.Leader(f.ctx)
		f.ok(err)
		if !leader.Alive || leader.Holder != "first" || leader.Address != "first:1" || leader.Remaining < 50*time.Minute {
			f.Errorf("the leader is %+v", leader)
		}
		if !leader.Expires.Equal(f.lease.Expires) || f.lease.Deadline.IsZero() {
			f.Errorf("the lease is %+v", f.lease)
		}
	}},
	{"a lease can begin above an epoch that the store has not seen", func(f *fixture) {
		lease, err := f.s.AcquireAbove(f.ctx, 500, "first", "first:1", hour)
		f.ok(err)
		f.same(lease.Epoch, int64(501))
		lease, err = f.s.AcquireAbove(f.ctx, 500, "first", "first:1", hour)
		f.ok(err)
		f.same(lease.Epoch, int64(502))
		f.lease = lease
		f.put(everything())
	}},
	{"nobody leads a new store", func(f *fixture) {
		s := f.open(f.fresh(f.T))
		leader, err := s.Leader(f.ctx)
		f.ok(err)
		f.same(leader, store.Leader{})
	}},
	{"another is told who leads", func(f *fixture) {
		other := f.open(f.url)
		_, err := other.Acquire(f.ctx, "second", "second:1", hour)
		f.wants(err, store.ErrHeld)
		var held *store.HeldError
		if !errors.As(err, &held) || held.Leader.Address != "first:1" {
			f.Errorf("the error is %v", err)
		}
		f.put(everything())
	}},
	{"a lease without a holder or a time is refused", func(f *fixture) {
		_, err := f.s.Acquire(f.ctx, "", "a", hour)
		f.wants(err, store.ErrInvalid)
		_, err = f.s.Acquire(f.ctx, "first", "a", 0)
		f.wants(err, store.ErrInvalid)
		_, err = f.s.Renew(f.ctx, f.lease, 0)
		f.wants(err, store.ErrInvalid)
	}},
	{"the same holder is back at once and fences itself", func(f *fixture) {
		old := f.lease
		f.lease = f.acquire(f.open(f.url), "first")
		f.same(f.lease.Epoch, old.Epoch+1)
		_, err := f.s.Commit(f.ctx, old, &store.Batch{Put: everything()})
		f.wants(err, store.ErrFenced)
		f.put(everything())
	}},
	{"a lease that has ended goes to the next who wants it", func(f *fixture) {
		_, err := f.s.Renew(f.ctx, f.lease, time.Microsecond)
		f.ok(err)
		other := f.open(f.url)
		lease, err := other.Campaign(f.ctx, "second", "second:1", 10*time.Millisecond, hour)
		f.ok(err)
		f.same(lease.Epoch, int64(2))
		leader, err := f.s.Leader(f.ctx)
		f.ok(err)
		f.same(leader.Holder, "second")
	}},
	{"a leader that slept through its lease can change nothing", func(f *fixture) {
		f.put(everything())
		other := f.open(f.url)
		f.seize(other)
		before := f.dump(other)
		batch := &store.Batch{Put: store.Rows{Users: []store.User{{Name: "late"}}, Events: []store.Event{{Type: "late"}}}, Delete: keys()}
		_, err := f.s.Commit(f.ctx, f.lease, batch)
		f.wants(err, store.ErrFenced)
		_, err = f.s.Commit(f.ctx, f.lease, &store.Batch{})
		f.wants(err, store.ErrFenced)
		_, err = f.s.Renew(f.ctx, f.lease, hour)
		f.wants(err, store.ErrFenced)
		f.wants(f.s.Release(f.ctx, f.lease), store.ErrFenced)
		_, err = f.s.Retain(f.ctx, f.lease, store.Policy{Tombstones: 1, EventAge: 1}, at(1e6))
		f.wants(err, store.ErrFenced)
		if !bytes.Equal(before, f.dump(other)) {
			f.Error("the store is different")
		}
	}},
	{"a lease that ended but that nobody took still writes", func(f *fixture) {
		_, err := f.s.Renew(f.ctx, f.lease, time.Microsecond)
		f.ok(err)
		for alive := true; alive; { // at most a millisecond
			leader, err := f.s.Leader(f.ctx)
			f.ok(err)
			alive = leader.Alive
		}
		f.put(everything())
		lease, err := f.s.Renew(f.ctx, f.lease, hour)
		f.ok(err)
		f.same(lease.Epoch, f.lease.Epoch)
	}},
	{"renewing moves the end", func(f *fixture) {
		lease, err := f.s.Renew(f.ctx, f.lease, 3*hour)
		f.ok(err)
		if !lease.Expires.After(f.lease.Expires.Add(hour)) || !lease.Deadline.After(f.lease.Deadline) {
			f.Errorf("from %v to %v", f.lease, lease)
		}
		leader, err := f.s.Leader(f.ctx)
		f.ok(err)
		f.same(leader.Expires, lease.Expires)
	}},
	{"a released lease is free at once", func(f *fixture) {
		f.ok(f.s.Release(f.ctx, f.lease))
		_, err := f.s.Renew(f.ctx, f.lease, hour)
		f.wants(err, store.ErrFenced)
		lease, err := f.open(f.url).Acquire(f.ctx, "second", "second:1", hour)
		f.ok(err)
		f.same(lease.Epoch, int64(2))
		_, err = f.s.Commit(f.ctx, f.lease, &store.Batch{Put: everything()})
		f.wants(err, store.ErrFenced)
	}},
	{"no lease means no write", func(f *fixture) {
		_, err := f.s.Commit(f.ctx, store.Lease{}, &store.Batch{Put: everything()})
		f.wants(err, store.ErrFenced)
		s := f.open(f.fresh(f.T))
		_, err = s.Commit(f.ctx, store.Lease{}, &store.Batch{Put: everything()})
		f.wants(err, store.ErrFenced)
		_, err = s.Commit(f.ctx, store.Lease{}, &store.Batch{})
		f.wants(err, store.ErrFenced)
	}},
	{"a campaign ends with its context", func(f *fixture) {
		ctx, cancel := context.WithCancel(f.ctx)
		other := f.open(f.url)
		done := make(chan error)
		go func() {
			_, err := other.Campaign(ctx, "second", "s", hour, hour)
			done <- err
		}()
		cancel()
		f.wants(<-done, context.Canceled)
	}},
	{"a campaign sees a release before the lease ends", func(f *fixture) {
		other := f.open(f.url)
		won := make(chan error)
		go func() {
			_, err := other.Campaign(f.ctx, "second", "s", hour, time.Millisecond)
			won <- err
		}()
		f.ok(f.s.Release(f.ctx, f.lease))
		f.ok(<-won)
	}},
	{"of many that want a free lease one gets it", func(f *fixture) {
		f.ok(f.s.Release(f.ctx, f.lease))
		stores := []*store.Store{f.open(f.url), f.open(f.url)}
		results := make([]error, 8)
		var group sync.WaitGroup
		for i := range results {
			group.Go(func() {
				_, results[i] = stores[i%2].Acquire(f.ctx, fmt.Sprint("holder", i), "a", hour)
			})
		}
		group.Wait()
		won := 0
		for _, err := range results {
			if err == nil {
				won++
			} else if !errors.Is(err, store.ErrHeld) {
				f.Error(err)
			}
		}
		f.same(won, 1)
		leader, err := f.s.Leader(f.ctx)
		f.ok(err)
		f.same(leader.Epoch, int64(2))
	}},
	{"leaders that fight write one after another", func(f *fixture) {
		// Each takes the lease from the others and commits until it is fenced. Every acknowledged
		// commit must exist, and revisions must have no gaps or duplicates.
		var mu sync.Mutex
		acknowledged := map[int64]string{}
		var group sync.WaitGroup
		for who := range 3 {
			s := f.open(f.url)
			group.Go(func() {
				for round := range 5 {
					lease, err := s.Campaign(f.ctx, "first", "same", hour, time.Millisecond)
					if err != nil {
						f.Error(err)
						return
					}
					for n := 0; ; n++ {
						name := fmt.Sprintf("%d-%d-%d", who, round, n)
						batch := &store.Batch{Put: store.Rows{Users: []store.User{{Name: name}}}}
						receipt, err := s.Commit(f.ctx, lease, batch)
						for errors.Is(err, store.ErrUnavailable) { // the others kept it waiting for long
							receipt, err = s.Commit(f.ctx, lease, batch)
						}
						if errors.Is(err, store.ErrFenced) || err == nil && n == 20 {
							break
						}
						if err != nil {
							f.Error(err)
							return
						}
						mu.Lock()
						if twice, ok := acknowledged[receipt.Revision]; ok {
							f.Errorf("revision %d for %s and %s", receipt.Revision, twice, name)
						}
						acknowledged[receipt.Revision] = name
						mu.Unlock()
					}
				}
			})
		}
		group.Wait()
		there := map[string]bool{}
		for _, u := range f.load().Rows.Users {
			there[u.Name] = true
		}
		for revision, name := range acknowledged {
			if !there[name] {
				f.Errorf("%s, revision %d, is lost", name, revision)
			}
		}
		f.same(f.load().Revision, int64(len(there)))
	}},
}

var changesChecks = []check{
	{"nothing has changed since the last revision", func(f *fixture) {
		f.put(everything())
		changes, err := f.s.Changes(f.ctx, 1)
		f.ok(err)
		f.same(*changes, store.Changes{Since: 1, Revision: 1, LastOperation: 7})
	}},
	{"all rows have changed since the beginning", func(f *fixture) {
		f.put(everything())
		changes, err := f.s.Changes(f.ctx, 0)
		f.ok(err)
		want := everything()
		want.Jobs, want.OperationProgress, want.ControllerSnapshots = nil, nil, nil
		f.same(changes.Put, want)
		f.same(changes.Delete, store.Rows{})
	}},
	{"jobs, progress and snapshots are no changes", func(f *fixture) {
		f.put(everything())
		f.put(store.Rows{
			Jobs:                everything().Jobs,
			OperationProgress:   everything().OperationProgress,
			ControllerSnapshots: everything().ControllerSnapshots,
		})
		f.delete(store.Rows{Jobs: everything().Jobs})
		changes, err := f.s.Changes(f.ctx, 1)
		f.ok(err)
		f.same(*changes, store.Changes{Since: 1, Revision: 3, LastOperation: 7})
	}},
	{"only rows put later are changes", func(f *fixture) {
		f.put(everything())
		f.put(store.Rows{Users: []store.User{{Name: "bob"}}})
		changes, err := f.s.Changes(f.ctx, 1)
		f.ok(err)
		f.same(changes.Put, store.Rows{Users: []store.User{{Name: "bob"}}})
		f.same(changes.Revision, int64(2))
	}},
	{"deletions of every kind are visible", func(f *fixture) {
		f.put(everything())
		f.delete(keys())
		changes, err := f.s.Changes(f.ctx, 1)
		f.ok(err)
		want := keys()
		// They are removed with their operation, and a deletion is reported if there was something to
		// delete.
		want.OperationSpecs, want.OperationProgress, want.ControllerSnapshots, want.Jobs = nil, nil, nil, nil
		f.same(changes.Delete, want)
		f.same(changes.Put, store.Rows{})
	}},
	{"a row that is deleted and put again is both", func(f *fixture) {
		f.put(store.Rows{Users: []store.User{{Name: "ann"}}})
		f.delete(store.Rows{Users: []store.User{{Name: "ann"}}})
		f.put(store.Rows{Users: []store.User{{Name: "ann", Document: []byte("2")}}})
		changes, err := f.s.Changes(f.ctx, 1)
		f.ok(err)
		f.same(changes.Delete, store.Rows{Users: []store.User{{Name: "ann"}}})
		f.same(changes.Put, store.Rows{Users: []store.User{{Name: "ann", Document: []byte("2")}}})
	}},
	{"a finished operation is a change", func(f *fixture) {
		f.put(store.Rows{Operations: []store.Operation{operation(1)}})
		f.put(store.Rows{Operations: []store.Operation{operation(1, finished(9))}})
		changes, err := f.s.Changes(f.ctx, 1)
		f.ok(err)
		f.same(changes.Put, store.Rows{Operations: []store.Operation{operation(1, finished(9))}})
	}},
	{"a revision of the future is invalid", func(f *fixture) {
		_, err := f.s.Changes(f.ctx, 1)
		f.wants(err, store.ErrInvalid)
	}},
	{"changes before the tombstones that are left are not known", func(f *fixture) {
		for i := range 10 {
			f.put(store.Rows{Users: []store.User{{Name: fmt.Sprint("u", i)}}})
		}
		f.delete(store.Rows{Users: []store.User{{Name: "u0"}}})
		_, err := f.s.Retain(f.ctx, f.lease, store.Policy{Tombstones: 3}, noon)
		f.ok(err)
		_, err = f.s.Changes(f.ctx, 7)
		f.wants(err, store.ErrTooOld)
		changes, err := f.s.Changes(f.ctx, 8)
		f.ok(err)
		f.same(changes.Delete, store.Rows{Users: []store.User{{Name: "u0"}}})
	}},
	{"a copy that follows the changes equals what is loaded", followChanges},
}

// followChanges makes random commits and lets a copy follow them at random moments. The copy is a map
// of users and pools; it applies deletions first, then puts.
func followChanges(f *fixture) {
	random := rand.New(rand.NewPCG(3, 4))
	users := map[string]string{}
	pools := map[string]string{}
	copied := int64(0)
	for range 60 {
		batch := &store.Batch{}
		for range 1 + random.IntN(4) {
			name := string(rune('a' + random.IntN(6)))
			value := fmt.Sprint(random.IntN(1000))
			switch random.IntN(4) {
			case 0:
				batch.Put.Users = append(batch.Put.Users, store.User{Name: name, Document: []byte(value)})
			case 1:
				batch.Delete.Users = append(batch.Delete.Users, store.User{Name: name})
			case 2:
				batch.Put.Pools = append(batch.Put.Pools, store.Pool{Tree: "t", Name: name, Parent: value})
			default:
				batch.Delete.Pools = append(batch.Delete.Pools, store.Pool{Tree: "t", Name: name})
			}
		}
		f.commit(batch)
		if random.IntN(3) > 0 {
			continue
		}
		changes, err := f.s.Changes(f.ctx, copied)
		f.ok(err)
		copied = changes.Revision
		for _, u := range changes.Delete.Users {
			delete(users, u.Name)
		}
		for _, p := range changes.Delete.Pools {
			delete(pools, p.Name)
		}
		for _, u := range changes.Put.Users {
			users[u.Name] = string(u.Document)
		}
		for _, p := range changes.Put.Pools {
			pools[p.Name] = p.Parent
		}
		loadedUsers, loadedPools := map[string]string{}, map[string]string{}
		rows := f.load().Rows
		for _, u := range rows.Users {
			loadedUsers[u.Name] = string(u.Document)
		}
		for _, p := range rows.Pools {
			loadedPools[p.Name] = p.Parent
		}
		if len(users) != len(loadedUsers) || len(pools) != len(loadedPools) {
			f.Fatalf("at revision %d the copy has %v and %v, the store %v and %v", copied, users, pools, loadedUsers, loadedPools)
		}
		for name, value := range loadedUsers {
			f.same(users[name], value)
		}
		for key, value := range loadedPools {
			if pools[key] != value {
				f.Errorf("pool %s is %q, want %q", key, pools[key], value)
			}
		}
	}
	if copied == 0 {
		f.Error("the copy never followed")
	}
}
