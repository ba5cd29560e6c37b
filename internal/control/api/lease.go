package api

import (
	"slices"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// leases are transactions. Changes take effect at once, whatever transaction
// they name; a transaction is only a name that must be pinged.
type leases struct {
	mutex sync.Mutex
	table map[guid.ID]*lease
	locks map[string][]heldLock // by what is locked
}

type heldLock struct {
	by   guid.ID
	mode string
	path string
}

type lease struct {
	id, parent guid.ID
	owner      string
	timeout    time.Duration
	started    time.Time
	deadline   time.Time
	attributes []yson.Entry
}

// Bounds of transactions.
const (
	defaultLease = 15 * time.Second
	maxLease     = time.Hour
	maxLeases    = 100_000
)

// start makes a lease. Expired ones are forgotten on the way.
func (l *leases) start(entry *lease) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.table == nil {
		l.table = map[guid.ID]*lease{}
	}
	if len(l.table) >= maxLeases/2 {
		for id, other := range l.table {
			if entry.started.After(other.deadline) {
				delete(l.table, id)
			}
		}
	}
	if len(l.table) >= maxLeases {
		return errorf(codeGeneric, "There are more than %d transactions", maxLeases)
	}
	l.table[entry.id] = entry
	return nil
}

// find returns a copy of a lease that has not ended.
func (l *leases) find(id guid.ID, now time.Time) (lease, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	entry, there := l.table[id]
	if !there || now.After(entry.deadline) {
		delete(l.table, id)
		return lease{}, noTransaction(id)
	}
	return *entry, nil
}

func noTransaction(id guid.ID) *Error {
	return errorf(codeNoTransaction, "No such transaction %s", id).with("transaction_id", yson.String(id.String()))
}

// ping gives a lease its whole time again, and its ancestors if asked to.
func (l *leases) ping(id guid.ID, ancestors bool, now time.Time) error {
	if _, err := l.find(id, now); err != nil {
		return err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for entry := l.table[id]; entry != nil; entry = l.table[entry.parent] {
		entry.deadline = now.Add(entry.timeout)
		if !ancestors {
			break
		}
	}
	return nil
}

// end forgets a lease and those below it.
func (l *leases) end(id guid.ID, now time.Time) error {
	if _, err := l.find(id, now); err != nil {
		return err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	ended := map[guid.ID]bool{id: true}
	for grown := true; grown; {
		grown = false
		for other, entry := range l.table {
			if ended[entry.parent] && !ended[other] {
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

// list returns the ids of leases that have not ended, in the order of their text.
func (l *leases) list(now time.Time) []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var ids []string
	for id, entry := range l.table {
		if !now.After(entry.deadline) {
			ids = append(ids, id.String())
		}
	}
	return sortedUnique(ids)
}

// lock takes a lock for a lease unless it is in conflict with one of another
// lease that has not ended; those above the lease are no others.
func (l *leases) lock(key, path, mode string, by guid.ID, now time.Time) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	own := map[guid.ID]bool{}
	for entry := l.table[by]; entry != nil; entry = l.table[entry.parent] {
		own[entry.id] = true
	}
	var kept []heldLock
	for _, held := range l.locks[key] {
		entry := l.table[held.by]
		if entry == nil || now.After(entry.deadline) {
			continue
		}
		if !own[held.by] && (mode == "exclusive" || held.mode == "exclusive") {
			return errorf(codeLockConflict, "Cannot take %q lock for node %s since %q lock is taken by concurrent transaction %s", mode, path, held.mode, held.by)
		}
		kept = append(kept, held)
	}
	if l.locks == nil {
		l.locks = map[string][]heldLock{}
	}
	l.locks[key] = append(kept, heldLock{by: by, mode: mode, path: path})
	return nil
}

// unlock gives back what a lease has locked of a node.
func (l *leases) unlock(path string, by guid.ID) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.drop(func(held heldLock) bool { return held.by == by && held.path == path })
}

// drop forgets locks.
func (l *leases) drop(which func(heldLock) bool) {
	for key, list := range l.locks {
		if list = slices.DeleteFunc(list, which); len(list) > 0 {
			l.locks[key] = list
		} else {
			delete(l.locks, key)
		}
	}
}

// transactionsNode lists the transactions of now.
func transactionsNode(c *call) object {
	return lazyMap{
		opaque: true,
		list:   func() ([]string, error) { return c.tree.leases.list(c.now), c.live() },
		get: func(key string) (object, error) {
			id, err := guid.Parse(key)
			if err != nil {
				return nil, nil
			}
			entry, err := c.tree.leases.find(id, c.now)
			if err != nil {
				return nil, c.live()
			}
			return leaseNode{entry: entry}, nil
		},
	}
}

type leaseNode struct {
	bare
	entry lease
}

func (leaseNode) kind() string { return "transaction" }

func (leaseNode) shape() shape { return opaqueShape }

func (n leaseNode) meta(*call) meta { return meta{id: n.entry.id, created: n.entry.started} }

func (n leaseNode) attribute(_ *call, _ *place, name string) (yson.Node, bool, error) {
	switch name {
	case "owner":
		return yson.String(n.entry.owner), true, nil
	case "timeout":
		return yson.Int64(n.entry.timeout.Milliseconds()), true, nil
	case "start_time":
		return instant(n.entry.started), true, nil
	case "last_ping_time":
		return instant(n.entry.deadline.Add(-n.entry.timeout)), true, nil
	case "parent_id":
		return yson.String(n.entry.parent.String()), true, nil
	}
	for _, e := range n.entry.attributes {
		if e.Key == name {
			return e.Value, true, nil
		}
	}
	return yson.Entity(), false, nil
}

func (n leaseNode) attributeNames(*call) (builtin, custom []string) {
	for _, e := range n.entry.attributes {
		custom = append(custom, e.Key)
	}
	return []string{"timeout", "start_time", "last_ping_time"}, custom
}
