package pathtree

import (
	"slices"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// leases are transactions. Changes take effect at once, whatever transaction they name; a
// transaction is only a name that must be pinged.
type leases struct {
	mutex sync.Mutex
	table map[guid.ID]*Lease
	locks map[string][]heldLock // by locked object
}

type heldLock struct {
	by   guid.ID
	mode string
	path string
}

// Lease is one transaction.
type Lease struct {
	ID, Parent guid.ID
	Owner      string
	Timeout    time.Duration
	Started    time.Time
	Deadline   time.Time
	Attributes []yson.Entry
}

// Limits of transactions.
const (
	DefaultLease = 15 * time.Second
	MaxLease     = time.Hour
	maxLeases    = 100_000
)

// Start adds a lease. It also removes expired ones.
func (l *leases) Start(entry *Lease) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.table == nil {
		l.table = map[guid.ID]*Lease{}
	}
	if len(l.table) >= maxLeases/2 {
		for id, other := range l.table {
			if entry.Started.After(other.Deadline) {
				delete(l.table, id)
			}
		}
	}
	if len(l.table) >= maxLeases {
		return wire.Errorf(wire.CodeGeneric, "There are more than %d transactions", maxLeases)
	}
	l.table[entry.ID] = entry
	return nil
}

// Find returns a copy of an active lease.
func (l *leases) Find(id guid.ID, now time.Time) (Lease, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	entry, there := l.table[id]
	if !there || now.After(entry.Deadline) {
		delete(l.table, id)
		return Lease{}, noTransaction(id)
	}
	return *entry, nil
}

func noTransaction(id guid.ID) *wire.Error {
	return wire.Errorf(wire.CodeNoTransaction, "No such transaction %s", id).With("transaction_id", yson.String(id.String()))
}

// Ping renews a lease for its whole timeout, and on request its ancestors.
func (l *leases) Ping(id guid.ID, ancestors bool, now time.Time) error {
	if _, err := l.Find(id, now); err != nil {
		return err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for entry := l.table[id]; entry != nil; entry = l.table[entry.Parent] {
		entry.Deadline = now.Add(entry.Timeout)
		if !ancestors {
			break
		}
	}
	return nil
}

// End removes a lease and its descendants.
func (l *leases) End(id guid.ID, now time.Time) error {
	if _, err := l.Find(id, now); err != nil {
		return err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	ended := map[guid.ID]bool{id: true}
	for grown := true; grown; {
		grown = false
		for other, entry := range l.table {
			if ended[entry.Parent] && !ended[other] {
				ended[other], grown = true, true
			}
		}
	}
	for other := range ended {
		delete(l.table, other)
	}
	l.drop(func(held heldLock) bool { return ended[held.by] })
	return nil
}

// list returns the ids of active leases, sorted as text.
func (l *leases) list(now time.Time) []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var ids []string
	for id, entry := range l.table {
		if !now.After(entry.Deadline) {
			ids = append(ids, id.String())
		}
	}
	return SortedUnique(ids)
}

// Lock acquires a lock for a lease unless an active lease holds a conflicting one. Locks of the
// lease's ancestors do not conflict.
func (l *leases) Lock(key, path, mode string, by guid.ID, now time.Time) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	own := map[guid.ID]bool{}
	for entry := l.table[by]; entry != nil; entry = l.table[entry.Parent] {
		own[entry.ID] = true
	}
	var kept []heldLock
	for _, held := range l.locks[key] {
		entry := l.table[held.by]
		if entry == nil || now.After(entry.Deadline) {
			continue
		}
		if !own[held.by] && (mode == "exclusive" || held.mode == "exclusive") {
			return wire.Errorf(wire.CodeLockConflict, "Cannot take %q lock for node %s since %q lock is taken by concurrent transaction %s", mode, path, held.mode, held.by)
		}
		kept = append(kept, held)
	}
	if l.locks == nil {
		l.locks = map[string][]heldLock{}
	}
	l.locks[key] = append(kept, heldLock{by: by, mode: mode, path: path})
	return nil
}

// Unlock releases a lease's locks on a node.
func (l *leases) Unlock(path string, by guid.ID) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.drop(func(held heldLock) bool { return held.by == by && held.path == path })
}

// drop removes locks.
func (l *leases) drop(which func(heldLock) bool) {
	for key, list := range l.locks {
		if list = slices.DeleteFunc(list, which); len(list) > 0 {
			l.locks[key] = list
		} else {
			delete(l.locks, key)
		}
	}
}

// transactionsNode lists the active transactions.
func transactionsNode(c *Request) Object {
	return LazyMap{
		Opaque: true,
		List:   func() ([]string, error) { return c.Tree.Leases.list(c.Now), c.Live() },
		Get: func(key string) (Object, error) {
			id, err := guid.Parse(key)
			if err != nil {
				return nil, nil
			}
			entry, err := c.Tree.Leases.Find(id, c.Now)
			if err != nil {
				return nil, c.Live()
			}
			return leaseNode{entry: entry}, nil
		},
	}
}

type leaseNode struct {
	Bare
	entry Lease
}

func (leaseNode) Kind() string { return "transaction" }

func (leaseNode) Shape() Shape { return OpaqueShape }

func (n leaseNode) Meta(*Request) Meta { return Meta{ID: n.entry.ID, Created: n.entry.Started} }

func (n leaseNode) Attribute(_ *Request, _ *Place, name string) (yson.Node, bool, error) {
	switch name {
	case "owner":
		return yson.String(n.entry.Owner), true, nil
	case "timeout":
		return yson.Int64(n.entry.Timeout.Milliseconds()), true, nil
	case "start_time":
		return wire.Instant(n.entry.Started), true, nil
	case "last_ping_time":
		return wire.Instant(n.entry.Deadline.Add(-n.entry.Timeout)), true, nil
	case "parent_id":
		return yson.String(n.entry.Parent.String()), true, nil
	}
	for _, e := range n.entry.Attributes {
		if e.Key == name {
			return e.Value, true, nil
		}
	}
	return yson.Entity(), false, nil
}

func (n leaseNode) AttributeNames(*Request) (builtin, custom []string) {
	for _, e := range n.entry.Attributes {
		custom = append(custom, e.Key)
	}
	return []string{"timeout", "start_time", "last_ping_time"}, custom
}
